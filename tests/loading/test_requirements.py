from __future__ import annotations

from pathlib import Path

import pytest

from mooring.loading import Requested, find_plugins
from tests.loading.builders import load_errors, plugin, write


@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        ("numpy", None),
        ("numpy>=1.5 # for columns", None),
        ("numpy>=999", "but numpy "),
        ("msgspec[yaml]!=0.0.1, <1000", None),
        ("no-such-distribution>=1", "which is not installed; install it:"),
        ("# a comment", None),
        ("-r other.txt", None),
        ("numpy ~> 3", "is not a version specifier"),
        ("???", "is not a requirement"),
        ('pywin32; sys_platform == "win32"', None),
    ],
)
def test_requirements_file(tmp_path: Path, requirement: str, problem: str | None) -> None:
    write(tmp_path, {"a.py": plugin("A"), "a.requirements.txt": f"\n{requirement}\n"})
    requested = Requested(directories=(tmp_path,))
    if problem is None:
        assert find_plugins(requested).found
    else:
        (told,) = load_errors(requested)
        assert told.startswith(f"{tmp_path}/a.requirements.txt:2: ")
        assert problem in told
