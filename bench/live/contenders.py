"""The measured programs. Each is a process with a kubeconfig."""

from __future__ import annotations

import compileall
import functools
import importlib.util
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.e2e.controlplane import ControlPlane, Process, free_port

_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Contender:
    """A program, its command, and the measurements that it supports."""

    name: str
    start: Callable[[ControlPlane], Process]
    #: Whether it sends an event for each bind.
    sends_events: bool = True
    #: Whether it keeps scheduling new pods, instead of exiting when the existing pods are bound.
    schedules: bool = True


def _kube_scheduler(plane: ControlPlane) -> Process:
    return plane.start_kube_scheduler(wait=False)


@functools.cache
def compile_checkout() -> None:
    """Compile the checkout as an installed package is, because some machines never write bytecode."""
    compileall.compile_dir(_ROOT / "src", quiet=2)


def _mooring(*command: str) -> Callable[[ControlPlane], Process]:
    def start(plane: ControlPlane) -> Process:
        config = plane.scheduler_config(None, name="mooring")
        flags = ["--config", str(config), "--bind-address", "127.0.0.1", "--secure-port", str(free_port())]
        return plane.run("mooring", [*command, *flags], env={"PYTHONPATH": f"{_ROOT}:{_ROOT / 'src'}"}, wait=False)

    return start


def _recording() -> Callable[[ControlPlane], Process]:
    """Return a start of `mooring run --record`; the recording is kept, so that its size can be read."""
    program = str(Path(sys.executable).with_name("mooring"))

    def start(plane: ControlPlane) -> Process:
        folder = tempfile.mkdtemp(prefix="mooring-bench-recording-")
        return _mooring(program, "run", "--record", folder)(plane)

    return start


def _null(*flags: str) -> Callable[[ControlPlane], Process]:
    def start(plane: ControlPlane) -> Process:
        command = [sys.executable, "-m", "bench.live.null_client", "--kubeconfig", str(plane.kubeconfig("scheduler"))]
        return plane.run("null-client", [*command, *flags], env={"PYTHONPATH": str(_ROOT)}, wait=False)

    return start


CONTENDERS: Final = {
    each.name: each
    for each in (
        Contender("kube-scheduler", _kube_scheduler),
        Contender("mooring", _mooring(str(Path(sys.executable).with_name("mooring")), "run")),
        Contender("mooring-unrecorded", _mooring(sys.executable, "-m", "bench.live.unrecorded")),
        Contender("mooring-recording", _recording()),
        Contender("null", _null(), sends_events=False, schedules=False),
        Contender("null+events", _null("--events"), schedules=False),
        Contender("null+watch", _null("--watch")),
    )
}


def available() -> list[str]:
    """Return the contenders that are measured by default."""
    names = ["kube-scheduler", "mooring", "null", "null+events", "null+watch"]
    return [name for name in names if name != "mooring" or importlib.util.find_spec("mooring.cli.run") is not None]
