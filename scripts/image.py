"""What the Dockerfile runs: `python scripts/image.py TARGET` makes an environment with Mooring and no more in TARGET.

Versions are pinned by constraints.txt, those that it is built with too. A test runs this as well, so that it works
though no container engine is at hand.
"""

# ruff: noqa: T201  (a script talks by printing)

from __future__ import annotations

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
#: What the package is built with.
BUILD = "hatchling"
EXTRAS = "all"


def main(target: Path) -> None:
    """Build the package and install it with everything that it can use."""
    with tempfile.TemporaryDirectory() as scratch:
        builder = make(Path(scratch) / "builder")
        pip(builder, "install", BUILD)
        pip(builder, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", scratch, str(ROOT))
        (wheel,) = Path(scratch).glob("mooring-*.whl")
        python = make(target)
        pip(python, "install", f"{wheel}[{EXTRAS}]")
    # Nothing is installed in a running container, and its root is read-only: bytecode is compiled now.
    pip(python, "uninstall", "--yes", "setuptools", "pip")
    subprocess.run([python, "-m", "compileall", "-q", str(target / "lib")], check=True)
    run(target / "bin" / "mooring", "run", "--version")
    run(target / "bin" / "mooring", "plugin", "list")


def make(folder: Path) -> Path:
    """An empty environment; the answer is its Python."""
    venv.create(folder, with_pip=True, symlinks=True)
    return folder / "bin" / "python"


def pip(python: Path, command: str, *arguments: str) -> None:
    """Run pip in an environment."""
    pinned = ["--constraint", str(CONSTRAINTS)] if command != "uninstall" else []
    run(python, "-m", "pip", "--quiet", "--disable-pip-version-check", command, *pinned, *arguments)


def run(program: Path, *arguments: str) -> None:
    """Run a program and tell."""
    print(f"-- {program.name} {' '.join(arguments)}", flush=True)
    subprocess.run([program, *arguments], check=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
