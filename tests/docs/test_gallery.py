"""The gallery: every plugin has a page, a test and a configuration, and the commands of the pages work.

`make e2e` runs each on an embedded and on a real cluster (`tests/e2e/test_gallery.py`).
"""

from __future__ import annotations

import re
import runpy
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main
from tests.docs.commands import ROOT

GALLERY = sorted(path for path in (ROOT / "examples" / "plugins").iterdir() if (path / "README.md").exists())
PAGES = [path / "README.md" for path in [*GALLERY, *sorted((ROOT / "examples" / "wasm").iterdir())]]
_COMMAND = re.compile(r"^    (mooring (?:[^\n]*\\\n)*[^\n]*)", re.MULTILINE)


def commands(page: Path) -> list[list[str]]:
    return [shlex.split(text.replace("\\\n", " ")) for text in _COMMAND.findall(page.read_text())]


@pytest.mark.parametrize("folder", GALLERY, ids=lambda path: path.name)
def test_every_plugin_has_all_that_belongs_to_it(folder: Path) -> None:
    names = {path.name for path in folder.iterdir()}
    assert {f"{folder.name}.py", f"test_{folder.name}.py", "README.md", "scheduler.yaml"} <= names
    tested = (ROOT / "tests" / "e2e" / "test_gallery.py").read_text()
    assert f'"{folder.name}"' in tested
    arguments = ["config", "view", str(folder / "scheduler.yaml"), f"--plugins-dir={folder}"]
    shown = CliRunner().invoke(main, arguments)
    assert shown.exit_code == 0, shown.output


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.parent.name)
def test_the_commands_of_its_page_work(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    for _, *arguments in commands(page):
        if arguments[0] == "run":  # that needs a cluster; what would be run is shown without one
            arguments[:] = ["config", "view", *(each for each in arguments[1:] if each != "--config")]
        done = CliRunner().invoke(main, arguments)
        assert done.exit_code == 0, done.output


def test_the_two_forms_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """With the command that the page gives."""
    page = (ROOT / "examples" / "plugins" / "two_forms" / "README.md").read_text()
    assert "python examples/plugins/two_forms/measure.py" in page
    module = runpy.run_path(str(ROOT / "examples" / "plugins" / "two_forms" / "measure.py"))
    module["main"]((20,), pods=5)
    assert "| 20 |" in capsys.readouterr().out
