"""`make newcomer`: the first steps of a plugin author, timed.

A plugin is written (`mooring plugin new`), checked and tested; a cluster starts with it (`mooring up`); a line is
edited while that runs; and the next pod is where the edited line wants it. What a person needs to read and type is not
counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

import click

sys.path.insert(0, str(Path(__file__).resolve().parent))

from kube import Kube, run

_SECONDS = 60.0
#: A line that `mooring plugin new` writes, and the edited line.
_BEFORE = 'return 100 if node.labels.get(self.args.label) == "always" else 0'
_AFTER = 'return 100 if node.name.endswith("1") else 0'


class Steps:
    """The completed steps and their durations."""

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}
        self._begun = time.perf_counter()

    def done(self, step: str) -> None:
        """Record a completed step."""
        now = time.perf_counter()
        self.taken[step] = now - self._begun
        self._begun = now


def walk(folder: Path) -> Steps:
    """Run all steps in a directory. Raises RuntimeError if a step fails."""
    steps, plugin = Steps(), folder / "my_first" / "my_first.py"
    _mooring(folder, "plugin", "new", "MyFirst", "--points", "score")
    steps.done("mooring plugin new MyFirst --points score")
    _mooring(folder, "plugin", "check", "my_first")
    steps.done("mooring plugin check my_first")
    _call(folder, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "my_first")
    steps.done("pytest my_first")
    kubeconfig = folder / "kubeconfig"
    options = ["--nodes=3", "--config=my_first/scheduler.yaml", f"--kubeconfig-out={kubeconfig}"]
    with (folder / "log").open("w+") as log:
        command = [sys.executable, "-m", "mooring.cli", "up", *options]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
        try:
            _wait(process, log, kubeconfig.exists)
            _place(kubeconfig, "first")
            steps.done("mooring up, until the first pod has a node")
            text = plugin.read_text()
            if text.count(_BEFORE) != 1:
                raise RuntimeError(f"{plugin} has no line to edit:\n{text}")
            plugin.write_text(text.replace(_BEFORE, _AFTER))
            _wait(process, log, lambda: "Reloaded" in _read(log))
            steps.done("edit a line, until it is in force")
            node = _place(kubeconfig, "second")
            steps.done("the next pod has a node")
        finally:
            process.terminate()
            process.wait(20)
    if node != "node-1":
        raise RuntimeError(f"the edited plugin wants node-1, but the pod is on {node}")
    return steps


@click.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(output: str) -> None:
    """Run all steps in a temporary directory, and print the duration of each."""
    with tempfile.TemporaryDirectory(prefix="mooring-newcomer-") as folder:
        taken = walk(Path(folder)).taken
    if output == "json":
        click.echo(json.dumps({step: round(seconds, 3) for step, seconds in taken.items()}, indent=2))
        return
    width = max(map(len, taken))
    for step, seconds in taken.items():
        click.echo(f"{step:<{width}}  {seconds:6.2f} s")
    click.echo(f"{'From nothing to a pod where your plugin wants it':<{width}}  {sum(taken.values()):6.2f} s")


def _mooring(folder: Path, *arguments: str) -> None:
    _call(folder, sys.executable, "-m", "mooring.cli", *arguments)


def _call(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ})
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}:\n{done.stdout}{done.stderr}")


def _wait(process: subprocess.Popen[bytes], log: IO[str], holds: Any) -> None:
    end = time.monotonic() + _SECONDS
    while not holds():
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"mooring up did not get there:\n{_read(log)}")
        time.sleep(0.01)


def _read(log: IO[str]) -> str:
    log.seek(0)
    return log.read()


def _place(kubeconfig: Path, name: str) -> str:
    """Create a pod and return its node."""

    async def place(kube: Kube) -> str:
        container = {"name": "main", "image": "example/app:1"}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
        path = "/api/v1/namespaces/default/pods"
        await kube.write("POST", path, pod)
        async with asyncio.timeout(_SECONDS):
            while True:
                found = await kube.read(f"{path}/{name}")
                if node := found["spec"].get("nodeName"):
                    return str(node)
                await asyncio.sleep(0.01)

    node: str = run(str(kubeconfig), place)
    return node


if __name__ == "__main__":
    main()
