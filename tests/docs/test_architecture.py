"""docs/architecture.md names files and functions; each one must exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "mooring"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
#: `path.py`, `path.py:name` and `path.py:Class.name`.
REFERENCES = sorted(set(re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", PAGE)))
FOLDERS = sorted(set(re.findall(r"`([a-z_]+/[a-z_]+)/?`", PAGE)))


def names_in(path: Path) -> set[str]:
    """Return the functions, classes, methods and attributes that a module defines."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        for part in ast.walk(node) if isinstance(node, ast.ClassDef) else ():
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                found.add(f"{node.name}.{part.name}")
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name) and part.value.id == "self":
                found.add(f"{node.name}.{part.attr}")
    return found


def test_the_page_names_the_call_paths() -> None:
    assert len([name for _, name in REFERENCES if name]) > 40


@pytest.mark.parametrize(("path", "name"), REFERENCES, ids=lambda value: value or "file")
def test_named_code_exists(path: str, name: str) -> None:
    file = SOURCE / path
    assert file.is_file(), f"docs/architecture.md names {path}, which does not exist"
    assert not name or name in names_in(file), f"docs/architecture.md names {path}:{name}, which does not exist"


@pytest.mark.parametrize("folder", FOLDERS)
def test_named_folders_exist(folder: str) -> None:
    assert (SOURCE / folder).is_dir()
