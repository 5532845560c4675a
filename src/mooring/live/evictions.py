"""Carries out preemptions: clears nominations of lower-priority pods and evicts the victims."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import structlog

from mooring.api.meta import format_time
from mooring.api.pod import Pod
from mooring.kube import Client, KubeError, NotFound
from mooring.live.reporter import Reporter
from mooring.scheduler.attempt_results import FailedAttempt
from mooring.scheduler.engine import Engine

log = structlog.get_logger("mooring.live")


class Evictions:
    """Evicts the victims of preemptions; the preemptor is gated meanwhile."""

    def __init__(self, client: Client, engine: Engine, reporter: Reporter, clock: Callable[[], float]) -> None:
        self._client = client
        self._engine = engine
        self._reporter = reporter
        self._clock = clock

    async def carry_out(self, failed: FailedAttempt) -> None:
        """Evict the victims of a failed attempt. The preemptor is no longer gated when the last one is evicted."""
        preemptor, node = failed.queued.pod, failed.nominated_node or ""
        pods = self._engine.cache.table.pods
        victims = [pods[uid].pod for uid in failed.victims if uid in pods]
        try:
            await self._clear_nominations(preemptor, node)
            await asyncio.gather(*(self._evict(victim, preemptor, node) for victim in victims[:-1]))
        except KubeError as error:
            log.warning("preemption failed", pod=preemptor.key, node=node, error=str(error))
            self._engine.queue.activate([preemptor.key])
            return
        finally:
            self._engine.preempting.discard(preemptor.uid)
        if victims:
            try:
                # Its deletion event must be able to requeue the preemptor.
                await self._evict(victims[-1], preemptor, node)
            except KubeError as error:
                log.warning("preemption failed", pod=preemptor.key, node=node, error=str(error))
                self._engine.queue.activate([preemptor.key])

    async def _clear_nominations(self, preemptor: Pod, node: str) -> None:
        """Clear the nominations of lower-priority pods to the node."""
        nominator = self._engine.cache.nominator
        lower = [info.pod for info in nominator.on_node(node) if info.pod.priority < preemptor.priority]
        for pod in lower:
            nominator.remove(pod.uid)
        patches = (self._reporter.patch(pod, {"nominatedNodeName": None}) for pod in lower)
        for pod, problem in zip(lower, await asyncio.gather(*patches, return_exceptions=True), strict=True):
            if isinstance(problem, KubeError):
                log.warning("could not clear a nomination", pod=pod.key, node=node, error=str(problem))
            elif problem is not None:
                raise problem

    async def _evict(self, victim: Pod, preemptor: Pod, node: str) -> None:
        waiting = self._engine.profiles.waiting_pods.get(victim.uid)
        if waiting is not None:
            waiting.preempt("DefaultPreemption")
        # A pod that is not bound yet returns to the queue instead of being deleted.
        if waiting is not None or self._engine.pre_binds.cancel(victim.uid, "preempted by DefaultPreemption"):
            self._reporter.preempted(victim, preemptor, node, in_memory=True)
            return
        condition: dict[str, Any] = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "PreemptionByScheduler",
            "message": f"{preemptor.scheduler_name}: preempting to accommodate a higher priority pod",
            "lastProbeTime": None,
            "lastTransitionTime": format_time(self._clock()),
        }
        if victim.metadata.generation:
            condition["observedGeneration"] = victim.metadata.generation
        lock, cache = self._engine.lock, self._engine.cache
        lock.defer(cache.start_eviction, victim)
        try:
            await self._reporter.patch(victim, {"conditions": [condition]})
            await self._delete(victim, preemptor, node)
        except KubeError:
            lock.defer(cache.eviction_failed, victim)
            raise

    async def _delete(self, victim: Pod, preemptor: Pod, node: str) -> None:
        try:
            await self._client.delete(Pod, victim.name, namespace=victim.namespace, uid=victim.uid)
        except NotFound:
            return
        log.info("Preempted pod", victim=victim.key, preemptor=preemptor.key, node=node)
        self._reporter.preempted(victim, preemptor, node)
