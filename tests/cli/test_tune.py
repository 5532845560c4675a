"""`mooring tune`: its tables, files and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import main
from mooring.config import load_config

LOAD = "nodes=4,pods=30,load=110"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["tune", "--jobs", "1", "--seeds", "1", *arguments])


def test_a_search_and_its_files(tmp_path: Path) -> None:
    space = tmp_path / "space.yaml"
    space.write_text(
        "weight/NodeResourcesFit: [1, 5]\nNodeResourcesFit/scoringStrategy.type: [MostAllocated, LeastAllocated]\n"
    )
    loss = tmp_path / "loss.py"
    loss.write_text("def loss(measures):\n    return measures['cost'] + measures['waiting']\n")
    arguments = ["--generate", LOAD, "--space", str(space), "--objective", "cost", "--objective", f"{loss}:loss"]
    out = tmp_path / "out"
    found = run(*arguments, "--trials", "4", "--out", str(out))
    assert found.exit_code == 0, found.output
    assert "4 trials" in found.stdout
    assert "PARETO FRONT\n" in found.stdout
    assert "generated, seed 1  cost" in found.stdout
    assert found.stderr.splitlines()[0] == "0/4 trials"
    assert found.stderr.splitlines()[-1].startswith("4/4 trials, best so far: cost ")
    assert (out / "pareto.svg").read_text().startswith("<svg")
    assert load_config((out / "config.yaml").read_text(), source="config.yaml")
    report = json.loads((out / "report.json").read_text())
    assert report["trials"] == 4
    more = run(*arguments, "--trials", "5", "--out", str(out), "-o", "json")
    assert more.stderr.splitlines()[0].startswith("4/5 trials, best so far")
    assert json.loads(more.stdout)["trials"] == 5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give recordings, traces or manifests, or --generate"),
        (["--generate", "nodes=x"], "--generate nodes=x: give nodes=20,pods=400,load=90"),
        (["--generate", "hosts=3"], "--generate hosts=3: give nodes=20"),
        (["--generate", LOAD, "--objective", "speed"], "--objective speed: give one of utilization, fragmentation"),
        (["--generate", LOAD, "--objective", "no.py:f"], "--objective no.py:f: No such file or directory"),
        (["missing.yaml"], "missing.yaml"),
    ],
)
def test_errors(arguments: list[str], message: str, tmp_path: Path) -> None:
    found = run(*arguments, "--out", str(tmp_path / "out"))
    assert found.exit_code in (1, 2)
    assert message in found.stderr


def test_a_function_that_fails(tmp_path: Path) -> None:
    loss = tmp_path / "loss.py"
    loss.write_text("def loss(measures):\n    return measures['speed']\n")
    found = run("--generate", LOAD, "--objective", f"{loss}:loss", "--trials", "1", "--out", str(tmp_path / "out"))
    assert found.exit_code == 1
    assert f"--objective {loss}:loss: KeyError: 'speed'" in found.stderr
