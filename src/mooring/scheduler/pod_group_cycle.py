"""PodGroupCycle: the scheduling cycle of a `scheduling.k8s.io` PodGroup, as in schedule_one_podgroup.go.

The pods of the group that wait are placed one after another, each counted for the next. If enough of them have nodes,
these are bound and the others return to the active queue; otherwise all are undone and retried after a backoff.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final

import msgspec

from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup, native_group_key
from mooring.framework.state import CycleState
from mooring.framework.status import NO_NOMINATION, Code, Status
from mooring.plugins.gang_scheduling import QUORUM, GangScheduling, placement_feasible
from mooring.scheduler.attempt_results import (
    AssumedPod,
    FailedAttempt,
    GroupStatus,
    ScheduleFailure,
    internal_error,
)
from mooring.scheduler.extenders import Steps
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.queue import QueuedPod
from mooring.unexpected_errors import report_unexpected

if TYPE_CHECKING:
    from mooring.scheduler.schedule_one import ScheduleOne

#: The backoff of the pods that a scheduled group leaves over: they are retried at once.
_NO_BACKOFF: Final = float("-inf")
_UNSCHEDULABLE: Final = "pod group is unschedulable"
_PREEMPTION: Final = "pod group preemption: "


class PodGroupCycle:
    """The scheduling cycle of one group."""

    def __init__(self, engine: ScheduleOne, runner: PluginRunner, plugin: GangScheduling) -> None:
        self._engine = engine
        self._runner = runner
        self._plugin = plugin
        #: The pods that were tried: assumed ones, and failures.
        self._tried: list[AssumedPod | ScheduleFailure] = []

    def steps(self, first: QueuedPod) -> Steps[AssumedPod | FailedAttempt | None]:
        """Schedule the group of a popped pod. Return one outcome; the engine returns the others next."""
        engine, group = self._engine, self._plugin.group_of(first.pod)
        others = [pod.key for pod in self._plugin.members(native_group_key(first.pod) or "") if pod.uid != first.uid]
        popped = engine.queue.pop_group(others) if group is not None else None
        if group is None or popped is None:  # the group is gone, or one of its pods is gated
            engine.queue.hold(first, self._plugin.name)
            return None
        members = [each for each in sorted((first, *popped), key=_order) if not self._skip(each)]
        if not members:
            return None
        try:
            status = self._validate(group, members)
            if status is None:
                status = yield from self._place(group, members)
        except Exception as error:
            report_unexpected("a scheduling attempt of a group failed", error, podGroup=group.key)
            status = internal_error(error).status
        self._submit(group, members, status)
        if engine.guards.troubled:
            engine.guards.end_attempt()
        return engine.decided.popleft() if engine.decided else None

    def _skip(self, queued: QueuedPod) -> bool:
        """Leave out pods that are being deleted or that have a node, and those of profiles that are gone."""
        pod, engine = queued.pod, self._engine
        if pod.is_terminating or pod.uid in engine.cache.assumed or pod.scheduler_name not in engine.profiles.runners:
            engine.queue.done(queued.uid)
            return True
        return False

    def _validate(self, group: NativePodGroup, members: list[QueuedPod]) -> Status | None:
        """Return the error of a group that cannot be scheduled, or that asks for something that is not supported."""
        unsupported = _unsupported(group)
        if unsupported:
            return Status.unresolvable(f"PodGroup {group.key} has {unsupported}, which is not supported yet")
        first, priority = members[0].pod, group.spec.priority or 0
        for pod in (*(queued.pod for queued in members), *self._plugin.scheduled(group.key)):
            if pod.scheduler_name != first.scheduler_name:
                names = f'"{pod.scheduler_name}" and "{first.scheduler_name}"'
                text = "all pods in a single pod group should have the same .spec.schedulerName set"
                return Status.error(f"{text}, got: {names}")
            if pod.priority != priority:
                text = "all pods in a single pod group should have the same priority as the pod group's priority"
                return Status.error(f"{text}, got {pod.priority} and {priority}")
            if _policy(pod) != _policy(first):
                text = "all pods in a single pod group should have the same preemption policy"
                return Status.error(f"{text}, got {_policy(pod)} and {_policy(first)}")
        return None

    # Placing

    def _place(self, group: NativePodGroup, members: list[QueuedPod]) -> Steps[Status]:
        """Place the pods in order until the group cannot be scheduled. On failure, undo everything."""
        scheduled, remaining, placed = len(self._plugin.scheduled(group.key)), len(members), 0
        status = placement_feasible(group, scheduled=scheduled, remaining=remaining)
        if status.code is Code.UNSCHEDULABLE:
            return Status.unschedulable(_UNSCHEDULABLE, *status.reasons)
        for queued in members:
            result = yield from self._place_pod(queued)
            self._tried.append(result)
            remaining -= 1
            if isinstance(result, AssumedPod):
                scheduled, placed = scheduled + 1, placed + 1
            elif not result.status.is_rejected:
                status = Status.error(f"failed to schedule other pod from a pod group: {result.message}")
                break
            status = placement_feasible(group, scheduled=scheduled, remaining=remaining)
            if status.code is Code.UNSCHEDULABLE:
                break
        if status.code is Code.WAIT or (status.is_success and not placed):
            status = Status.unschedulable(_UNSCHEDULABLE, *status.reasons)
        if not status.is_success:
            self._undo()
        return status

    def _place_pod(self, queued: QueuedPod) -> Steps[AssumedPod | ScheduleFailure]:
        engine, runner = self._engine, self._runner
        started = engine.observer.begin(queued) if engine.observer is not None else perf_counter()
        result = yield from engine.attempt(queued, runner, in_group=True)
        if isinstance(result, ScheduleFailure):
            return result
        return engine.reserve(queued, runner, result, started)

    def _undo(self) -> None:
        for result in reversed(self._tried):
            if isinstance(result, AssumedPod):
                self._engine.undo(result.runner, result.state, result.pod, result.node_name)

    # Submitting

    def _submit(self, group: NativePodGroup, members: list[QueuedPod], status: Status) -> None:
        """Bind the pods of a scheduled group; return all others to the queue; publish the group's condition."""
        engine = self._engine
        message = status.message
        if status.code is Code.UNSCHEDULABLE:
            message = ", ".join(part for part in (message, self._preemption(members[0].pod)) if part)
        for index, queued in enumerate(members):
            result = self._tried[index] if index < len(self._tried) else None
            if status.is_success and isinstance(result, AssumedPod):
                result.state.write(QUORUM, True)
                engine.decided.append(engine.permit(result))
                continue
            failure = self._failure(result, status, message)
            backoff = _NO_BACKOFF if status.is_success else self._backoff(members)
            # As in kube-scheduler, a group waits for its backoff and not for events.
            failure = msgspec.structs.replace(failure, rejectors=frozenset(), pending=frozenset(), backoff=backoff)
            engine.decided.append(engine.handle_failure(queued, failure, perf_counter()))
        if engine.report_group is not None:
            rejected = "Unschedulable" if status.is_rejected else "SchedulerError"
            engine.report_group(group, GroupStatus("Scheduled" if status.is_success else rejected, message))

    @staticmethod
    def _failure(result: AssumedPod | ScheduleFailure | None, status: Status, message: str) -> ScheduleFailure:
        """Return the failure of a pod: its own, or that of its group."""
        own = isinstance(result, ScheduleFailure) and (status.is_rejected or status.is_success or _is_error(result))
        if isinstance(result, ScheduleFailure) and own:
            return result
        fitted = isinstance(result, AssumedPod) and status.is_rejected
        text = f"{_UNSCHEDULABLE}, {message}" if fitted else status.message
        return ScheduleFailure(text, status, CycleState(), result=NO_NOMINATION)

    def _backoff(self, members: list[QueuedPod]) -> float:
        failures = 1 + max(queued.consecutive_errors for queued in members)
        return self._engine.queue.group_backoff(failures, len(members))

    def _preemption(self, pod: Pod) -> str:
        """Return why no pods are preempted for the group."""
        if not self._runner.profile.post_filter:
            return ""
        if _policy(pod) == "Never":
            return f"{_PREEMPTION}not eligible due to preemptionPolicy=Never."
        columns = self._runner.table.pod_columns
        if bool((columns.priorities[: len(columns)] < pod.priority).any()):
            return f"{_PREEMPTION}not supported yet, although there are pods with a lower priority"
        return f"{_PREEMPTION}No preemption victims found for incoming preemptor"


def _is_error(failure: ScheduleFailure) -> bool:
    return not failure.status.is_rejected


def _order(queued: QueuedPod) -> tuple[int, int, float, str]:
    """Return the sort key of the pods of a group: priority, more attempts, earlier, name."""
    return (-queued.pod.priority, -queued.attempts, queued.timestamp, queued.pod.name)


def _policy(pod: Pod) -> str:
    return pod.spec.preemption_policy or "PreemptLowerPriority"


def _unsupported(group: NativePodGroup) -> str:
    """Return the field of a group that is not supported, or empty."""
    spec = group.spec
    if spec.scheduling_constraints is not None and spec.scheduling_constraints.topology:
        return "spec.schedulingConstraints.topology"
    if spec.disruption_mode is not None and spec.disruption_mode.all is not None:
        return "spec.disruptionMode.all"
    if spec.resource_claims:
        return "spec.resourceClaims"
    if spec.parent_composite_pod_group_name:
        return "spec.parentCompositePodGroupName"
    return ""
