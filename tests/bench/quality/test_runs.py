"""Sweeps of `python -m bench.quality`: in several processes, and resumed from a results file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.quality import runs
from bench.quality.__main__ import main


def fake(data: Path, workload: str, policy: str, seed: int) -> dict[str, object]:
    return {
        "workload": workload,
        "policy": policy,
        "seed": seed,
        "unallocated_pct": float(seed),
        "frag_pct": 1.0,
        "seconds": 0.1,
    }


def test_runs_in_the_results_file_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "run", fake)
    results = tmp_path / "results.jsonl"
    known = {**fake(tmp_path, "default", "FGD", 2), "unallocated_pct": 50.0}
    results.write_text(f'{json.dumps(known)}\n{{"workload": "defau')
    results.write_text(results.read_text() + "\n")
    arguments = ["--workload", "default", "--policy", "FGD", "--seeds", "1-3", "--data", str(tmp_path)]
    (tmp_path / "nodes.csv").write_text("")
    found = CliRunner().invoke(main, [*arguments, "--results", str(results)])
    assert found.exit_code == 0, found.output
    assert found.stdout.splitlines()[1].split() == ["default", "FGD", "3.00", "-", "1.00", "0.1"]
    assert sorted(runs.read_results(results)) == [("default", "FGD", seed) for seed in (1, 2, 3)]


def test_several_processes_give_the_same_runs_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runs, "run", fake)
    assert not runs.run_all.__module__.endswith("__main__")  # a process could not find it there
    keys = [("default", "FGD", seed) for seed in range(5)]
    assert list(runs.run_all(tmp_path, keys, 2, None)) == [fake(tmp_path, *key) for key in keys]
