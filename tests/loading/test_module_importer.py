from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mooring.loading import Requested, find_plugins
from tests.loading.builders import load_errors, plugin, write


@pytest.mark.parametrize(
    ("files", "place", "told"),
    [
        ({"a.py": "import beside_it\n", "beside_it.py": "1 / 1\n"}, "a.py:1", "and write `from . import beside_it`"),
        ({"p/__init__.py": "\nimport inner\n", "p/inner.py": ""}, "p/__init__.py:2", "write `from . import inner`"),
        ({"a.py": "import no_such_module_anywhere\n"}, "a.py:1", f"provides it for {sys.executable}"),
        ({"a.py": "x = (\n"}, "a.py:1", "was never closed"),
        ({"a.py": "x = 1\n1 / 0\n"}, "a.py:2", "ZeroDivisionError: division by zero"),
        ({"a.py": "raise SystemExit\n"}, "a.py:1", "exits the process when it is imported"),
        ({"p/__init__.py": "from . import b", "p/b.py": "x =\n"}, "p/b.py:1", "invalid syntax"),
    ],
)  # fmt: skip
def test_import_errors(tmp_path: Path, files: dict[str, str], place: str, told: str) -> None:
    write(tmp_path, files)
    before = set(sys.modules)
    (line,) = load_errors(Requested(directories=(tmp_path,)))
    assert line.startswith(f"{tmp_path}/{place}: ")
    assert told in line
    assert not [name for name in set(sys.modules) - before if name.startswith("mooring_plugins.")]


def test_an_edit_within_the_same_second_is_loaded(tmp_path: Path) -> None:
    """Python's bytecode cache would return the old code."""
    for number in range(3):
        write(tmp_path, {"edited.py": plugin("A", body=f"return {number}")})
        os.utime(tmp_path / "edited.py", (1, 1))
        catalog = find_plugins(Requested(directories=(tmp_path,)))
        assert catalog.classes()["A"]().score(None, None, None) == number
        catalog.unload()
    assert not (tmp_path / "__pycache__").exists()
    assert not [name for name in sys.modules if name.startswith("mooring_plugins.edited_")]
