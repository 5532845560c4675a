"""Create the virtual environment .venv and install Mooring in it: `python scripts/setup_env.py run|docs|dev|release`.

Needs nothing but Python itself. constraints.txt pins versions and hashes (see pinned.py). A second call returns at
once: what was installed, and from which files, is noted in a stamp inside the environment.
"""

# ruff: noqa: T201  (scripts print)

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ENV = ROOT / ".venv"
BIN = ENV / ("Scripts" if os.name == "nt" else "bin")
PYTHON = BIN / ("python.exe" if os.name == "nt" else "python")
#: Kind of environment -> the extras of Mooring and the dependency groups that it needs.
KINDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "run": ((), ("build", "test")),
    "docs": ((), ("build", "docs")),
    "dev": (("all",), ("build", "dev")),
    "release": (("all",), ("build", "release")),
}
WHAT = {
    "run": "Mooring",
    "docs": "Mooring and the documentation tools",
    "dev": "Mooring and the development tools",
    "release": "Mooring and the release tools",
}


def main(kind: str) -> int:
    """Install what `kind` needs."""
    if sys.version_info < (3, 11):  # noqa: UP036  (any Python may run this)
        print(f"Mooring needs Python 3.11 or later; this is {sys.version.split()[0]}. Set PYTHON=python3.12, say.")
        return 1
    if not PYTHON.exists():
        say(f"making .venv with Python {sys.version.split()[0]}")
        venv.create(ENV, with_pip=True, clear=ENV.exists())
    sufficient = {kind} if kind == "release" else {kind, "dev"}
    if any(stamp(each).exists() and stamp(each).read_text() == fingerprint() for each in sufficient):
        compile_source()
        return 0
    say(f"installing {WHAT[kind]} (once; a minute or so)")
    started = time.monotonic()
    install(kind)
    stamp(kind).write_text(fingerprint())
    compile_source()
    say(f"installed in {time.monotonic() - started:.0f} s")
    return 0


def install(kind: str) -> None:
    """Install all packages with their hashes, then Mooring, which has none, without looking at its dependencies."""
    import pinned  # requires the Python version that was checked

    extras, groups = KINDS[kind]
    wanted = pinned.dependencies(*extras) + [each for name in groups for each in pinned.group(name)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requirements.txt"
        file.write_text(pinned.requirements(wanted))
        pip("install", "--no-deps", "--require-hashes", "--requirement", str(file))
    pip("install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))


def compile_source() -> None:
    """Compile changed modules, because some machines never write bytecode and would start a second later."""
    subprocess.run([str(PYTHON), "-m", "compileall", "-q", str(ROOT / "src")], check=False)


def stamp(kind: str) -> Path:
    """Return the file that marks a complete installation."""
    return ENV / f".mooring-{kind}"


def fingerprint() -> str:
    """Return a fingerprint of the inputs of an installation."""
    texts = [(ROOT / name).read_bytes() for name in ("pyproject.toml", "constraints.txt")]
    return hashlib.sha256(b"\0".join([*texts, str(ROOT).encode()])).hexdigest()


def pip(*arguments: str) -> None:
    """Run pip quietly: show progress on a terminal, and all output on failure."""
    command = [str(PYTHON), "-m", "pip", *arguments]
    environment = os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_PROGRESS_BAR": "off", "PIP_NO_INPUT": "1"}
    lines: list[str] = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
    ) as process:
        for line in process.stdout or ():
            lines.append(line)
            if sys.stdout.isatty() and line.startswith(("Collecting", "Building", "Installing")):
                print(f"\r\x1b[K   {line.strip()[:72]}", end="", flush=True)
    if sys.stdout.isatty():
        print("\r\x1b[K", end="", flush=True)
    if process.returncode:
        print("".join(lines[-40:]))
        raise SystemExit(f"pip failed with exit code {process.returncode}; its last words are above")


def say(text: str) -> None:
    """Print a line of progress."""
    print(f"-- {text}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in KINDS:
        raise SystemExit(__doc__)
    raise SystemExit(main(sys.argv[1]))
