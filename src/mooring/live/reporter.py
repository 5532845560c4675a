"""Reporter: publishes the outcomes of attempts as events, the PodScheduled condition and the nominated node."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from mooring.api.meta import KubeObject, ObjectReference, format_time
from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup
from mooring.kube import Client, Conflict, EventRecorder, KubeError, NotFound
from mooring.kube.event_recorder import EventKind, reference
from mooring.logs import get_logger
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt, GroupStatus

log = get_logger("mooring.live")

#: How long to wait before a patch is sent again after a conflict.
_CONFLICT_SECONDS = 0.05
#: The condition of a PodGroup of scheduling.k8s.io.
_GROUP_SCHEDULED = "PodGroupInitiallyScheduled"


class Reporter:
    """A writer of events and pod status."""

    def __init__(
        self, client: Client, events: EventRecorder, clock: Callable[[], float], *, component: str = "default-scheduler"
    ) -> None:
        """``component`` is the reporting component of events about objects other than pods."""
        self._client = client
        self._component = component
        self._events = events
        self._clock = clock
        #: The status writes in progress, by the uid of the pod.
        self._under_way: dict[str, asyncio.Future[None]] = {}
        #: The nodes that were published as nominated, by the uid of the pod. The write may not have been observed yet.
        self._expected: dict[str, str] = {}

    def bound(self, assumed: AssumedPod) -> None:
        """Report a bound pod."""
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
        """Record an event of a batch session, in the core group as Volcano does."""
        self._events.record(
            regarding, type=type, reason=reason, action=action, note=note, component=component, core=True
        )

    def invalid(self, item: KubeObject | ObjectReference, message: str) -> None:
        """Report an object that cannot be decoded, or whose values cannot be parsed, and is ignored."""
        about = msgspec.structs.replace(reference(item), resource_version="")  # one event, not one for each version
        note = f"The object is ignored: {message}"
        self._events.record(
            about, type="Warning", reason="Invalid", action="Reading", note=note, component=self._component
        )

    async def failed(self, failed: FailedAttempt, pod: Pod) -> None:
        """Report a failed attempt."""
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
            return  # bound by another scheduler, or the response was lost: the condition would be wrong
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

    async def group(self, group: NativePodGroup, status: GroupStatus) -> None:
        """Write the condition of a group after its scheduling cycle."""
        log.info("Attempted to schedule pod group", podGroup=group.key, reason=status.reason, message=status.message)
        condition = group_condition(group, status, self._clock())
        if condition is None:
            return
        body = msgspec.json.encode({"metadata": {"uid": group.uid}, "status": {"conditions": [condition]}})
        try:
            await self._client.patch_status(NativePodGroup, group.name, body, namespace=group.namespace)
        except NotFound:
            pass
        except KubeError as error:
            log.warning("could not write the status of a pod group", podGroup=group.key, error=str(error))

    async def expect(self, pod: Pod, node: str) -> None:
        """Publish the node of a pod whose binding takes a while, so that no autoscaler adds a node for it."""
        if pod.status.nominated_node_name != node:
            self._expected[pod.uid] = node
            await self._in_turn(pod, {"nominatedNodeName": node})

    async def clear_nomination(self, pod: Pod) -> None:
        """Clear the nominated node of a pod, after the writes in progress."""
        await self._in_turn(pod, {"nominatedNodeName": None})

    async def flushed(self, uid: str) -> None:
        """Wait for the status writes of a pod: an old failure must not be published after a newer success."""
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
        """Report a preempted pod; ``in_memory`` is true if it was not bound yet."""
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
        """Patch a pod's status. A deleted pod is ignored. Raises KubeError."""
        # With the uid, the patch does not apply to a new pod with the same name.
        body = msgspec.json.encode({"metadata": {"uid": pod.uid}, "status": status})
        for again in (True, True, False):
            try:
                await self._client.patch_status(Pod, pod.name, body, namespace=pod.namespace)
            except NotFound:
                return
            except Conflict:
                # Another client writes to the pod, or the name now belongs to another pod.
                if not again:
                    raise
                await asyncio.sleep(_CONFLICT_SECONDS)
            else:
                return


class PluginEvents:
    """The events that plugins record. The reporting component is the pod's scheduler."""

    def __init__(self, events: EventRecorder, *, component: str) -> None:
        """``component`` is the reporting component of events about objects other than pods."""
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


def group_condition(group: NativePodGroup, status: GroupStatus, now: float) -> dict[str, Any] | None:
    """Return the condition of a group after its cycle; None if it does not change. A scheduled group stays so."""
    known = next((each for each in group.status.conditions if each.type == _GROUP_SCHEDULED), None)
    is_true = "True" if status.is_scheduled else "False"
    generation = group.metadata.generation
    if known is not None:
        if known.status == "True" and not status.is_scheduled:
            return None
        if (known.status, known.reason, known.message) == (is_true, status.reason, status.message):
            return None
    since = known.last_transition_time if known is not None and known.status == is_true else None
    return {
        "type": _GROUP_SCHEDULED,
        "status": is_true,
        "reason": status.reason,
        "message": status.message,
        "lastTransitionTime": since or format_time(now),
        **({"observedGeneration": generation} if generation else {}),
    }


def condition_patch(
    pod: Pod, *, reason: str, message: str, nominated: str | None, now: float, expected: str = ""
) -> dict[str, Any] | None:
    """Return the patch of a pod's status after a failed attempt; None if nothing changes.

    ``expected`` is the node that was published as nominated, which ``pod`` may not contain yet.
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
