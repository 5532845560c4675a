"""Runs an embedded cluster until somebody ends it, and tells people how to reach it."""

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import Callable, Coroutine
from pathlib import Path

from mooring.cluster.embedded import EmbeddedCluster


def write_kubeconfig(cluster: EmbeddedCluster, path: Path) -> None:
    """Write the kubeconfig; it holds the administrator's token, so only its owner may read it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(cluster.kubeconfig())
    draft.replace(path)


async def serve(
    cluster: EmbeddedCluster, *, kubeconfig: Path, nodes: int, ready: Callable[[EmbeddedCluster], None] | None = None
) -> None:
    """Start the cluster with some fake nodes, and stop it on SIGINT or SIGTERM."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Not every platform or thread lets signals be handled here; then the caller's own way of ending remains.
        with contextlib.suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, ended.set)
    await cluster.start()
    try:
        cluster.add_nodes(nodes)
        write_kubeconfig(cluster, kubeconfig)
        if ready is not None:
            ready(cluster)
        await ended.wait()
    finally:
        await cluster.stop()


def run(main: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run a coroutine function, on uvloop where it is installed: the cluster is half as fast again on it."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        factory = None
    else:
        factory = new_event_loop
    # A cluster is one large, old heap: looking through all of it often costs more than it ever finds.
    gc.set_threshold(50_000, 50, 100)
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
