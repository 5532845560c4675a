"""CacheDebugger: on a signal, compares the cache and the queue with the API server, and logs the result.

kube-scheduler does the same on SIGUSR2. Both sides change during a comparison, so only a difference that is present
twice, some seconds apart, is reported.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.kube import Client, KubeError
from mooring.logs import get_logger
from mooring.scheduler.engine import Engine
from mooring.scheduler.queue import Place

log = get_logger("mooring.live")

#: The time for the watches to catch up with a list.
_CATCH_UP_SECONDS = 3.0
#: The maximum number of nodes and of pods to dump.
_MAX_DUMPED = 200


class CacheDebugger:
    """A comparison of the cache and the queue with the API server."""

    def __init__(self, client: Client, engine: Engine) -> None:
        self._client = client
        self._engine = engine

    async def report(self) -> None:
        """Compare and log the differences, a summary, and a dump of the cache and the queue."""
        try:
            found = await self.differences()
        except KubeError as error:
            log.warning("Failed to compare the cache", error=str(error))
            return
        for each in sorted(found):
            log.warning("Cache mismatch", difference=each)
        table, queue = self._engine.cache.table, self._engine.queue
        log.info(
            "Cache comparison",
            differences=len(found),
            nodes=len(table),
            pods=len(table.pods),
            assumed=len(self._engine.cache.assumed),
            **queue.pending(),
        )
        self._dump()

    async def differences(self) -> set[str]:
        """Return the differences between the cache and the API server, and inconsistencies of the node table."""
        found = await self._compare()
        if found:
            await asyncio.sleep(_CATCH_UP_SECONDS)
            found &= await self._compare()
        return found

    async def _compare(self) -> set[str]:
        nodes = await self._client.list(Node)
        pods = await self._client.list(Pod)
        found = set(self._engine.cache.table.check())
        found |= self._compare_nodes(nodes.items)
        found |= self._compare_pods([pod for pod in pods.items if not pod.is_finished])
        return found

    def _compare_nodes(self, nodes: Iterable[Node]) -> set[str]:
        actual = {node.name for node in nodes}
        cached = set(self._engine.cache.table.row_of)
        return {f"node {name} is not in the cache" for name in actual - cached} | {
            f"node {name} is in the cache only" for name in cached - actual
        }

    def _compare_pods(self, pods: list[Pod]) -> set[str]:
        engine = self._engine
        placed = {pod.uid: pod for pod in pods if pod.node_name}
        waiting = {pod.uid: pod for pod in pods if not pod.node_name and pod.scheduler_name in engine.profiles.runners}
        table, assumed = engine.cache.table.pods, engine.cache.assumed
        queued = {each.uid: each.pod for place, each in engine.queue if place is not Place.IN_FLIGHT}
        flying = {each.uid for place, each in engine.queue if place is Place.IN_FLIGHT}
        found = set()
        for uid, pod in placed.items():
            cached = table.get(uid)
            if cached is None:
                found.add(f"pod {pod.key} on {pod.node_name} is not in the cache")
            elif cached.pod.node_name != pod.node_name:
                found.add(f"pod {pod.key} is on {pod.node_name}, in the cache on {cached.pod.node_name}")
            if uid in queued:
                found.add(f"pod {pod.key} is bound and still in the queue")
        for uid, info in table.items():
            if uid not in placed and uid not in assumed:
                found.add(f"pod {info.pod.key} on {info.pod.node_name} is in the cache only")
        found |= {f"pod {uid} is assumed but does not exist" for uid in assumed - placed.keys() - waiting.keys()}
        for uid, pod in waiting.items():
            if uid not in queued and uid not in flying and uid not in assumed and not pod.is_terminating:
                found.add(f"pod {pod.key} is pending but not in the queue")
        found |= {f"pod {pod.key} is in the queue only" for uid, pod in queued.items() if uid not in waiting}
        nominator = engine.cache.nominator
        for name in list(nominator.nodes()):
            gone = [info.pod.key for info in nominator.on_node(name) if info.pod.uid not in waiting]
            found |= {f"pod {key} is nominated to {name} but not pending" for key in gone}
        return found

    def _dump(self) -> None:
        """Log the cached nodes and the queued pods."""
        engine = self._engine
        for info in engine.cache.table.nodes[:_MAX_DUMPED]:
            nominated = [each.pod.key for each in engine.cache.nominator.on_node(info.name)]
            log.info("Cached node", node=info.name, pods=len(list(info.pods)), nominated=nominated)
        for number, (place, queued) in enumerate(engine.queue):
            if number == _MAX_DUMPED:
                break
            log.info("Queued pod", pod=queued.key, queue=place.value, attempts=queued.attempts)
