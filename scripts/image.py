"""Install Mooring into a virtual environment for the container image: `python scripts/image.py TARGET`.

The Dockerfile runs this. constraints.txt pins all versions and hashes, including those of the build requirements. A
test runs it too, because it needs no container engine. `--wheel-dir FOLDER` keeps the wheel.
"""

# ruff: noqa: T201  (scripts print)

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import pinned

ROOT = Path(__file__).resolve().parent.parent


def main(target: Path, wheels: Path | None = None) -> None:
    """Build the package and install it with all extras. `wheels` keeps the wheel."""
    with tempfile.TemporaryDirectory() as scratch:
        builder = make(Path(scratch) / "builder")
        install(builder, pinned.group("build"))
        pip(builder, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", scratch, str(ROOT))
        (wheel,) = Path(scratch).glob("mooring_scheduler-*.whl")
        if wheels is not None:
            shutil.copy(wheel, wheels)
        python = make(target)
        install(python, pinned.dependencies("all"))
        pip(python, "install", "--no-deps", str(wheel))
        pip(python, "check")
    # The container file system is read-only, so bytecode is compiled now, and pip is not needed.
    pip(python, "uninstall", "--yes", "setuptools", "pip")
    subprocess.run([python, "-m", "compileall", "-q", str(target / "lib")], check=True)
    run(target / "bin" / "mooring", "run", "--version")
    run(target / "bin" / "mooring", "plugin", "list")


def make(folder: Path) -> Path:
    """Create an empty environment and return its Python."""
    venv.create(folder, with_pip=True, symlinks=True)
    return folder / "bin" / "python"


def install(python: Path, wanted: list[str]) -> None:
    """Install packages and all that they need, with their hashes."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text(pinned.requirements(wanted))
        pip(python, "install", "--no-deps", "--require-hashes", "--requirement", str(file))


def pip(python: Path, *arguments: str) -> None:
    """Run pip in an environment."""
    run(python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments)


def run(program: Path, *arguments: str) -> None:
    """Print a command and run it."""
    print(f"-- {program.name} {' '.join(arguments)}", flush=True)
    subprocess.run([program, *arguments], check=True)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 4) or sys.argv[2:3] not in ([], ["--wheel-dir"]):
        raise SystemExit(__doc__)
    main(*map(Path, sys.argv[1:2] + sys.argv[3:]))
