"""The results of scheduling attempts."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup
from mooring.columns.node_share import NodeShare, group_of
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.state import CycleState
from mooring.framework.status import NO_NOMINATION, Code, PostFilterResult, Status
from mooring.observe.decision_records import Decision
from mooring.scheduler.extenders import Request, Steps
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.queue import GroupAttempt, QueuedPod
from mooring.unexpected_errors import error_text

NO_NODES: Final = "no nodes available to schedule pods"


class ScheduleResult(msgspec.Struct, frozen=True):
    """The node chosen for a pod."""

    node_name: str
    state: CycleState
    evaluated: int
    feasible: int


class ScheduleFailure(msgspec.Struct, frozen=True):
    """The reason why an attempt found no node: no node is feasible, or an error occurred."""

    #: The message of the pod's condition and event.
    message: str
    status: Status
    state: CycleState
    statuses: NodeStatuses | None = None
    post_filter: Status | None = None
    result: PostFilterResult = PostFilterResult()
    #: Plugins that rejected the pod: their events requeue it.
    rejectors: frozenset[str] = frozenset()
    #: Plugins for which the pod is pending: their events requeue it without backoff.
    pending: frozenset[str] = frozenset()
    #: The backoff in seconds; None for the one that follows from the number of failures.
    backoff: float | None = None
    #: The attempt of the pod's PodGroup, if it was tried with that.
    group: GroupAttempt | None = None
    #: Whether another member places the pod on the nominated node (active-active).
    handover: bool = False
    #: Whether the pod was rejected while it waited at Permit.
    waited: bool = False


def handed_over(pod: Pod, result: ScheduleResult, share: NodeShare) -> ScheduleFailure:
    """Return the outcome of an attempt whose node is not usable: its owner places the pod there if it can."""
    owner, node = share.owner(result.node_name), result.node_name
    if owner == share.me:
        share.delayed.add(pod.key)
        text = f"node {node} belonged to a member of the active-active group that has left; its last binds are awaited"
        return ScheduleFailure(text, Status.unschedulable(text), result.state, handover=True)
    if group_of(pod):
        text = f"only nodes of other members of the active-active group have room, such as {node} of {owner}"
        return ScheduleFailure(text, Status.unschedulable(text), result.state, result=NO_NOMINATION)
    share.handovers += 1
    text = f"handed over to {owner}, which owns node {node}"
    nominated = PostFilterResult(nominated_node=node)
    return ScheduleFailure(text, Status.unschedulable(text), result.state, result=nominated, handover=True)


def early_failure(pod: Pod, state: CycleState, *, in_group: bool = False) -> ScheduleFailure:
    """Return the failure of a pod that names a group although groups are off, or of any pod if there are no nodes."""
    if pod.spec.scheduling_group is None or in_group:
        return ScheduleFailure(NO_NODES, Status.unschedulable(NO_NODES), state, result=NO_NOMINATION)
    # Only an update of the pod helps: it waits like a gated pod.
    text = (
        "spec.schedulingGroup is set, but groups of scheduling.k8s.io are not scheduled: they need the feature gate "
        "GenericWorkload, emulated version 1.37 and the plugin GangScheduling"
    )
    gates = frozenset(("SchedulingGates",))
    return ScheduleFailure(text, Status.unresolvable(text), state, result=NO_NOMINATION, rejectors=gates)


class AssumedPod(msgspec.Struct, eq=False):
    """A pod with a node: assumed there, reserved, and permitted or waiting at Permit. It is bound next."""

    queued: QueuedPod
    #: The pod with its node name set.
    pod: Pod
    node_name: str
    state: CycleState
    runner: PluginRunner
    evaluated: int
    feasible: int
    #: Whether a Permit plugin makes the pod wait. Set by ``permit``, as ``assumed_at``.
    waits: bool = False
    #: When the attempt started and when the node was chosen (``time.perf_counter``), and its record, if there is one.
    started: float = 0.0
    assumed_at: float = 0.0
    record: Decision | None = None
    #: Whether it was rolled back before its binding cycle ended: it was rejected at Permit.
    rolled_back: bool = False


class FailedAttempt(msgspec.Struct, frozen=True):
    """An attempt that failed; the pod is back in the queue."""

    queued: QueuedPod
    failure: ScheduleFailure
    #: The uids of pods to evict so that the pod fits, without those that are already being evicted.
    victims: tuple[str, ...] = ()
    #: The nomination to publish: None keeps it, "" clears it.
    nominated_node: str | None = None
    #: The group for which the pods are evicted; None if it is the pod alone.
    group: NativePodGroup | None = None

    @property
    def reason(self) -> str:
        """The reason of the pod's condition."""
        return "Unschedulable" if self.failure.status.is_rejected else "SchedulerError"


class GroupStatus(msgspec.Struct, frozen=True):
    """The result of the cycle of a group: the condition PodGroupInitiallyScheduled."""

    #: Scheduled, Unschedulable or SchedulerError.
    reason: str
    message: str = ""

    @property
    def is_scheduled(self) -> bool:
        """Whether the group is scheduled."""
        return self.reason == "Scheduled"


class PendingAttempt(msgspec.Struct, frozen=True):
    """A scheduling cycle that waits for extenders, or pauses if it has no requests."""

    queued: QueuedPod
    steps: Steps[AssumedPod | FailedAttempt | None]
    requests: tuple[Request, ...]


def internal_error(error: Exception) -> ScheduleFailure:
    """Describe an attempt that raised."""
    message = f"internal error: {error_text(error)}"
    return ScheduleFailure(message, Status.error(message), CycleState(), result=NO_NOMINATION)


def budget_exceeded(message: str, state: CycleState, backoff: float) -> ScheduleFailure:
    """Describe an attempt that was stopped because it used too much CPU time. The pod keeps its nomination."""
    return ScheduleFailure(message, Status.error(message), state, backoff=backoff)


def rejected_after_filter(status: Status, state: CycleState, *, waited: bool = False) -> ScheduleFailure:
    """Describe a failure after a node was chosen; ``waited`` if the pod was rejected while it waited at Permit."""
    message = f"0/1 nodes are available: 1 {status.message}." if status.is_rejected else status.message
    plugins = frozenset((status.plugin,)) if status.is_rejected and status.plugin else frozenset()
    if status.code is Code.PENDING:
        return ScheduleFailure(message, status, state, result=NO_NOMINATION, pending=plugins, waited=waited)
    return ScheduleFailure(message, status, state, result=NO_NOMINATION, rejectors=plugins, waited=waited)
