"""PodGroupCycle: the scheduling cycle of a `scheduling.k8s.io` PodGroup, as in schedule_one_podgroup.go.

The pods of the group that wait are placed one after another, each counted for the next. If enough of them have nodes,
these are bound and the others return to the active queue; otherwise all are undone and retried after a backoff.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup, native_group_key
from mooring.columns.templates import PodTemplate
from mooring.framework.placements import PlacementProgress, Placements, ProposedPlacements
from mooring.framework.state import CycleState
from mooring.framework.status import NO_NOMINATION, SUCCESS, Code, PostFilterResult, Status
from mooring.observe.group_metrics import GroupMetrics
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.gang_scheduling import QUORUM, GangScheduling
from mooring.releases import Release
from mooring.scheduler.attempt_budget import SLICE_SECONDS
from mooring.scheduler.attempt_results import (
    AssumedPod,
    FailedAttempt,
    GroupStatus,
    ScheduleFailure,
    ScheduleResult,
    internal_error,
)
from mooring.scheduler.extenders import Steps
from mooring.scheduler.placement_search import (
    Trial,
    best_placement,
    feasible_plugins,
    generate_placements,
    placement_feasible,
    search,
)
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.pod_group_preemption import PLUGIN, GroupPreemption, preempt_for_group
from mooring.scheduler.queue import GroupAttempt, QueuedPod
from mooring.unexpected_errors import report_unexpected

if TYPE_CHECKING:
    from mooring.scheduler.schedule_one import ScheduleOne

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]

_UNSCHEDULABLE: Final = "pod group is unschedulable"
_TOPOLOGY: Final = "TopologyAwareWorkloadScheduling"


class PodGroupCycle:
    """The scheduling cycle of one group."""

    def __init__(
        self, engine: ScheduleOne, runner: PluginRunner, plugin: GangScheduling, *, simulated: bool = False
    ) -> None:
        """With ``simulated``, nothing is recorded."""
        self._engine = engine
        self._observer = None if simulated else engine.observer
        self._metrics = self._observer.groups if self._observer is not None else None
        self._runner = runner
        self._plugin = plugin
        #: The plugins that decide whether a group can be scheduled; GangScheduling is the first.
        self._asked = feasible_plugins(runner, plugin)
        #: The pods that were tried: assumed ones, and failures.
        self._tried: list[AssumedPod | ScheduleFailure] = []
        #: When the cycle began or paused last.
        self._resumed = perf_counter()

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
        preemption: GroupPreemption | None = None
        started = searched = perf_counter()
        try:
            status = self._validate(group, members)
            if status is None:
                nominated = self._nominations(members)
                status = yield from self._schedule(group, members)
                searched = perf_counter()
                if status.code is Code.UNSCHEDULABLE:
                    preemption = yield from self._preempt(group, members, nominated)
        except Exception as error:
            report_unexpected("a scheduling attempt of a group failed", error, podGroup=group.key)
            self._undo()
            status, preemption = internal_error(error).status, None
        self._submit(group, members, status, preemption)
        if self._metrics is not None:
            self._record(self._metrics, status, preemption, started, searched)
        if engine.guards.troubled:
            engine.guards.end_attempt()
        return engine.decided.popleft() if engine.decided else None

    def _record(
        self,
        metrics: GroupMetrics,
        status: Status,
        preemption: GroupPreemption | None,
        started: float,
        searched: float,
    ) -> None:
        """Record the attempt in the metrics."""
        now = perf_counter()
        if preemption is not None and preemption.searched:
            found = preemption.status
            counts = len(preemption.victims), preemption.groups, preemption.violations
            metrics.preempted(found.code.title, *counts, now - searched)
        waits = preemption is not None and preemption.status.is_success
        result = "scheduled" if status.is_success else "unschedulable" if status.is_rejected else "error"
        result = "waiting_on_preemption" if waits else result
        metrics.attempted(self._runner.profile.name, result, now - started, searched - started)

    def _nominations(self, members: list[QueuedPod]) -> dict[str, str]:
        """Return the nodes that the pods are nominated to, by uid; empty for none."""
        nominator = self._engine.cache.nominator
        return {each.uid: nominator.node_of(each.uid) or each.pod.status.nominated_node_name or "" for each in members}

    def _preempt(
        self, group: NativePodGroup, members: list[QueuedPod], nominated: dict[str, str]
    ) -> Steps[GroupPreemption | None]:
        """Run the plugins at podGroupPostFilter: DynamicResources frees claims, DefaultPreemption looks for victims."""
        reasons: tuple[str, ...] = ()
        rejector = ""
        found: GroupPreemption | None = None
        for name in [each.name for each in self._runner.profile.config.plugins.get("podGroupPostFilter", ())]:
            plugin = self._runner.profile.plugins.get(name)
            if isinstance(plugin, DynamicResources):
                status = self._free_claims(plugin, group, members)
            elif name == PLUGIN:
                found = yield from self._find_victims(group, members, nominated)
                status = found.status
            else:
                continue
            if status.code is Code.ERROR:
                text = f'error in "{name}" PodGroupPostFilter plugins: {status.message}'
                return found or GroupPreemption(Status.error(text).by(name), searched=False)
            if status.is_success or status.code is not Code.UNSCHEDULABLE:
                return found or GroupPreemption(status.by(name), searched=False)
            reasons, rejector = (*reasons, *status.reasons), rejector or name
        if not rejector:
            return None
        status = Status.unschedulable(*reasons).by(rejector)
        return GroupPreemption(status, searched=found is not None)

    def _free_claims(self, plugin: DynamicResources, group: NativePodGroup, members: list[QueuedPod]) -> Status:
        tried = [(queued.pod, result.state) for queued, result in zip(members, self._tried, strict=False)]
        return plugin.post_filter_group(group, tried, is_active=bool(self._plugin.scheduled(group.key)))

    def _find_victims(
        self, group: NativePodGroup, members: list[QueuedPod], nominated: dict[str, str]
    ) -> Steps[GroupPreemption]:
        engine, runner = self._engine, self._runner
        pods = [queued.pod for queued in members]

        def simulate() -> Steps[tuple[Status, list[AssumedPod]]]:
            return PodGroupCycle(engine, runner, self._plugin, simulated=True).simulate(group, members)

        return (yield from preempt_for_group(runner, engine.cache, group, pods, nominated, simulate))

    def simulate(self, group: NativePodGroup, members: list[QueuedPod]) -> Steps[tuple[Status, list[AssumedPod]]]:
        """Schedule the pods and undo it. Return the status, and the pods with their nodes."""
        status = yield from self._schedule(group, members)
        found = [result for result in self._tried if isinstance(result, AssumedPod)]
        if status.is_success:
            self._undo()
        return status, found

    def _skip(self, queued: QueuedPod) -> bool:
        """Leave out pods that are being deleted or that have a node, and those of profiles that are gone."""
        pod, engine = queued.pod, self._engine
        if pod.is_terminating or pod.uid in engine.cache.assumed or pod.scheduler_name not in engine.profiles.runners:
            engine.queue.done(queued.uid)
            return True
        return False

    def _validate(self, group: NativePodGroup, members: list[QueuedPod]) -> Status | None:
        """Return the error of a group that cannot be scheduled, or that asks for something that is not supported."""
        unsupported = _unsupported(group, self._runner.handle.release)
        if unsupported:
            return Status.unresolvable(f"PodGroup {group.key} has {unsupported}, which is not supported yet")
        if group.topology_key is not None and not self._runner.handle.release.enabled(_TOPOLOGY):
            text = f"spec.schedulingConstraints.topology, which needs the feature gate {_TOPOLOGY}"
            return Status.unresolvable(f"PodGroup {group.key} has {text}")
        first, priority = members[0].pod, group.spec.priority or 0
        for pod in (*(queued.pod for queued in members), *self._plugin.scheduled(group.key)):
            if pod.scheduler_name != first.scheduler_name:
                names = f'"{pod.scheduler_name}" and "{first.scheduler_name}"'
                text = "all pods in a single pod group should have the same .spec.schedulerName set"
                return Status.error(f"{text}, got: {names}")
            if pod.priority != priority:
                text = "all pods in a single pod group should have the same priority as the pod group's priority"
                return Status.error(f"{text}, got {pod.priority} and {priority}")
            if group.spec.preemption_policy is not None and _policy(pod) != group.spec.preemption_policy:
                text = "all pods in a single pod group should have the same preemption policy as the pod group's"
                return Status.error(f"{text} preemption policy, got {_policy(pod)} and {group.spec.preemption_policy}")
            if _policy(pod) != _policy(first):
                text = "all pods in a single pod group should have the same preemption policy"
                return Status.error(f"{text}, got {_policy(pod)} and {_policy(first)}")
        return None

    # Placing

    def _schedule(self, group: NativePodGroup, members: list[QueuedPod]) -> Steps[Status]:
        """Find nodes for the pods, assume those that have one, and return the status. On failure, nothing is left."""
        if self._runner.handle.release.enabled(_TOPOLOGY):
            status = yield from self._place_best(group, members)
        else:
            status, _ = yield from self._place(group, members)
        if status.is_success and not any(isinstance(result, AssumedPod) for result in self._tried):
            return Status.unschedulable(_UNSCHEDULABLE)
        return status

    def _place(
        self, group: NativePodGroup, members: list[QueuedPod], rows: Rows | None = None, *, trial: bool = False
    ) -> Steps[tuple[Status, str]]:
        """Place the pods in order, on some rows, until the group cannot be scheduled. On failure, undo everything.

        Return the status, and its error, which messages about placements quote. A ``trial`` is not recorded.
        """
        self._tried = []
        placed: list[Pod] = []
        already, remaining = len(self._plugin.scheduled(group.key)), len(members)
        status = self._feasible(group, already, remaining, placed)
        if status.code is Code.UNSCHEDULABLE:
            return Status.unschedulable(_UNSCHEDULABLE, *status.reasons), _UNSCHEDULABLE
        if status.code is Code.ERROR:
            return status, status.message
        for queued in members:
            result = yield from self._place_pod(queued, rows, trial=trial)
            self._tried.append(result)
            remaining -= 1
            if isinstance(result, AssumedPod):
                placed.append(result.pod)
            elif not result.status.is_rejected:
                status = Status.error(f"failed to schedule other pod from a pod group: {result.message}")
                break
            status = self._feasible(group, already, remaining, placed)
            if status.code in (Code.UNSCHEDULABLE, Code.ERROR):
                break
        error = status.message
        if status.code is Code.WAIT:
            status, error = Status.unschedulable(_UNSCHEDULABLE, *status.reasons), _UNSCHEDULABLE
        if not status.is_success:
            self._undo()
        return status, error

    def _feasible(self, group: NativePodGroup, already: int, remaining: int, placed: list[Pod]) -> Status:
        """Ask the plugins whether the group can be scheduled with the pods placed so far."""
        progress = PlacementProgress(already + len(placed), remaining, placed)
        status = placement_feasible(self._asked, group, progress)
        if status.code is Code.ERROR:
            return Status.error(f"failed to evaluate placement feasibility: {status.message}").by(status.plugin)
        return status

    def _place_pod(self, queued: QueuedPod, rows: Rows | None, *, trial: bool) -> Steps[AssumedPod | ScheduleFailure]:
        engine, runner = self._engine, self._runner
        if engine.pauses and perf_counter() - self._resumed > SLICE_SECONDS:
            yield ()
            self._resumed = perf_counter()
        observer = None if trial else self._observer
        started = observer.begin(queued) if observer is not None else perf_counter()
        result = yield from engine.attempt(queued, runner, in_group=True, rows=rows)
        result = engine.within_share(queued.pod, result)
        if isinstance(result, ScheduleFailure):
            return result
        return engine.reserve(queued, runner, result, started, observed=observer is not None)

    def _undo(self) -> None:
        for result in reversed(self._tried):
            if isinstance(result, AssumedPod):
                self._engine.undo(result.runner, result.state, result.pod, result.node_name)

    # Placements

    def _place_best(self, group: NativePodGroup, members: list[QueuedPod]) -> Steps[Status]:
        """Try the pods in all placements, and place them in the best one in which the group can be scheduled."""
        scheduled = self._plugin.scheduled(group.key)
        placements = generate_placements(self._runner, group, scheduled)
        if isinstance(placements, Status):
            return placements
        pods = [queued.pod for queued in members]
        started, trial = perf_counter(), None
        if len(placements) > 1 and len(self._asked) == 1 and not self._engine.asks_extenders(pods):
            needed = group.spec.min_count
            trial = search(self._runner, pods, placements, scheduled=len(scheduled), needed=needed)
        if trial is None:
            return (yield from self._try_each(group, members, placements, scheduled))
        fitting = np.flatnonzero(~trial.stopped)
        self._tried_placements(len(fitting), len(placements), started)
        if not len(fitting):  # a placement is tried again, for the messages
            status, error = yield from self._place(group, members, placements.of(0), trial=True)
            return status if status.is_success else _none_available(status, len(placements), error)
        proposed = self._proposed(group, scheduled, placements, fitting, members, trial.nodes[:, fitting] >= 0)
        best = best_placement(self._runner, proposed)
        if isinstance(best, Status):
            return best
        return (yield from self._assume_trial(group, members, placements.of(fitting[best]), trial, fitting[best]))

    def _tried_placements(self, fitting: int, count: int, started: float) -> None:
        if self._metrics is not None:
            self._metrics.tried(self._runner.profile.name, fitting, count - fitting, perf_counter() - started)

    def _assume_trial(
        self, group: NativePodGroup, members: list[QueuedPod], rows: Rows, trial: Trial, placement: int
    ) -> Steps[Status]:
        """Assume the pods on the nodes that a search in columns has found in a placement."""
        engine, runner, nodes = self._engine, self._runner, self._runner.table.nodes
        for number, queued in enumerate(members):
            row = int(trial.nodes[number, placement])
            if row < 0:
                self._tried.append((yield from self._place_pod(queued, rows, trial=False)))
                continue
            started = self._observer.begin(queued) if self._observer is not None else perf_counter()
            state = CycleState()
            runner.pre_filter(state, queued.pod)
            if self._observer is not None:
                self._observer.searched()
            feasible = int(trial.feasible[number, placement])
            result = ScheduleResult(nodes[row].name, state, len(rows), feasible)
            observed = self._observer is not None
            self._tried.append(engine.reserve(queued, runner, result, started, observed=observed))
        status = self._feasible(group, len(self._plugin.scheduled(group.key)), 0, [])
        if not status.is_success:  # a Reserve plugin has rejected a pod
            self._undo()
            return Status.unschedulable(_UNSCHEDULABLE, *status.reasons)
        return status

    def _try_each(
        self, group: NativePodGroup, members: list[QueuedPod], placements: Placements, scheduled: list[Pod]
    ) -> Steps[Status]:
        """Try one placement after the other, and place the pods in the best one as they were tried."""
        count, started = len(placements), perf_counter()
        tried: list[list[AssumedPod | ScheduleFailure]] = []
        fitting: list[int] = []
        first: tuple[Status, str, list[AssumedPod | ScheduleFailure]] | None = None
        for index in range(count):
            rows = None if placements.names == ("",) else placements.of(index)
            status, error = yield from self._place(group, members, rows, trial=count > 1)
            if status.code is Code.ERROR:
                return status
            if count == 1 and status.is_success:
                self._tried_placements(1, 1, started)
                return status
            first = first or (status, error, self._tried)
            if status.is_success:
                self._undo()
                fitting.append(index)
                tried.append(self._tried)
        self._tried_placements(len(fitting), count, started)
        if not fitting:
            assert first is not None, "there is a placement"
            status, error, self._tried = first
            return _none_available(status, count, error)
        placed = np.array([[isinstance(each, AssumedPod) for each in results] for results in tried]).T
        proposed = self._proposed(group, scheduled, placements, np.array(fitting), members, placed)
        best = best_placement(self._runner, proposed)
        self._tried = []
        if isinstance(best, Status):
            return best
        for queued, result in zip(members, tried[best], strict=False):
            self._tried.append(self._assume_again(queued, result))
        return SUCCESS

    def _assume_again(self, queued: QueuedPod, result: AssumedPod | ScheduleFailure) -> AssumedPod | ScheduleFailure:
        """Assume a pod on the node that it had in the trial of a placement."""
        if isinstance(result, ScheduleFailure):
            return result
        started, observed = perf_counter(), self._observer is not None
        if self._observer is not None:
            started = self._observer.begin(queued)
            self._observer.searched()
        found = ScheduleResult(result.node_name, result.state, result.evaluated, result.feasible)
        return self._engine.reserve(queued, self._runner, found, started, observed=observed)

    def _proposed(
        self,
        group: NativePodGroup,
        scheduled: list[Pod],
        placements: Placements,
        fitting: Rows,
        members: list[QueuedPod],
        placed: npt.NDArray[np.bool_],
    ) -> ProposedPlacements:
        """Return what the plugins score: the placements that fit, and how many pods of each template they have."""
        pods: dict[PodTemplate, Ints] = {}
        for queued, row in zip(members, placed, strict=True):
            template = self._runner.table.template(queued.pod)
            if template not in pods:
                pods[template] = np.zeros(len(fitting), dtype=np.int64)
            pods[template] += row
        return ProposedPlacements(group, scheduled, placements.some(fitting), pods)

    # Submitting

    def _submit(
        self, group: NativePodGroup, members: list[QueuedPod], status: Status, preemption: GroupPreemption | None
    ) -> None:
        """Bind the pods of a scheduled group; return all others to the queue; publish the group's condition."""
        engine = self._engine
        if preemption is not None and preemption.status.code is Code.ERROR:
            status = preemption.status
        told = preemption.status.message if preemption is not None and status.is_rejected else ""
        message = ", ".join(part for part in (status.message, told) if part)
        victims = preemption.victims if preemption is not None else ()
        failures = [result for result in self._tried if isinstance(result, ScheduleFailure)]
        rejectors = frozenset().union(*(failure.rejectors for failure in failures)) if victims else frozenset()
        attempt = _attempt(members, status)
        for index, queued in enumerate(members):
            result = self._tried[index] if index < len(self._tried) else None
            if status.is_success and isinstance(result, AssumedPod):
                result.state.write(QUORUM, True)
                engine.decided.append(engine.permit(result))
                continue
            failure = self._failure(result, status, message, preemption, queued.uid)
            if victims and failure.result.victims == ():
                chosen = PostFilterResult(failure.result.nominated_node, victims)
                failure = msgspec.structs.replace(failure, result=chosen)
            # As in kube-scheduler, a group waits for its backoff and not for events, unless it waits for victims.
            failure = msgspec.structs.replace(
                failure, rejectors=rejectors, pending=frozenset(), backoff=None, group=attempt
            )
            failed = engine.handle_failure(queued, failure, perf_counter())
            engine.decided.append(msgspec.structs.replace(failed, group=group) if failed.victims else failed)
            victims = ()  # the first pod stands for the group
        if engine.report_group is not None:
            rejected = "Unschedulable" if status.is_rejected else "SchedulerError"
            engine.report_group(group, GroupStatus("Scheduled" if status.is_success else rejected, message))

    @staticmethod
    def _failure(
        result: AssumedPod | ScheduleFailure | None,
        status: Status,
        message: str,
        preemption: GroupPreemption | None,
        uid: str,
    ) -> ScheduleFailure:
        """Return the failure of a pod: its own, or that of its group."""
        waits = preemption is not None and preemption.status.is_success
        nomination = preemption.nominations.get(uid) if preemption is not None and waits else None
        told = NO_NOMINATION if nomination is None else PostFilterResult(nomination)
        found = preemption.status if preemption is not None else None
        own = isinstance(result, ScheduleFailure) and (status.is_rejected or status.is_success or _is_error(result))
        if isinstance(result, ScheduleFailure) and own:
            told = result.result if nomination is None else told
            return msgspec.structs.replace(result, result=told, post_filter=found)
        text = status.message
        if isinstance(result, AssumedPod) and status.is_rejected:
            text = message if waits else f"{_UNSCHEDULABLE}, {message}"
        return ScheduleFailure(text, status, CycleState(), result=told, post_filter=found)


