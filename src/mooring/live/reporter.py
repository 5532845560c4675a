"""Reports the outcome of attempts: events, the PodScheduled condition, the nominated node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import structlog

from mooring.api.meta import KubeObject, format_time
from mooring.api.pod import Pod
from mooring.kube import Client, Conflict, EventRecorder, KubeError, NotFound
from mooring.kube.event_recorder import EventKind
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt

log = structlog.get_logger("mooring.live")

#: How long to wait before a patch that met another is sent again.
_CONFLICT_SECONDS = 0.05


class Reporter:
    """Writes events and pod status."""

    def __init__(self, client: Client, events: EventRecorder, clock: Callable[[], float]) -> None:
        self._client = client
        self._events = events
        self._clock = clock
        #: What is being written about pods that could not be placed, by uid.
        self._under_way: dict[str, asyncio.Future[None]] = {}
        #: Nodes that pods were said to come to, by uid: what was written may not have been seen yet.
        self._expected: dict[str, str] = {}

    def bound(self, assumed: AssumedPod) -> None:
        """A pod has its node."""
        pod, node = assumed.pod, assumed.node_name
        self._expected.pop(pod.uid, None)
        log.info(
            "Successfully bound pod to node",
            pod=pod.key,
            node=node,
            evaluatedNodes=assumed.evaluated,
            feasibleNodes=assumed.feasible,
        )
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._events.record(
            pod, type="Normal", reason="Scheduled", action="Binding", note=note, component=pod.scheduler_name
        )

    def record(
        self, regarding: KubeObject, *, type: EventKind, reason: str, action: str, note: str, component: str
    ) -> None:
        """Record an event in the name of a component."""
        self._events.record(regarding, type=type, reason=reason, action=action, note=note, component=component)

    async def failed(self, failed: FailedAttempt, pod: Pod) -> None:
        """An attempt came to nothing."""
        message = failed.failure.message
        expected = self._expected.pop(pod.uid, "")
        log.info("Unable to schedule pod", pod=pod.key, reason=failed.reason, message=message)
        self._events.record(
            pod,
            type="Warning",
            reason="FailedScheduling",
            action="Scheduling",
            note=message,
            component=pod.scheduler_name,
        )
        if pod.node_name:
            return  # bound by another scheduler, or the answer was lost: the condition would be wrong
        patch = condition_patch(
            pod,
            reason=failed.reason,
            message=message,
            nominated=failed.nominated_node,
            expected=expected,
            now=self._clock(),
        )
        if patch is not None:
            await self._in_turn(pod, patch)

    async def expect(self, pod: Pod, node: str) -> None:
        """Publish the node of a pod whose binding takes a while, so that no autoscaler adds a node for it."""
        if pod.status.nominated_node_name != node:
            self._expected[pod.uid] = node
            await self._in_turn(pod, {"nominatedNodeName": node})

    async def flushed(self, uid: str) -> None:
        """Wait until nothing is being written about a pod: an old failure must not be told after a newer success."""
        while (writing := self._under_way.get(uid)) is not None:
            await asyncio.wait([writing])

    async def _in_turn(self, pod: Pod, status: dict[str, Any]) -> None:
        while (before := self._under_way.get(pod.uid)) is not None:
            await asyncio.wait([before])
        writing = self._under_way[pod.uid] = asyncio.get_running_loop().create_future()
        try:
            await self.patch(pod, status)
        except KubeError as error:
            log.warning("could not write the pod's status", pod=pod.key, error=str(error))
        finally:
            del self._under_way[pod.uid]
            writing.set_result(None)

    def preempted(self, victim: Pod, preemptor: Pod, node: str, *, in_memory: bool = False) -> None:
        """Report a preempted pod; ``in_memory`` if it was not bound yet."""
        note = f"Preempted by pod {preemptor.uid} on node {node}"
        note += " (in kube-scheduler memory)." if in_memory else ""
        self._events.record(
            victim,
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=note,
            component=preemptor.scheduler_name,
            related=preemptor,
        )

    async def patch(self, pod: Pod, status: dict[str, Any]) -> None:
        """Patch a pod's status; a pod that is gone needs none. Raises KubeError."""
        # With the uid, a pod that was deleted and made again under the same name is left alone.
        body = msgspec.json.encode({"metadata": {"uid": pod.uid}, "status": status})
        for again in (True, True, False):
            try:
                await self._client.patch_status(Pod, pod.name, body, namespace=pod.namespace)
            except NotFound:
                return
            except Conflict:
                # Another client writes to the pod, or the name belongs to another pod by now.
                if not again:
                    raise
                await asyncio.sleep(_CONFLICT_SECONDS)
            else:
                return


class PluginEvents:
    """What plugins say about objects, in the name of the pod's scheduler."""

    def __init__(self, events: EventRecorder, *, component: str) -> None:
        """``component`` is who speaks about objects that are no pods."""
        self._events = events
        self._component = component

    def record(
        self,
        regarding: KubeObject,
        *,
        type: str,
        reason: str,
        action: str,
        note: str,
        related: KubeObject | None = None,
    ) -> None:
        """Record an event."""
        component = regarding.scheduler_name if isinstance(regarding, Pod) else self._component
        kind: EventKind = "Warning" if type == "Warning" else "Normal"
        self._events.record(
            regarding, type=kind, reason=reason, action=action, note=note, component=component, related=related
        )


def condition_patch(
    pod: Pod, *, reason: str, message: str, nominated: str | None, now: float, expected: str = ""
) -> dict[str, Any] | None:
    """What to change of a pod's status after a failed attempt; None if it says all that already.

    ``expected`` is the node that was written as nominated meanwhile, which the pod in hand may not show yet.
    """
    status: dict[str, Any] = {}
    known = next((condition for condition in pod.status.conditions if condition.type == "PodScheduled"), None)
    same = known is not None and (known.status, known.reason, known.message) == ("False", reason, message)
    if not same:
        unchanged = known is not None and known.status == "False"
        since = known.last_transition_time if known is not None and unchanged else None
        condition: dict[str, Any] = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastProbeTime": None,
            "lastTransitionTime": since or format_time(now),
        }
        if pod.metadata.generation:
            condition["observedGeneration"] = pod.metadata.generation
        status["conditions"] = [condition]
    if nominated is not None and nominated != (expected or pod.status.nominated_node_name):
        status["nominatedNodeName"] = nominated or None
    return status or None
