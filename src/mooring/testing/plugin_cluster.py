"""PluginCluster: an embedded cluster and a scheduler with your plugins, in a thread, for synchronous tests.

>>> with PluginCluster(nodes=3) as cluster:
...     cluster.start(plugin_files={"NodeNumber": "nodenumber.py"})
...     cluster.add(make_pod("web-2").obj())
...     assert cluster.node_of("web-2") == "node-2"
"""

from __future__ import annotations

import asyncio
import tempfile
import threading
import time
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.pod import Container, Pod
from mooring.cluster import EmbeddedCluster
from mooring.framework.plugin import Plugin
from mooring.kube import Client, load_access
from mooring.live.embedding import Scheduler
from mooring.loading.plugin_rows import PluginRow
from mooring.observe.explanation import Explanation

T = TypeVar("T")
_SECONDS = 30.0


class PluginCluster:
    """A cluster of fake nodes named node-0, node-1 and so on; use it as a context manager."""

    def __init__(self, *, nodes: int = 3) -> None:
        self._count = nodes
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="plugin-cluster", daemon=True)
        self._folder = tempfile.TemporaryDirectory(prefix="mooring-test-")
        #: The kubeconfig, for kubectl and other clients.
        self.kubeconfig = Path(self._folder.name) / "kubeconfig"
        self._cluster: EmbeddedCluster
        self._client: Client
        self._scheduler: Scheduler | None = None

    def __enter__(self) -> PluginCluster:
        self._thread.start()
        self._run(self._begin())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._run(self._end())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_SECONDS)
            self._loop.close()
            self._folder.cleanup()

    def start(
        self,
        *,
        config: str | Path | None = None,
        plugins: Mapping[str, type[Plugin]] | None = None,
        plugin_files: Mapping[str, str | Path] | None = None,
        plugins_dir: str | Path | None = None,
    ) -> None:
        """Start the scheduler with a configuration file, or with these plugins at all their extension points.

        Raises SchedulerError. Files are reloaded when they change.
        """

        async def begin() -> None:
            self._scheduler = Scheduler(
                config,
                kubeconfig=self.kubeconfig,
                plugins=plugins,
                custom_plugin_files=plugin_files,
                plugins_dir=plugins_dir,
                leader_elect=False,
            )
            self._scheduler.start()
            await self._scheduler.ready()

        self._run(begin())

    def add(self, *objects: KubeObject) -> None:
        """Create objects. Adds a container to pods without containers."""
        for each in objects:
            self._run(self._client.create(_complete(each) if isinstance(each, Pod) else each))

    def pod(self, name: str, namespace: str = "default") -> Pod:
        """Return the current state of a pod."""
        return self._run(self._client.get(Pod, name, namespace=namespace))

    def node_of(self, name: str, namespace: str = "default", *, seconds: float = _SECONDS) -> str:
        """Wait until a pod is bound and return its node. Raises AssertionError with the reason after a timeout."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pod = self.pod(name, namespace)
            if pod.node_name:
                return pod.node_name
            time.sleep(0.02)
        reason = _why(pod) or "no reason is known"
        raise AssertionError(f"pod {namespace}/{name} has no node after {seconds:g} s: {reason}")

    def why(self, name: str, namespace: str = "default", *, seconds: float = _SECONDS) -> str:
        """Wait until a pod is unschedulable and return the reason. Raises AssertionError if the pod is bound."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pod = self.pod(name, namespace)
            if pod.node_name:
                raise AssertionError(f"pod {namespace}/{name} is on {pod.node_name}")
            if message := _why(pod):
                return message
            time.sleep(0.02)
        raise AssertionError(f"pod {namespace}/{name} has no PodScheduled condition after {seconds:g} s")

    def explain(self, name: str, namespace: str = "default") -> Explanation | None:
        """Return the scheduler's explanation of a pod: verdicts, scores, durations."""
        scheduler = self._started()

        async def read() -> Explanation | None:
            return scheduler.explain(f"{namespace}/{name}")

        return self._run(read())

    def plugins(self) -> list[PluginRow]:
        """Return the status of the plugins."""
        scheduler = self._started()

        async def read() -> list[PluginRow]:
            return scheduler.plugins()

        return self._run(read())

    def _started(self) -> Scheduler:
        if self._scheduler is None:
            raise AssertionError("the scheduler is not running: call start() first")
        return self._scheduler

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(2 * _SECONDS)

    async def _begin(self) -> None:
        self._cluster = EmbeddedCluster()
        await self._cluster.start()
        self._cluster.add_nodes(self._count)
        self.kubeconfig.write_text(self._cluster.kubeconfig())
        self._client = Client(load_access(kubeconfig=str(self.kubeconfig)))

    async def _end(self) -> None:
        if self._scheduler is not None:
            await self._scheduler.stop()
        await self._client.close()
        await self._cluster.stop()


def _complete(pod: Pod) -> Pod:
    """Add the container that the API server requires."""
    if pod.spec.containers:
        return pod
    spec = msgspec.structs.replace(pod.spec, containers=(Container(name="main", image="example/app:1"),))
    return msgspec.structs.replace(pod, spec=spec)


def _why(pod: Pod) -> str:
    found = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False")
    return next((each.message for each in found), "")
