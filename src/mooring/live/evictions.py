"""Evictions: carries out preemptions. It clears nominations of lower-priority pods and evicts the victims."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

from mooring.api.meta import format_time
from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup
from mooring.kube import Client, KubeError, NotFound
from mooring.live.reporter import Reporter
from mooring.logs import get_logger
from mooring.scheduler.attempt_results import FailedAttempt
from mooring.scheduler.engine import Engine

log = get_logger("mooring.live")

_REASON = "PreemptionByScheduler"
#: What kube-scheduler names instead of a node if the preemptor is a group.
_CLUSTER = "cluster"


class Evictions:
    """The evictions of victims. The preemptor is gated until the last victim terminates."""

    def __init__(self, client: Client, engine: Engine, reporter: Reporter, clock: Callable[[], float]) -> None:
        self._client = client
        self._engine = engine
        self._reporter = reporter
        self._clock = clock

    async def carry_out(self, failed: FailedAttempt) -> None:
        """Evict the victims of a failed attempt, and retry the preemptor if that fails.

        The attempt has marked the victims as being evicted. The mark of a victim that is not evicted is removed. The
        preemptor is gated until the last victim terminates, whose deletion requeues it.
        """
        engine, preemptor, node = self._engine, failed.queued.pod, failed.nominated_node or ""
        group = failed.group
        if group is not None:
            node = _CLUSTER
        status = failed.failure.post_filter
        plugin = status.plugin if status is not None else ""
        pods = engine.cache.table.pods
        victims = [pods[uid].pod for uid in failed.victims if uid in pods]
        pending = {victim.uid: victim for victim in victims}
        stage, started = "", perf_counter()

        async def evict(victim: Pod) -> None:
            await self._evict(victim, preemptor, group, node, plugin)
            del pending[victim.uid]

        try:
            if group is None:
                await self._clear_nominations(preemptor, node)
            problems = await asyncio.gather(*map(evict, victims[:-1]), return_exceptions=True)
            for problem in filter(None, problems):
                raise problem
            for last in victims[-1:]:
                stage = last.uid
                engine.evicts_last(preemptor.uid, stage)
                await evict(last)
        except KubeError as error:
            log.warning("preemption failed", pod=preemptor.key, node=node, error=str(error))
        finally:
            # Once the last victim terminates, the preemptor may start another preemption before this one ends.
            if victims and engine.preempting.get(preemptor.uid) == stage:
                engine.end_preemption(preemptor.uid)
            if group is not None and engine.observer is not None and engine.observer.groups is not None:
                engine.observer.groups.evicted(success=not pending, seconds=perf_counter() - started)
            if pending:
                engine.preemption_failed(preemptor, tuple(pending.values()))

    async def _clear_nominations(self, preemptor: Pod, node: str) -> None:
        """Clear the nominations of lower-priority pods to the node."""
        on_node = self._engine.cache.nominator.on_node(node)
        lower = [info.pod for info in on_node if info.pod.priority < preemptor.priority]
        for pod in lower:
            self._engine.clear_nomination(pod.uid)
        await asyncio.gather(*(self._reporter.clear_nomination(pod) for pod in lower))

    async def _evict(self, victim: Pod, preemptor: Pod, group: NativePodGroup | None, node: str, plugin: str) -> None:
        # A pod that is not bound yet returns to the queue instead of being deleted.
        if self._engine.cancel_binding(victim.uid, plugin):
            self._record(victim, preemptor, node, plugin)
            self._reporter.preempted(victim, preemptor, node, group=group, in_memory=True)
            return
        message = f"{preemptor.scheduler_name}: preempting to accommodate a higher priority {_kind(group)}"
        if not _is_disrupted(victim, message):
            condition: dict[str, Any] = {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": _REASON,
                "message": message,
                "lastProbeTime": None,
                "lastTransitionTime": format_time(self._clock()),
            }
            if victim.metadata.generation:
                condition["observedGeneration"] = victim.metadata.generation
            await self._reporter.patch(victim, {"conditions": [condition]})
        await self._delete(victim, preemptor, group, node, plugin)

    async def _delete(self, victim: Pod, preemptor: Pod, group: NativePodGroup | None, node: str, plugin: str) -> None:
        try:
            await self._client.delete(Pod, victim.name, namespace=victim.namespace, uid=victim.uid)
        except NotFound:
            return
        self._record(victim, preemptor, node, plugin)
        log.info("Preempted pod", victim=victim.key, preemptor=preemptor.key, node=node)
        self._reporter.preempted(victim, preemptor, node, group=group)

    def _record(self, victim: Pod, preemptor: Pod, node: str, plugin: str) -> None:
        if self._engine.observer is not None:
            self._engine.observer.preempted(victim, preemptor, node, plugin)


def _kind(group: NativePodGroup | None) -> str:
    return "pod" if group is None else "podgroup"


def _is_disrupted(pod: Pod, message: str) -> bool:
    """Return whether the pod already has the condition, from a preemption whose DELETE failed."""
    said = ("True", _REASON, message)
    return any(
        condition.type == "DisruptionTarget" and (condition.status, condition.reason, condition.message) == said
        for condition in pod.status.conditions
    )
