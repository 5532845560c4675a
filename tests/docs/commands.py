"""Runs the commands of a page of the documentation, in order, as its reader would.

A block of code is run if `<!-- run -->` stands before it. `<!-- run: stays -->` marks a command that goes on until
the end of the page, `<!-- run: kubectl -->` one that needs kubectl, `<!-- run: helm -->` one that needs helm as well.
Each block is a shell of its own in a copy of the repository, where `.venv` is the environment that runs the tests.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = (
    "README.md",
    "docs/quickstart.md",
    "docs/install.md",
    "docs/migrate.md",
    "docs/operate.md",
    "docs/active-active.md",
    "docs/security.md",
    "docs/embedded-cluster.md",
    "docs/command-line.md",
    "docs/simulate.md",
    "docs/what-if.md",
    "docs/record-and-replay.md",
    "docs/placement.md",
    "docs/tune.md",
    "docs/devices.md",
    "docs/gpu-platforms.md",
    "docs/dashboard.md",
    "docs/jobs.md",
    "docs/integrations.md",
    "docs/plugins/README.md",
    "docs/plugins/custom-resources.md",
    "docs/plugins/running.md",
    "docs/plugins/testing.md",
    "docs/plugins/wasm.md",
    "docs/batch.md",
)
_BLOCK = re.compile(r"<!-- run(?:: (\w+))? -->\n```sh\n(.*?)```", re.DOTALL)
_KEPT = re.compile(r"--kubeconfig-out[ =](\S+)")
_SECONDS = 120.0


class Block(NamedTuple):
    """Commands, and how they are to be run: "", "stays", "kubectl" or "helm"."""

    how: str
    text: str


def blocks(page: str) -> list[Block]:
    """The blocks of a page that are run."""
    return [Block(how or "", text) for how, text in _BLOCK.findall((ROOT / page).read_text())]


class Reader:
    """Somebody who types what a page says; `output` is what they saw. Use it as a context manager."""

    def __init__(self, folder: Path, kubectl: Path | None = None, helm: Path | None = None) -> None:
        self.output = ""
        self._folder = folder
        self._staying: list[tuple[subprocess.Popen[bytes], Path]] = []
        for name in ("charts", "examples", "scripts", "docs", "Makefile", "src"):
            os.symlink(ROOT / name, folder / name)
        # What `make` would install is what runs the tests.
        (folder / ".venv" / "bin").mkdir(parents=True)
        for name in ("python", "python3"):
            _script(folder / ".venv/bin" / name, f'exec {sys.executable} "$@"')
        _script(folder / ".venv/bin/mooring", f'exec {sys.executable} -m mooring.cli "$@"')
        plugin = "from mooring.cli.main import kubectl_plugin; kubectl_plugin()"
        _script(folder / ".venv/bin/kubectl-mooring", f'exec {sys.executable} -c "{plugin}" "$@"')
        tools = folder / "tools"
        tools.mkdir()
        make = f'exec {shutil.which("make")} -o setup-run -o setup-dev "$@"'
        _script(tools / "make", make)
        for name, tool in (("kubectl", kubectl), ("helm", helm)):
            if tool is not None:
                os.symlink(tool, tools / name)
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        self._env = {**os.environ, "PATH": path, "HOME": str(folder), "PYTHONPATH": str(ROOT / "src")}
        self._env.pop("KUBECONFIG", None)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        for process, _log in self._staying:
            process.terminate()
            process.wait(20)

    def read(self, page: str, *, with_kubectl: bool) -> None:
        """Run the blocks of a page."""
        for block in blocks(page):
            if block.how == "stays":
                self._stay(block.text)
            elif not block.how or with_kubectl:
                self._run(block.text)

    def _run(self, text: str) -> None:
        done = subprocess.run(
            ["bash", "-euc", text],
            cwd=self._folder,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
        self.output += done.stdout
        assert done.returncode == 0, f"{text}\n{done.stdout}"

    def _stay(self, text: str) -> None:
        named = _KEPT.search(text)
        kubeconfig = self._folder / (named[1] if named else "mooring.kubeconfig")
        log = self._folder / "staying.log"
        with log.open("wb") as file:
            command = ["bash", "-euc", f"exec {text}"]
            process = subprocess.Popen(command, cwd=self._folder, env=self._env, stdout=file, stderr=file)
        self._staying.append((process, log))
        end = time.monotonic() + _SECONDS
        while not kubeconfig.exists():
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.02)


def _script(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
