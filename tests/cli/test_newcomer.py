"""`make newcomer`: from nothing to a pod that one's own edited plugin has placed, and one mistake of each kind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "newcomer.py"


def test_the_path_of_a_newcomer() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "-o", "json"], capture_output=True, text=True, check=False, timeout=250
    )
    assert done.stdout, done.stderr
    found = json.loads(done.stdout)
    assert list(found["steps"]) == [
        "mooring plugin new MyFirst --points score",
        "mooring plugin check my_first",
        "pytest my_first",
        "mooring up, until the first pod has a node",
        "edit a line, until the scheduler uses it",
        "the next pod has a node",
    ]
    assert len(found["mistakes"]) > 15
    assert {kind: told for kind, told in found["mistakes"].items() if told["faults"]} == {}
    assert done.returncode == 0, done.stderr
