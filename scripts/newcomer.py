"""`make newcomer`: the first steps of a plugin author, timed.

The script creates a plugin (`mooring plugin new`), checks and tests it, starts a cluster with it (`mooring up`), edits
a line while the cluster runs, and verifies that the next pod is placed by the edited line. The time to read and type is
not included. Then it makes one mistake of each kind (`mistakes.py`) and prints the message for the user.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any

import click
import yaml

sys.path.insert(0, str(Path(__file__).resolve().parent))

from mistakes import MISTAKES, ROOT, Mistake, Told, make, make_until, use_port_twice

from kube import Kube, run

_SECONDS = 60.0
#: The number of mistakes that are made concurrently.
_PROCESSES = 4
#: A line that `mooring plugin new` writes, and the edited line.
_BEFORE = 'return 100 if node.labels.get(self.args.label) == "always" else 0'
_AFTER = 'return 100 if node.name.endswith("1") else 0'


_MISTAKE = "return node.labels['missing']"


class Steps:
    """The completed steps with their durations, and the mistakes made in between."""

    def __init__(self) -> None:
        self.taken: dict[str, float] = {}
        self.told: list[Told] = []
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
            steps.done("edit a line, until the scheduler uses it")
            node = _place(kubeconfig, "second")
            steps.done("the next pod has a node")
            plugin.write_text(text.replace(_BEFORE, _MISTAKE))
            steps.told.append(_await_message(process, log))
            steps.told.append(_run_without_permission(folder, kubeconfig))
        finally:
            process.terminate()
            process.wait(20)
    if node != "node-1":
        raise RuntimeError(f"the edited plugin wants node-1, but the pod is on {node}")
    return steps


@click.command()
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(output: str) -> None:
    """Run all steps in a temporary directory, print the duration of each, and the messages about mistakes."""
    with tempfile.TemporaryDirectory(prefix="mooring-newcomer-") as folder:
        steps = walk(Path(folder))
        with ThreadPoolExecutor(_PROCESSES) as pool:
            told = [*pool.map(make_mistake, MISTAKES), use_port_twice(Path(folder)), *steps.told]
    if output == "json":
        durations = {step: round(seconds, 3) for step, seconds in steps.taken.items()}
        messages = {each.mistake.kind: {"message": each.line, "faults": each.faults} for each in told}
        click.echo(json.dumps({"steps": durations, "mistakes": messages}, indent=2))
    else:
        _print_steps(steps.taken)
        _print_mistakes(told)
    if any(each.faults for each in told):
        sys.exit(1)


def make_mistake(mistake: Mistake) -> Told:
    """Make a mistake in a temporary directory."""
    with tempfile.TemporaryDirectory(prefix="mooring-mistake-") as folder:
        return make(mistake, Path(folder))


def _print_steps(taken: dict[str, float]) -> None:
    width = max(map(len, taken))
    for step, seconds in taken.items():
        click.echo(f"{step:<{width}}  {seconds:6.2f} s")
    click.echo(f"{'From nothing to a pod where your plugin wants it':<{width}}  {sum(taken.values()):6.2f} s")


def _print_mistakes(told: list[Told]) -> None:
    click.echo(f"\n{len(told)} mistakes, and what the user is told:")
    for each in told:
        command = f"mooring {' '.join(each.mistake.command)}".replace(f"{ROOT}/", "")
        click.echo(f"\n{each.mistake.kind}: {command}\n  {each.line}")
        for fault in each.faults:
            click.echo(f"  THE MESSAGE {fault}:\n{each.output}", err=True)


def _await_message(process: subprocess.Popen[bytes], log: IO[str]) -> Told:
    """Wait for the message about the edited plugin, which raises."""
    shown = (r"my_first\.py:\d+.*KeyError: 'missing'", "last good version")
    mistake = Mistake("an error in a line that is edited while the scheduler runs", ("up",), shown)
    _wait(process, log, lambda: "KeyError" in _read(log))
    return Told(mistake, mistake.code, _read(log), 0.0)


def _run_without_permission(folder: Path, kubeconfig: Path) -> Told:
    """Run a scheduler as a user without permissions."""

    async def token(kube: Kube) -> str:
        path = "/api/v1/namespaces/default/serviceaccounts/default/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str((await kube.write("POST", path, request))["status"]["token"])

    limited = folder / "limited.yaml"
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"] = [
        {"name": each["name"], "user": {"token": run(str(kubeconfig), token)}} for each in document["users"]
    ]
    limited.write_text(yaml.safe_dump(document))
    shown = ("Permissions are missing", "mooring rbac")
    mistake = Mistake("a missing permission", ("run", "--kubeconfig", "limited.yaml", "--secure-port", "0"), shown)
    return make_until(mistake, folder, shown[1])


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
