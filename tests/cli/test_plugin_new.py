"""`mooring plugin new`: what it writes is well at once, whatever the extension points."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from mooring.cli.main import main
from mooring.cli.scaffold.method_examples import EXAMPLES

ROOT = Path(__file__).parents[2]
PAIRS = [*((point,) for point in EXAMPLES), *itertools.combinations(EXAMPLES, 2)]
#: One form of filter and score each.
ALL = [point for point in EXAMPLES if not point.endswith("_nodes")]
COLUMNS = [point for point in EXAMPLES if point not in ("filter", "score")]


def new(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plugin", "new", *arguments])


def check(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["plugin", "check", *map(str, arguments)])


def run_tests(folder: Path) -> None:
    """All tests below a folder, in one process, as a user would run them."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--import-mode=importlib",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore",
    ]
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == 0, done.stdout


def test_every_combination_of_points_is_green_at_once(tmp_path: Path) -> None:
    combinations = [*PAIRS, tuple(ALL), tuple(COLUMNS)]
    for number, points in enumerate(combinations):
        crd = ["--crd", f"Report{number}"] if number % 2 else []
        folder = tmp_path / f"plugin{number}"
        made = new(f"Plugin{number}", "--points", ",".join(points), "--dir", str(folder), *crd)
        assert made.exit_code == 0, made.output
        checked = check(folder, "--config", folder / "scheduler.yaml")
        assert checked.exit_code == 0, (points, checked.output)
    run_tests(tmp_path)
    for command in (("check", "--no-cache", "--config", ROOT / "pyproject.toml"), ("format", "--no-cache", "--check")):
        ruff = [Path(sys.executable).parent / "ruff", *command, "--line-length=120", tmp_path]
        ignored = ["--ignore=D,ARG,RUF012"] if command[0] == "check" else []
        done = subprocess.run([*ruff, *ignored], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout


def test_a_session_plugin(tmp_path: Path) -> None:
    made = new("MyShare", "--batch", "--dir", str(tmp_path / "share"))
    assert made.exit_code == 0, made.output
    assert {path.name for path in (tmp_path / "share").iterdir()} == {
        "my_share.py", "test_my_share.py", "volcano-scheduler.conf",
    }  # fmt: skip
    assert check(tmp_path / "share").exit_code == 0
    run_tests(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nodenumber"], "'nodenumber' is not a class name such as NodeNumber"),
        (["NodeAffinity"], "NodeAffinity is a built-in plugin; choose another name"),
        (["TaskTopology", "--batch"], "TaskTopology is a built-in plugin; choose another name"),
        (["N", "--points", "filter,scoring"], "scoring: not an extension point; use some of pre_enqueue, queue_sort"),
        (["N", "--points", ""], "nothing: not an extension point"),
        (["N", "--crd", "N"], "the plugin and its custom resource need different names"),
        (["N", "--batch", "--crd", "K"], "--batch cannot be combined with --points or --crd"),
    ],
)
def test_what_makes_no_sense_is_told(arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    made = new(*arguments)
    assert made.exit_code == 2
    assert told in made.output
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    arguments = ["NodeNumber", "--points", "preFilter,less", "--dir", str(tmp_path)]
    assert new(*arguments).exit_code == 0
    again = new(*arguments)
    assert again.exit_code == 1
    assert "node_number.py" in again.output
    assert "already exists" in again.output


def test_the_next_steps_name_the_interpreter_that_has_mooring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`python` may be another one, without Mooring: the printed commands work as they are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["/somewhere/mooring/cli/__main__.py"])
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    result = new("NodeNumber")
    step = next(line for line in result.output.splitlines() if "-m pytest" in line)
    assert step == f"  {sys.executable} -m pytest node_number/test_node_number.py"
    done = subprocess.run(step, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert f"  {sys.executable} -m mooring.cli plugin check node_number/node_number.py" in result.output
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    assert "  python -m pytest other/test_other.py" in new("Other").output
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert "  python -m pip install pytest\n  python -m pytest" in new("Third").output


def test_a_job_plugin_is_green_at_once(tmp_path: Path) -> None:
    made = new("TeamName", "--job", "--dir", str(tmp_path / "plugin"))
    assert made.exit_code == 0, made.output
    checked = check(tmp_path / "plugin" / "team_name.py")
    assert checked.exit_code == 0, checked.output
    assert "team-name: ok (on_pod_create, updated_objects" in checked.output
    run_tests(tmp_path)
    assert "exclude each other" in new("TeamName", "--job", "--batch").output
    assert "cannot be combined" in new("TeamName", "--job", "--crd", "Report").output
