"""The plugins on the pages about plugins: each passes `mooring plugin check`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main
from tests.docs.commands import ROOT

_PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PLUGINS = [
    pytest.param(text, id=f"{page.stem}-{name[1]}")
    for page in sorted((ROOT / "docs" / "plugins").glob("*.md"))
    for text in _PYTHON.findall(page.read_text())
    if (name := re.search(r"class (\w+)\(Plugin[\[)]", text))
]


@pytest.mark.parametrize("text", PLUGINS)
def test_it_is_well(text: str, tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text(text)
    for file in re.findall(r'watch_files = \["(.+)"\]', text):
        (tmp_path / file).write_text("node-1,rack-1\n")
    result = CliRunner().invoke(main, ["plugin", "check", str(tmp_path / "shown.py")])
    assert result.exit_code == 0, result.output


def test_there_are_some() -> None:
    assert len(PLUGINS) >= 9