def _none_available(status: Status, count: int, error: str) -> Status:
    """Return the status of a group that cannot be scheduled in any placement; ``status`` is that of the first."""
    if status.code is Code.ERROR:
        return status
    text = f"0/{count} placements are available, first placement status: {error}"
    return Status.unschedulable(_UNSCHEDULABLE, text)


def _is_error(failure: ScheduleFailure) -> bool:
    return not failure.status.is_rejected


def _order(queued: QueuedPod) -> tuple[int, int, float, str]:
    """Return the sort key of the pods of a group: priority, more attempts, earlier, name."""
    return (-queued.pod.priority, -queued.attempts, queued.timestamp, queued.pod.name)


def _attempt(members: list[QueuedPod], status: Status) -> GroupAttempt:
    """Return what the queue needs to know of the attempt of a group."""
    return GroupAttempt(
        size=len(members),
        timestamp=min(queued.timestamp for queued in members),
        rejections=max(queued.unschedulable_count for queued in members),
        errors=max(queued.consecutive_errors for queued in members),
        rejected=status.is_rejected,
        failed=not status.is_success and not status.is_rejected,
    )


def _policy(pod: Pod) -> str:
    return pod.spec.preemption_policy or "PreemptLowerPriority"


def _unsupported(group: NativePodGroup, release: Release) -> str:
    """Return the field of a group that is not supported, or empty."""
    spec = group.spec
    if spec.resource_claims and not release.enabled("DRAWorkloadResourceClaims"):
        return "spec.resourceClaims"
    if spec.parent_composite_pod_group_name:
        return "spec.parentCompositePodGroupName"
    return ""
