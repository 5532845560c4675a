"""`kubectl mooring`, with kubectl's completion."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.embedded.process import EmbeddedProcess

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs that pip installs."""
    folder = tmp_path_factory.mktemp("bin")
    for name, entry in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"].items():
        module, function = entry.split(":")
        file = folder / name
        file.write_text(f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n")
        file.chmod(0o755)
    return folder


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedProcess]:
    with EmbeddedProcess() as running:
        yield running


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        (("plugin", "list", "--name-only"), ["kubectl-mooring"]),
        (("mooring", "job", "list", "-A"), ["No jobs found."]),
        (("mooring", "queue", "list", "--help"), ["Usage: kubectl mooring queue list [OPTIONS]"]),
        (("__complete", "mooring", "que"), ["queue\tList, show, open and close queues.", ":4"]),
        (("__complete", "mooring", "queue", "list", "-o", "na"), ["name", ":4"]),
        (("__complete", "mooring", "explain", "pod", "--kubec"), [":4"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_kubectl_runs_and_completes_the_plugin(
    cluster: EmbeddedProcess, programs: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], lines: list[str]
) -> None:
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    done = cluster.kubectl(*words)
    assert done.returncode == 0, done.stderr
    assert set(lines) <= set(done.stdout.splitlines()), done.stdout
