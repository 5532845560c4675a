"""Runs a story's script as somebody would from a shell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.commands import ROOT

#: Those that are told on every kind of cluster.
STORIES = ("s0", "s1", "s2", "s3", "s4")
_SECONDS = 240.0


def tell(story: str, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a story with the Mooring of this checkout; what it printed is all in `stdout`."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", str(ROOT / "examples" / "stories" / f"{story}.sh"), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=_SECONDS,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT / "src"), **env},
    )
