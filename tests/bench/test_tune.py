"""`python -m bench.tune` on a small load."""

from __future__ import annotations

from click.testing import CliRunner

from bench import tune


def test_the_table() -> None:
    small = ["--nodes", "3", "--pods", "20", "--seeds", "1", "--trials", "3", "--jobs", "1"]
    found = CliRunner().invoke(tune.main, small)
    assert found.exit_code == 0, found.output
    lines = found.output.splitlines()
    assert lines[0].startswith("LocalWorkers: 3 trials in ")
    assert [line.split()[0] for line in lines[2:]] == list(tune._MEASURES)
