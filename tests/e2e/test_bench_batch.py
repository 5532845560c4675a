"""The benchmark of batch sessions measures what it says, on a small scale; how fast anything is, is not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_every_gang_is_bound_beside_the_client_that_decides_nothing(built: None) -> None:
    sizes = ["--nodes", "20", "--pods", "60", "--gang", "1", "--gang", "10"]
    command = [sys.executable, "-m", "bench.batch", *sizes, "-o", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    found = [(each["gang"], each["rate"]["scheduler"], each["rate"]["bound"]) for each in results]
    assert found == [(1, "mooring", 60), (1, "null", 60), (10, "mooring", 60), (10, "null", 60)]
    for each in results:
        assert each["rate"]["cpu_ms_per_pod"] > 0
        assert each["rate_to_volcano"] > 0
        assert bool(each["sessions"]["count"]) == (each["rate"]["scheduler"] == "mooring")
        assert each["sessions"]["mean_ms"] <= each["sessions"]["longest_ms"]
