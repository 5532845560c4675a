"""Install Mooring into a virtual environment for the container image: `python scripts/image.py TARGET`.

The Dockerfile runs this. All versions are pinned by constraints.txt, including the build requirements. A test runs it
too, because it needs no container engine.
"""

# ruff: noqa: T201  (scripts print)

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
#: Build backend.
BUILD = "hatchling"
EXTRAS = "all"


def main(target: Path) -> None:
    """Build the package and install it with all extras."""
    with tempfile.TemporaryDirectory() as scratch:
        builder = make(Path(scratch) / "builder")
        pip(builder, "install", BUILD)
        pip(builder, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", scratch, str(ROOT))
        (wheel,) = Path(scratch).glob("mooring-*.whl")
        python = make(target)
        pip(python, "install", f"{wheel}[{EXTRAS}]")
    # The container file system is read-only, so bytecode is compiled now, and pip is not needed.
    pip(python, "uninstall", "--yes", "setuptools", "pip")
    subprocess.run([python, "-m", "compileall", "-q", str(target / "lib")], check=True)
    run(target / "bin" / "mooring", "run", "--version")
    run(target / "bin" / "mooring", "plugin", "list")


def make(folder: Path) -> Path:
    """Create an empty environment and return its Python."""
    venv.create(folder, with_pip=True, symlinks=True)
    return folder / "bin" / "python"


def pip(python: Path, command: str, *arguments: str) -> None:
    """Run pip in an environment."""
    pinned = ["--constraint", str(CONSTRAINTS)] if command != "uninstall" else []
    run(python, "-m", "pip", "--quiet", "--disable-pip-version-check", command, *pinned, *arguments)


def run(program: Path, *arguments: str) -> None:
    """Print a command and run it."""
    print(f"-- {program.name} {' '.join(arguments)}", flush=True)
    subprocess.run([program, *arguments], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
