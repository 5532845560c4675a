"""A client that only binds: it binds pending pods to the nodes in turn, as fast as the API server allows.

This is the upper bound for a scheduler with Mooring's client. `python -m bench.live.null_client --kubeconfig FILE`.
"""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Coroutine, Iterator
from datetime import UTC, datetime
from typing import Any

import click

from mooring.api import Event, Node, ObjectMeta, Pod
from mooring.kube import Client, load_access, reference


async def bind_all(kubeconfig: str, *, connections: int, events: bool) -> int:
    """Bind every pending pod to the next node. Return the number of pods."""
    async with Client(load_access(kubeconfig=kubeconfig)) as client:
        nodes = itertools.cycle([node.name for node in (await client.list(Node)).items])
        waiting = iter((await client.list(Pod, fields="spec.nodeName=")).items)
        numbers = itertools.count()

        async def binder(pods: Iterator[Pod]) -> None:
            for pod in pods:
                node = next(nodes)
                await client.bind(pod, node)
                number = next(numbers)
                if events:
                    await client.create_event(_event(pod, node, number))

        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(binder(waiting))
        return next(numbers)


def _event(pod: Pod, node: str, number: int) -> Event:
    return Event(
        metadata=ObjectMeta(name=f"{pod.name}.{number:x}", namespace=pod.namespace),
        event_time=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        reporting_controller="null-client",
        reporting_instance="null-client-1",
        action="Binding",
        reason="Scheduled",
        regarding=reference(pod),
        note=f"Successfully assigned {pod.namespace}/{pod.name} to {node}",
        type="Normal",
    )


async def _bind_and_stay(work: Coroutine[Any, Any, int]) -> None:
    """Keep running until terminated, so that the usage of this process can be read."""
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    print(f"{await work} pods bound", flush=True)
    await stopped.wait()


def _run(main: Coroutine[Any, Any, None]) -> None:
    try:
        import uvloop
    except ImportError:
        asyncio.run(main)
    else:
        uvloop.run(main)


@click.command()
@click.option("--kubeconfig", required=True)
@click.option("--connections", default=64, show_default=True, help="Binds in flight.")
@click.option("--events", is_flag=True, help="Also send an event for each bind.")
def main(kubeconfig: str, connections: int, events: bool) -> None:
    """Bind all pending pods to the nodes in turn."""
    _run(_bind_and_stay(bind_all(kubeconfig, connections=connections, events=events)))


if __name__ == "__main__":
    main()
