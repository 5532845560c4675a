"""The live benchmark measures what it says, on a small scale; how fast anything is, is not asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_it_measures_schedulers_side_by_side(built: None) -> None:
    """Every pod is bound by each contender, from the same state, with an event for each where it sends them."""
    names = ["kube-scheduler", "null", "null+events", "null+watch"]
    chosen = [part for name in names for part in ("--scheduler", name)]
    sizes = ["--nodes", "20", "--pods", "60", "--running-pods", "40", "--single-pods", "3", "--load-pods", "30"]
    command = [sys.executable, "-m", "bench.live", *chosen, "--workload", "spread", *sizes, "-o", "json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    rates = [(each["scheduler"], each["nodes"], each["bound"]) for each in results["rates"]]
    assert rates == [("kube-scheduler", 20, 60), ("null", 20, 60), ("null+events", 20, 60), ("null+watch", 20, 60)]
    # On a busy machine there may be another event, about a pod that was tried twice.
    counts = [each["events"] for each in results["rates"]]
    assert (counts[0] >= 60, counts[1], counts[2] >= 60, counts[3] >= 60) == (True, 0, True, True)
    for each in results["rates"]:
        assert each["cpu_ms_per_pod"] > 0
        assert each["peak_mib"] > 0
        assert each["binds_per_s"] > 0
        assert each["rate_to_kube"] is not None
    # The other clients exit when the pods that they found are bound.
    assert [each["scheduler"] for each in results["startups"]] == ["kube-scheduler", "null+watch"]
    assert [each["pods"] for each in results["latencies"]] == [3, 3]
    for load in results["loads"]:
        assert (load["pods"], load["highest_per_s"] > 0, load["p50_ms"] <= load["p99_ms"]) == (30, True, True)
    assert len(results["loads"]) == 2


def test_it_measures_pods_with_devices(built: None) -> None:
    """Every workload with devices is bound by Mooring and by the client that only writes, as a scheduler does."""
    names = ["mooring", "null"]
    chosen = [part for name in names for part in ("--scheduler", name)]
    shown = ["--measure", "rate", "--workload", "dra-extended", "--workload", "dra-partitions", "-o", "json"]
    command = [sys.executable, "-m", "bench.live", *chosen, *shown, "--nodes", "4", "--pods", "24"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rates = [(each["workload"], each["scheduler"], each["bound"]) for each in json.loads(done.stdout)["rates"]]
    assert rates == [(f"dra-{kind}", name, 24) for kind in ("extended", "partitions") for name in names]
