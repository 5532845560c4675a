"""The time from kill -9 of the leader to the next bind: `python -m bench.failover --nodes 1000`.

Two replicas of a scheduler share a lease with the default settings (15 s, 10 s, 2 s) or others. A pod is created every
50 ms. The leader is killed; the result is the time until the other replica binds a pod.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

import click

from bench.live import objects
from bench.live.observer import Observer, observing
from bench.live.server import Server, connected
from bench.tables import row
from tests.e2e.controlplane import ControlPlane, Process, free_port
from tests.e2e.mooring_process import mooring_command

_INTERVAL = 0.05
#: Binds that arrive this soon after the end of the leader are its own.
_OWN_SECONDS = 0.3


@click.command(context_settings={"show_default": True})
@click.option("--nodes", default=1000)
@click.option("--rounds", default=3)
@click.option("--lease", default="15s,10s,2s", help="leaseDuration, renewDeadline and retryPeriod.")
@click.option("--scheduler", "names", multiple=True, default=("kube-scheduler", "mooring"))
def main(nodes: int, rounds: int, lease: str, names: tuple[str, ...]) -> None:
    """Measure the failover of schedulers."""
    print(row(("scheduler", "nodes", "best s", "median s", "worst s")))
    for name in names:
        seconds = sorted(asyncio.run(_measure(name, nodes, lease)) for _ in range(rounds))
        cells = (seconds[0], seconds[len(seconds) // 2], seconds[-1])
        print(row((name, nodes, *(f"{each:.2f}" for each in cells))), flush=True)


async def _measure(name: str, nodes: int, lease: str) -> float:
    with ControlPlane(unlimited=True) as plane:
        async with connected(plane) as server, observing(server) as observer:
            await server.create(objects.NODES_PATH, objects.nodes(nodes))
            leader = _start(plane, name, "first", lease)
            creating = asyncio.create_task(_create(server))
            await observer.wait(1, patience=60)
            _start(plane, name, "second", lease).wait_ready()
            await asyncio.sleep(3.0)
            leader.kill()
            killed = time.monotonic()
            found = await _next_bind(observer, killed)
            creating.cancel()
            print(f"-- {name}: {found:.2f} s", file=sys.stderr, flush=True)
            return found


def _start(plane: ControlPlane, name: str, which: str, lease: str) -> Process:
    duration, deadline, period = lease.split(",")
    election = {"leaderElect": True, "leaseDuration": duration, "renewDeadline": deadline, "retryPeriod": period}
    if name == "kube-scheduler":
        return plane.start_kube_scheduler({"leaderElection": election}, name=f"{name}-{which}", wait=False)
    config: Path = plane.scheduler_config({"leaderElection": election}, name=f"{name}-{which}")
    command = mooring_command(plane, "--config", str(config), port=free_port())
    return plane.run(f"{name}-{which}", command, wait=False)


async def _create(server: Server) -> None:
    number = 0
    while True:
        await server.create_one(objects.PODS_PATH, objects.single_pod(number))
        number += 1
        await asyncio.sleep(_INTERVAL)


async def _next_bind(observer: Observer, killed: float) -> float:
    while True:
        later = [at for at in observer.times.values() if at > killed + _OWN_SECONDS]
        if later:
            return min(later) - killed
        await asyncio.sleep(0.02)


if __name__ == "__main__":
    main()
