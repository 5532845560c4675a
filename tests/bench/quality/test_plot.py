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


def chart(tmp_path: Path, runs: list[dict[str, object]], *arguments: str) -> ET.Element:
    path = tmp_path / "chart.svg"
    lines = "".join(f"{json.dumps(run)}\n" for run in runs)
    result = CliRunner().invoke(main, ["-o", str(path), *arguments], input=lines)
    assert result.exit_code == 0, result.output
    return ET.parse(path).getroot()


def test_published_medians_are_lines(tmp_path: Path) -> None:
    rows = ["workload,policy,seed,arrived_pct,unalloc_pct,frag_pct"]
    rows += [f"default,FGD,{seed},100,{seed},1" for seed in (2, 4, 9)]
    (tmp_path / "published.csv").write_text("\n".join(rows))
    runs = [
        {"workload": "default", "policy": policy, "seed": 1, "unallocated_pct": 8.0} for policy in ("FGD", "mooring")
    ]
    root = chart(tmp_path, runs, "--data", str(tmp_path))
    lines = [each for each in root.iter("{http://www.w3.org/2000/svg}path") if each.get("stroke") == "#222"]
    assert [each.get("d") for each in lines] == ["M39.5 164.0h7"]  # half as high as the bar of 8


def test_runs_with_departures(tmp_path: Path) -> None:
    run = {"utilization_pct": 90.0, "frag_pct": 4.0, "wait_mean_s": 100.0, "wait_p95_s": 300.0}
    runs = [{"policy": policy, **run, "wait_mean_s": wait} for policy in ("FGD", "mooring") for wait in (100.0, 200.0)]
    texts = [each.text for each in chart(tmp_path, runs).iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:3] == ["Utilization, %", "90.0", "FGD"]
    assert texts.count("150.0") == 2


def test_no_runs(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["-o", str(tmp_path / "chart.svg")], input="")
    assert "there are no runs on standard input" in result.stderr
