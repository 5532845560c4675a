"""Functions that run an embedded cluster until it is stopped."""

import asyncio
import contextlib
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path

from mooring.cluster.embedded import EmbeddedCluster
from mooring.cluster.kubeconfig import check_writable, remove_kubeconfig, write_kubeconfig

#: Called when the cluster is ready.
Ready = Callable[[EmbeddedCluster], None]


async def serve(
    cluster: EmbeddedCluster,
    *,
    nodes: int,
    devices: Mapping[str, int] | None = None,
    kubeconfig: Path | None = None,
    ready: Ready | None = None,
) -> None:
    """Start the cluster with fake nodes, which have devices, and stop it on SIGINT or SIGTERM.

    Without a kubeconfig the cluster belongs to the process that started it, and also stops when its standard input is
    closed.
    """
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        # Some platforms and threads cannot handle signals. In that case the caller must stop the cluster.
        with contextlib.suppress(NotImplementedError, RuntimeError):
            loop.add_signal_handler(number, ended.set)
    if kubeconfig is None:
        _end_with_input(loop, ended)
    else:
        check_writable(kubeconfig)
    await cluster.start()
    text = cluster.kubeconfig()
    try:
        cluster.add_devices(cluster.add_nodes(nodes), devices or {})
        if kubeconfig is not None:
            write_kubeconfig(text, kubeconfig)
        if ready is not None:
            ready(cluster)
        await ended.wait()
    finally:
        await cluster.stop()
        if kubeconfig is not None and not cluster.keeps_data:
            remove_kubeconfig(text, kubeconfig)


def _end_with_input(loop: asyncio.AbstractEventLoop, ended: asyncio.Event) -> None:
    def read() -> None:
        # Not sys.stdin: at exit the interpreter aborts if a thread holds its lock.
        while os.read(descriptor, 4096):
            pass
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(ended.set)

    descriptor = sys.stdin.fileno()
    threading.Thread(target=read, name="mooring-lifeline", daemon=True).start()


def run(main: Callable[[], Coroutine[object, object, None]]) -> None:
    """Run a coroutine function. If uvloop is installed, use it: it makes the cluster 50 % faster."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        factory = None
    else:
        factory = new_event_loop
    # The heap of a cluster is large and long-lived, so frequent garbage collections are not worthwhile.
    gc.set_threshold(50_000, 50, 100)
    with asyncio.Runner(loop_factory=factory) as runner:
        runner.run(main())
