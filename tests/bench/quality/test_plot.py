from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

from click.testing import CliRunner

from bench.quality.plot import main


def test_the_chart_has_a_bar_for_each_median(tmp_path: Path) -> None:
    runs = [
        {"workload": workload, "policy": policy, "seed": seed, "unallocated_pct": 5.0 + seed}
        for workload in ("default", "cpu050")
        for policy in ("FGD", "mooring")
        for seed in (1, 2, 3)
    ]
    path = tmp_path / "chart.svg"
    result = CliRunner().invoke(main, ["-o", str(path)], input="".join(f"{json.dumps(run)}\n" for run in runs))
    assert result.exit_code == 0, result.output
    titles = [title.text for title in ET.parse(path).iter("{http://www.w3.org/2000/svg}title")]
    assert titles[1:] == [
        f"{workload} {policy} 7.00" for workload in ("default", "cpu050") for policy in ("FGD", "mooring")
    ]
