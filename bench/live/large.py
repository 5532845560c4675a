"""A large cluster on a real API server: `python -m bench.live.large --nodes 15000 --running-pods 150000`.

Creates the nodes and the running pods once and keeps them in `--state`, which further runs use. Each scheduler then
starts with them and binds pending pods: the time to the first bind, binds per second, memory, and for Mooring the time
of `mooring explain pod` for a pod that it has placed.
"""

from __future__ import annotations

import asyncio
import functools
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import click

from bench.live import measure, objects
from bench.live.contenders import CONTENDERS, Contender
from bench.live.server import Server
from tests.e2e.controlplane import ControlPlane, Process, free_port

_EXPLANATIONS: Final = 5


class _Explained:
    """Mooring on a known port, and the time of explanations."""

    def __init__(self) -> None:
        self._plane: ControlPlane | None = None
        self._port = free_port()
        self.seconds: list[float] = []

    def start(self, plane: ControlPlane) -> Process:
        """Start Mooring."""
        self._plane = plane
        config = plane.scheduler_config(None, name="mooring")
        flags = ["--config", str(config), "--bind-address", "127.0.0.1", "--secure-port", str(self._port)]
        return plane.run("mooring", [_program(), "run", *flags], wait=False)

    def explain(self) -> None:
        """Explain placed pods."""
        assert self._plane is not None
        kubeconfig = str(self._plane.kubeconfig("admin"))
        for number in range(_EXPLANATIONS):
            name = f"pod-{number}"
            command = [_program(), "explain", "pod", f"default/{name}", "--kubeconfig", kubeconfig]
            command += ["--scheduler", f"https://127.0.0.1:{self._port}", "--insecure-skip-tls-verify"]
            command += ["--token", self._plane.users["admin"].token]
            begun = time.perf_counter()
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            self.seconds.append(time.perf_counter() - begun)
            if done.returncode:
                raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")


def _program() -> str:
    return str(Path(sys.executable).with_name("mooring"))


@click.command(context_settings={"show_default": True})
@click.option("--nodes", default=15_000)
@click.option("--running-pods", default=150_000)
@click.option("--pods", default=5_000, help="Pending pods.")
@click.option("--scheduler", "names", type=click.Choice(["mooring", "kube-scheduler"]), multiple=True)
@click.option("--state", type=click.Path(path_type=Path), required=True, help="Folder that keeps the running pods.")
def main(nodes: int, running_pods: int, pods: int, names: tuple[str, ...], state: Path) -> None:
    """Measure schedulers in a large cluster."""
    if not state.exists():
        begun = time.monotonic()
        asyncio.run(measure.prepare(state, None, functools.partial(_create, nodes=nodes, running=running_pods)))
        print(
            f"{nodes:,} nodes and {running_pods:,} running pods created in {time.monotonic() - begun:.0f} s", flush=True
        )
    for name in names or ("mooring", "kube-scheduler"):
        explained = _Explained()
        contender = Contender("mooring", explained.start) if name == "mooring" else CONTENDERS[name]
        at_end = explained.explain if name == "mooring" else None
        fill = functools.partial(_create_pending, count=pods)
        found = asyncio.run(measure.rate(contender, state, fill, "basic", pods, at_end=at_end))
        print(
            f"{name}: first bind after {found.first_bind_s:.1f} s ({found.start_cpu_s:.1f} s of CPU), "
            f"{found.bound:,} bound, {found.binds_per_s:,.0f} binds/s, {found.bind_cpu_ms_per_pod:.2f} ms of CPU "
            f"per pod, server {found.server_cpu_ms_per_pod:.2f} ms, peak {found.peak_mib:,.0f} MiB, "
            f"other CPU {found.foreign_cpu:.0%}",
            flush=True,
        )
        if explained.seconds:
            print(f"mooring explain pod: median {statistics.median(explained.seconds):.2f} s", flush=True)


async def _create(server: Server, *, nodes: int, running: int) -> None:
    await server.create(objects.NODES_PATH, objects.nodes(nodes))
    await server.create(objects.PODS_PATH, objects.running_pods(running, nodes))


async def _create_pending(server: Server, *, count: int) -> None:
    await server.create(objects.PODS_PATH, objects.pods("basic", count))


if __name__ == "__main__":
    main()
