"""Reporter: publishes the outcomes of attempts as events, the PodScheduled condition and the nominated node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
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
#: How long a binding takes before its node is published.
_EXPECTED_SECONDS = 1.0
#: The condition of a PodGroup of scheduling.k8s.io.
_GROUP_SCHEDULED = "PodGroupInitiallyScheduled"
#: For how many groups the reporter remembers that they are scheduled.
_RECENT_GROUPS = 4096


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
        #: The uids of groups that were published as scheduled, in order. The write may not have been observed yet.
        self._scheduled_groups: dict[str, None] = {}

    def bound(self, assumed: AssumedPod) -> None:
        """Report a bound pod."""
        pod, node, key = assumed.pod, assumed.node_name, assumed.queued.key
        if self._expected:
            self._expected.pop(pod.uid, None)
        log.info(
            "Successfully bound pod to node",
            pod=key,
            node=node,
            evaluatedNodes=assumed.evaluated,
            feasibleNodes=assumed.feasible,
        )
        note = f"Successfully assigned {key} to {node}"
        self._events.record(
            pod, type="Normal", reason="Scheduled", action="Binding", note=note, component=assumed.queued.profile
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
        if failed.failure.handover:
            log.info("Handed over pod", pod=pod.key, node=failed.nominated_node, message=message)
            if failed.nominated_node and not pod.node_name:
                await self._in_turn(pod, {"nominatedNodeName": failed.nominated_node})
            return
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
        if condition is None or (group.uid in self._scheduled_groups and not status.is_scheduled):
            return
        if status.is_scheduled:
            self._scheduled_groups[group.uid] = None
            if len(self._scheduled_groups) > _RECENT_GROUPS:
                del self._scheduled_groups[next(iter(self._scheduled_groups))]
        body = msgspec.json.encode({"metadata": {"uid": group.uid}, "status": {"conditions": [condition]}})
        async with self._turn(group.uid):
            try:
                await self._client.patch_status(NativePodGroup, group.name, body, namespace=group.namespace)
            except NotFound:
                pass
            except KubeError as error:
                log.warning("could not write the status of a pod group", podGroup=group.key, error=str(error))

    def expect(self, pod: Pod, node: str) -> Callable[[], Awaitable[None]]:
        """Publish the node of a pod whose binding takes a while, so that no autoscaler adds a node for it.

        The pod is usually bound a few milliseconds later, and then the write would be wasted. So it is sent after
        ``_EXPECTED_SECONDS``, unless the returned function is called before.
        """
        loop, writing = asyncio.get_running_loop(), list[asyncio.Task[None]]()

        def publish() -> None:
            self._expected[pod.uid] = node
            writing.append(loop.create_task(self._in_turn(pod, {"nominatedNodeName": node})))

        timer = None if pod.status.nominated_node_name == node else loop.call_later(_EXPECTED_SECONDS, publish)

        async def end() -> None:
            if timer is not None:
                timer.cancel()
            if writing:
                await asyncio.wait(writing)

        return end

    async def clear_nomination(self, pod: Pod) -> None:
        """Clear the nominated node of a pod, after the writes in progress."""
        await self._in_turn(pod, {"nominatedNodeName": None})

    def flushed(self, uid: str) -> Coroutine[Any, Any, None] | None:
        """Return what ends after the status writes of a pod; None if there are none.

        An old failure must not be published after a newer success.
        """
        return self._flushed(uid) if uid in self._under_way else None

    async def _flushed(self, uid: str) -> None:
        while (writing := self._under_way.get(uid)) is not None:
            await asyncio.wait([writing])

    async def _in_turn(self, pod: Pod, status: dict[str, Any]) -> None:
        async with self._turn(pod.uid):
            try:
                await self.patch(pod, status)
            except KubeError as error:
                log.warning("could not write the pod's status", pod=pod.key, error=str(error))

    @asynccontextmanager
    async def _turn(self, uid: str) -> AsyncIterator[None]:
        """Wait for the earlier writes of an object; later ones wait for this one."""
        while (before := self._under_way.get(uid)) is not None:
            await asyncio.wait([before])
        writing = self._under_way[uid] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._under_way[uid]
            writing.set_result(None)

    def preempted(
        self, victim: Pod, preemptor: Pod, node: str, *, group: NativePodGroup | None = None, in_memory: bool = False
    ) -> None:
        """Report a pod that was preempted by a pod or by its group; ``in_memory`` is true if it was not bound yet."""
        by = f"pod {preemptor.uid}" if group is None else f"podgroup {group.uid}"
        note = f"Preempted by {by} on node {node}"
        note += " (in kube-scheduler memory)." if in_memory else ""
        self._events.record(
            victim,
            type="Normal",
            reason="Preempted",
            action="Preempting",
            note=note,
            component=preemptor.scheduler_name,
            related=preemptor if group is None else group,
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
