"""BatchWriter: writes the decisions of sessions to the API server. Sessions do not wait for it."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any

import msgspec

from mooring.api.meta import KubeObject, format_time
from mooring.api.pod import Pod
from mooring.api.volcano import QUEUE_GATE, PodGroup, PodGroupCondition, PodGroupStatus, Queue
from mooring.batch.plugins.gang import UNSCHEDULABLE
from mooring.batch.run import PodNote
from mooring.batch.session import INVALID
from mooring.framework.api_clients import Binding
from mooring.kube import Backoff, Client, KubeError, NotFound, PatchType
from mooring.live.api_adapters import ApiBinder
from mooring.live.reporter import Reporter, condition_patch
from mooring.logs import get_logger
from mooring.unexpected_errors import error_text, report_unexpected

log = get_logger("mooring.batch")

#: How many binds, and how many statuses, are written concurrently.
_BINDERS, _STATUS_WRITERS = 64, 8
#: The pauses after scheduling gates could not be removed, in seconds.
_FIRST_GATE_RETRY, _LAST_GATE_RETRY = 0.2, 30.0

#: The work before a pod is bound (volumes and devices). Returns an error, or "" on success.
PreBind = Callable[[], Awaitable[str]]
#: Called when a bind failed, with the error.
Failed = Callable[[Pod, str], Awaitable[None]]


class BatchWriter:
    """A writer of many decisions concurrently. Of several statuses of an object, only the last is written."""

    def __init__(
        self,
        client: Client,
        binder: ApiBinder,
        reporter: Reporter,
        *,
        clock: Callable[[], float],
        component: str,
        on_bound: Callable[[Pod], None],
        on_failed_bind: Failed,
        on_failed_eviction: Callable[[Pod], None],
        on_stage: Callable[[Pod, str, float], None] = lambda _pod, _stage, _seconds: None,
    ) -> None:
        """``on_stage`` is called with the seconds that the stages PreBind and Bind of a pod took."""
        self._client = client
        self._binder = binder
        self._reporter = reporter
        self._clock = clock
        self._component = component
        self._on_bound = on_bound
        self._on_failed_bind = on_failed_bind
        self._on_failed_eviction = on_failed_eviction
        self._on_stage = on_stage
        self._binds: deque[tuple[Pod, str, PreBind | None, Mapping[str, str]]] = deque()
        self._statuses: OrderedDict[tuple[str, str], Callable[[], Awaitable[None]]] = OrderedDict()
        #: The uids of the pods whose scheduling gate is being removed.
        self._ungating: set[str] = set()
        #: Failures usually concern all pods (a missing permission), so that requests pause for all of them.
        self._gate_backoff = Backoff(first=_FIRST_GATE_RETRY, cap=_LAST_GATE_RETRY)
        self._gates_again = 0.0
        self._has_binds, self._has_statuses = asyncio.Event(), asyncio.Event()
        #: Whether PodGroups have a status subresource. Those of Volcano's CRD have none.
        self._group_status = False
        #: The numbers of bound pods and of failed binds.
        self.bound, self.failed = 0, 0

    async def run(self) -> None:
        """Write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(_BINDERS):
                tasks.create_task(self._run_binds(), name=f"bind {number}")
            for number in range(_STATUS_WRITERS):
                tasks.create_task(self._run_writes(), name=f"status {number}")

    # Binds

    def bind(
        self, pod: Pod, node_name: str, pre_bind: PreBind | None = None, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Queue a bind, which adds annotations to the pod."""
        self._binds.append((pod, node_name, pre_bind, annotations or {}))
        self._has_binds.set()

    async def _run_binds(self) -> None:
        while True:
            while not self._binds:
                self._has_binds.clear()
                await self._has_binds.wait()
            pod, node_name, pre_bind, annotations = self._binds.popleft()
            try:
                problem = await self._bind(pod, node_name, pre_bind, annotations)
            except Exception as error:
                report_unexpected("a bind failed", error, pod=pod.key)
                problem = error_text(error)
            try:
                await self._settle(pod, node_name, problem)
            except Exception as error:
                report_unexpected("the result of a bind cannot be recorded", error, pod=pod.key)

    async def _bind(self, pod: Pod, node_name: str, pre_bind: PreBind | None, annotations: Mapping[str, str]) -> str:
        """Bind a pod and its volumes. Return an error, or "" on success."""
        if pre_bind is not None:
            started = perf_counter()
            problem = await pre_bind()
            if problem:
                return problem
            self._on_stage(pod, "PreBind", perf_counter() - started)
        started = perf_counter()
        status = await self._binder.bind(Binding.of(pod, node_name, annotations))
        if status is not None and not status.is_success:
            return status.message
        self._on_stage(pod, "Bind", perf_counter() - started)
        return ""

    async def _settle(self, pod: Pod, node_name: str, problem: str) -> None:
        if problem:
            self.failed += 1
            await self._bind_failed(pod, node_name, problem)
        else:
            self.bound += 1
            self._on_bound(pod)
            self._bound(pod, node_name)

    def _bound(self, pod: Pod, node_name: str) -> None:
        log.info("Successfully bound pod to node", pod=pod.key, node=node_name)
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {node_name}"
        self._record(pod, "Normal", "Scheduled", "Binding", note)

    async def _bind_failed(self, pod: Pod, node_name: str, problem: str) -> None:
        log.warning("could not bind a pod", pod=pod.key, node=node_name, error=problem)
        await self._on_failed_bind(pod, problem)
        self._condition(pod, "SchedulerError", problem, "")

    # Scheduling gates

    def remove_queue_gate(self, pod: Pod) -> None:
        """Queue the removal of Volcano's own scheduling gate. If it fails, a later session requests it again."""
        if pod.uid not in self._ungating and self._clock() >= self._gates_again:
            self._put("gate", pod.uid, lambda: self._remove_queue_gate(pod))

    async def _remove_queue_gate(self, pod: Pod) -> None:
        # A strategic merge patch with the uid: it removes nothing else, and nothing from a new pod of the same name.
        gates = [{"name": QUEUE_GATE, "$patch": "delete"}]
        body = msgspec.json.encode({"metadata": {"uid": pod.uid}, "spec": {"schedulingGates": gates}})
        self._ungating.add(pod.uid)
        try:
            await self._client.patch(Pod, pod.name, body, namespace=pod.namespace, type=PatchType.STRATEGIC)
        except NotFound:
            return
        except KubeError as error:
            log.warning("could not remove a scheduling gate", pod=pod.key, error=str(error))
            note = f"The scheduling gate {QUEUE_GATE} cannot be removed: {error}"
            self._record(pod, "Warning", "FailedGateRemoval", "Admitting", note)
            self._gates_again = self._clock() + self._gate_backoff.next()
        else:
            log.info("Removed a scheduling gate", pod=pod.key)
            note = f"Removed the scheduling gate {QUEUE_GATE}: the queue has room"
            self._record(pod, "Normal", "QueueAdmitted", "Admitting", note)
            self._gate_backoff.reset()
            self._gates_again = 0.0
        finally:
            self._ungating.discard(pod.uid)

    # Evictions

    def evict(self, pod: Pod, reason: str) -> None:
        """Queue an eviction: the pod gets conditions and is deleted."""
        self._put("evict", pod.uid, lambda: self._evict(pod, reason))

    async def _evict(self, pod: Pod, reason: str) -> None:
        text = f"Pod is evicted, because of {reason}"
        self._record(pod, "Warning", "Evict", "Evicting", text)
        now = format_time(self._clock())
        disrupted = f"{pod.scheduler_name}: preempting to accommodate a higher priority pod"
        conditions = [
            _condition("Ready", "False", "Evict", text, now),
            _condition("DisruptionTarget", "True", "PreemptionByScheduler", disrupted, now),
        ]
        try:
            await self._reporter.patch(pod, {"conditions": conditions})
            await self._client.delete(Pod, pod.name, namespace=pod.namespace, uid=pod.uid)
        except NotFound:
            return
        except KubeError as error:
            log.warning("could not evict a pod", pod=pod.key, error=str(error))
            self._on_failed_eviction(pod)
        else:
            log.info("Evicted pod", pod=pod.key, reason=reason)

    # Statuses

    def pod_note(self, note: PodNote) -> None:
        """Queue the condition with the reason why a pod is pending, if it changed."""
        reason = note.reason
        self._condition(note.task.pod, reason.reason, reason.message, reason.nominated_node)

    def _condition(self, pod: Pod, reason: str, message: str, nominated: str) -> None:
        patch = condition_patch(pod, reason=reason, message=message, nominated=nominated or None, now=self._clock())
        if patch is None:
            return
        self._record(pod, "Warning", "FailedScheduling", "Scheduling", message)
        self._put("pod", pod.uid, lambda: self._reporter.patch(pod, patch))

    def group_status(self, group: PodGroup, status: PodGroupStatus) -> None:
        """Queue a PodGroup's status."""
        self._put("group", group.key, lambda: self._write_group(group, status))

    async def _write_group(self, group: PodGroup, status: PodGroupStatus) -> None:
        conditions = [msgspec.to_builtins(condition) for condition in status.conditions]
        counts = {"running": status.running, "succeeded": status.succeeded, "failed": status.failed}
        body = msgspec.json.encode({"status": {"phase": status.phase, "conditions": conditions, **counts}})
        subresource = "status" if self._group_status else ""
        made = await self._client.patch(PodGroup, group.name, body, namespace=group.namespace, subresource=subresource)
        if not subresource and made.status.phase != status.phase:
            self._group_status = True
            await self._client.patch(PodGroup, group.name, body, namespace=group.namespace, subresource="status")

    def queue_amounts(self, queue: Queue, held: dict[str, str]) -> None:
        """Queue the allocated amounts of a queue."""
        # In a merge patch, null removes a field.
        gone = {name: None for name in queue.status.allocated if name not in held}
        body = msgspec.json.encode({"status": {"allocated": {**gone, **held}}})
        self._put("queue", queue.name, lambda: self._write_queue(queue, body))

    async def _write_queue(self, queue: Queue, body: bytes) -> None:
        await self._client.patch(Queue, queue.name, body, subresource="status")

    def group_event(self, group: PodGroup, kind: str, reason: str, note: str) -> None:
        """Record an event about a PodGroup."""
        self._record(group, kind, reason, "Scheduling", note)

    def invalid(self, item: KubeObject, message: str, reason: str = INVALID) -> None:
        """Report an object that sessions leave out: an event, and a condition if its kind has conditions."""
        self._record(item, "Warning", reason, "Scheduling", message)
        if isinstance(item, PodGroup):
            status = _invalid_status(item, reason, message, self._clock())
            self._put("group", item.key, lambda: self._write_group(item, status))
        elif isinstance(item, Pod):
            self.pod_condition(item, reason, message)

    def pod_condition(self, pod: Pod, reason: str, message: str) -> None:
        """Queue the condition of a pod that sessions cannot place, if it changed."""
        self._condition(pod, reason, message, "")

    def _record(self, regarding: Any, kind: Any, reason: str, action: str, note: str) -> None:
        self._reporter.record(regarding, type=kind, reason=reason, action=action, note=note, component=self._component)

    def _put(self, kind: str, key: str, write: Callable[[], Awaitable[None]]) -> None:
        self._statuses[kind, key] = write
        self._has_statuses.set()

    async def _run_writes(self) -> None:
        while True:
            while not self._statuses:
                self._has_statuses.clear()
                await self._has_statuses.wait()
            (kind, key), write = self._statuses.popitem(last=False)
            try:
                await write()
            except NotFound:
                continue
            except KubeError as error:
                log.warning("could not write a status", kind=kind, object=key, error=str(error))
            except Exception as error:
                report_unexpected("a status cannot be written", error, kind=kind, object=key)


def differs(old: PodGroupStatus, new: PodGroupStatus) -> bool:
    """Return whether two statuses differ in anything except times and session ids."""

    def plain(status: PodGroupStatus) -> tuple[Any, ...]:
        conditions = [(c.type, c.status, c.reason, c.message) for c in status.conditions]
        return status.phase, status.running, status.succeeded, status.failed, conditions

    return plain(old) != plain(new)


def _invalid_status(group: PodGroup, reason: str, message: str, now: float) -> PodGroupStatus:
    """Return the status of a group that sessions leave out: pending, with a condition."""
    condition = PodGroupCondition(
        type=UNSCHEDULABLE, status="True", reason=reason, message=message, last_transition_time=format_time(now)
    )
    others = [each for each in group.status.conditions if each.type != UNSCHEDULABLE]
    return msgspec.structs.replace(group.status, phase=group.status.phase or "Pending", conditions=(*others, condition))


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
