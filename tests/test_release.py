"""What a release is made of: names, pinned versions and hashes, workflows, and the reports about dependencies."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
import yaml

from mooring import __version__

ROOT: Final = Path(__file__).parents[1]
WORKFLOWS: Final = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
#: A line of constraints.txt: a package with its marker, a hash, or a comment that says what needs it.
LINES: Final = (
    r"[a-z0-9][a-z0-9-]*==[0-9][a-z0-9.]*(?: ; [^\\]+)? \\",
    r"    --hash=sha256:[0-9a-f]{64}(?: \\)?",
    r"    #(?: via|  ) ?[a-z0-9-]*(?: \(pyproject\.toml(?::[a-z]+)?\))?",
)


def script(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of scripts/, imported as the scripts import each other."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return importlib.import_module(name)


def test_the_package_is_mooring_scheduler_and_the_command_mooring() -> None:
    found = importlib.metadata.distribution("mooring-scheduler")
    assert found.version == __version__
    scripts = {each.name for each in found.entry_points if each.group == "console_scripts"}
    assert {"mooring", "kubectl-mooring"} <= scripts
    urls = {each.partition(",")[0] for each in found.metadata.get_all("Project-URL") or ()}
    assert {"Homepage", "Documentation", "Source", "Issues", "Changelog", "Security"} <= urls
    classifiers = found.metadata.get_all("Classifier") or []
    assert all(f"Programming Language :: Python :: 3.{minor}" in classifiers for minor in (11, 12, 13, 14))


def test_no_text_installs_the_package_of_another_project() -> None:
    """The name mooring belongs to somebody else."""
    texts = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    wrong = re.compile(r"pip install [^`\n]*\bmooring\b(?!-)|\bmooring\[")
    assert [str(path) for path in texts if wrong.search(path.read_text())] == []


def test_constraints_are_names_versions_and_hashes() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines if not any(re.fullmatch(each, line) for each in LINES)] == []
    names = [number for number, line in enumerate(lines) if line[0] != " "]
    assert [lines[number] for number in names if "--hash" not in lines[number + 1]] == []


def test_every_dependency_is_pinned_with_all_that_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = script("pinned", monkeypatch)
    wanted = pinned.dependencies("all") + pinned.group("dev") + pinned.group("release")
    wanted += pinned.project()["build-system"]["requires"]
    text = pinned.requirements(wanted)
    names = {pinned.name_of(line) for line in text.splitlines() if line[0] != " "}
    assert {"aiohttp", "multidict", "wasmtime", "opentelemetry-sdk", "hatchling"} <= names
    assert "#" not in text
    unused = {pinned.name_of(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line[0] != " "}
    assert unused == names
    with pytest.raises(SystemExit, match="make constraints"):
        pinned.requirements(["no-such-package>=1"])


def test_an_environment_has_only_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    pinned = script("pinned", monkeypatch)
    text = pinned.requirements(pinned.dependencies())
    names = {pinned.name_of(line) for line in text.splitlines() if line[0] != " "}
    assert "yarl" in names  # of aiohttp
    assert not {"pytest", "wasmtime", "hatchling", "requests"} & names


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w.-]+/[\w./-]+@[0-9a-f]{40} # v[0-9.]+", each)] == []
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}


def test_pull_requests_run_all_versions_of_python_the_audit_and_the_tests_on_a_control_plane() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/pull-request.yml").read_text())["jobs"]
    assert jobs["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    commands = [step.get("run", "") for job in jobs.values() for step in job["steps"]]
    assert {"make lint", "make e2e", "make audit"} <= set(commands)


def test_the_base_image_is_pinned_by_digest() -> None:
    (image,) = re.findall(r"^ARG PYTHON_IMAGE=(.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert re.fullmatch(r"python:3\.[0-9]+-slim@sha256:[0-9a-f]{64}", image)


@pytest.mark.parametrize(
    ("vulnerabilities", "code", "said"),
    [([], 0, "1 packages, 0 known"), ([{"id": "CVE-1", "fix_versions": ["2"]}], 1, "x 1: CVE-1, fixed in 2")],
)
def test_the_audit_reports_vulnerabilities(
    vulnerabilities: list[Any],
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    audit = script("audit", monkeypatch)
    assert audit.report([{"name": "x", "version": "1", "vulns": vulnerabilities}]) == code
    assert said in capsys.readouterr().out


def test_the_audit_says_that_nothing_was_checked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """pip-audit ends with the same code if it finds something and if it cannot reach its database."""
    audit = script("audit", monkeypatch)
    failed = subprocess.CompletedProcess([sys.executable], 1, stdout="", stderr="Failed\nConnectionError: no route\n")
    monkeypatch.setattr(audit.subprocess, "run", lambda *_, **__: failed)
    assert audit.main() == 2
    assert "nothing was checked: ConnectionError: no route" in capsys.readouterr().err
