"""ScheduleOne: one scheduling attempt, from the pod that the queue pops to its binding, as in schedule_one.go.

The scheduling cycle is a generator without I/O: it yields requests to extenders, is sent the replies in the same order,
and returns the outcome. With a budget it also pauses, by yielding no requests, if it takes long. Otherwise, if no
extender is interested in the pod, it never yields. The binding cycle is a coroutine and runs concurrently with the
attempts that follow.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.columns.node_info import NodeInfo
from mooring.columns.nodes import Nodes
from mooring.framework.node_statuses import NodeStatuses, fit_message
from mooring.framework.preemption.candidate import Candidate
from mooring.framework.state import CycleState
from mooring.framework.status import NO_NOMINATION, SUCCESS, Code, PostFilterResult, Status
from mooring.loading.circuit_breaker import Guards
from mooring.logs import get_logger
from mooring.observe.attempt_trace import Evaluation, ExtenderCall
from mooring.scheduler import binding
from mooring.scheduler.answers import PluginFailure
from mooring.scheduler.attempt_budget import AttemptBudget
from mooring.scheduler.attempt_results import (
    AssumedPod,
    FailedAttempt,
    PendingAttempt,
    ScheduleFailure,
    ScheduleResult,
    early_failure,
    internal_error,
    rejected_after_filter,
)
from mooring.scheduler.binding import PreBinds
from mooring.scheduler.cache import Cache
from mooring.scheduler.decision_lock import DecisionLock
from mooring.scheduler.extenders import Extender, ExtenderError, Extenders, Steps, run_steps
from mooring.scheduler.plugin_runner import Filtered, PluginRunner, PreFiltered
from mooring.scheduler.profile import EXTENDER
from mooring.scheduler.queue import QueuedPod, SchedulingQueue
from mooring.unexpected_errors import report_unexpected

if TYPE_CHECKING:
    from mooring.scheduler.observer import Observer
    from mooring.scheduler.profiles import Profiles

T = TypeVar("T")
Rows = npt.NDArray[np.intp]

log = get_logger("mooring.scheduler")


class Diagnosis(msgspec.Struct, frozen=True):
    """The reasons why no node is feasible."""

    statuses: NodeStatuses
    #: The message of PreFilter, if PreFilter rejected the pod.
    pre_filter_message: str = ""
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()


def run_without_extenders(steps: Steps[T]) -> T:
    """Run an attempt without extenders to its end."""
    try:
        next(steps)
    except StopIteration as done:
        outcome: T = done.value
        return outcome
    raise RuntimeError("a PostFilter plugin requested extenders, but none is interested in the pod")


def schedule_pod(
    runner: PluginRunner, pod: Pod, evaluation: Evaluation | None = None
) -> ScheduleResult | ScheduleFailure:
    """Find a node for a pod without extenders."""
    return run_without_extenders(SchedulePod(runner, pod, evaluation=evaluation).steps())


class SchedulePod:
    """The search for a node for one pod: filter, score, select; or PostFilter if no node is feasible."""

    __slots__ = ("_evaluation", "_extender_statuses", "_extenders", "_pod", "_runner", "_trace", "state")

    def __init__(
        self,
        runner: PluginRunner,
        pod: Pod,
        extenders: Sequence[Extender] = (),
        evaluation: Evaluation | None = None,
    ) -> None:
        """With ``evaluation``, run all plugins on all nodes and record their answers there."""
        self._runner = runner
        self._pod = pod
        self._extenders = extenders
        self._evaluation = evaluation
        self._trace = runner.trace if evaluation is None else None
        self.state = CycleState()
        #: The extenders' statuses, by node name; the last one counts.
        self._extender_statuses: dict[str, Status] | None = None

    def steps(self) -> Steps[ScheduleResult | ScheduleFailure]:
        """Run the attempt, yielding requests to extenders."""
        runner, state, pod, trace, table = self._runner, self.state, self._pod, self._trace, self._runner.table
        evaluation, extenders = self._evaluation, self._extenders
        if pod.spec.scheduling_group is not None or (not table.nodes and evaluation is None):
            return early_failure(pod, state)
        try:
            pre_filtered = runner.pre_filter(state, pod)
            if trace is not None:
                trace.pre_filtered = perf_counter()
            if evaluation is not None:
                evaluation.pre_filter, evaluation.pre_filter_nodes = pre_filtered.status, pre_filtered.names
            if not pre_filtered.status.is_success:
                return (yield from self._post_filter(self._pre_filter_diagnosis(pre_filtered.status)))

            name, node = pod.status.nominated_node_name or runner.handle.nominator.node_of(pod.uid), None
            if name:
                node = self._nominated_node(name)
                if node is not None and extenders and not (yield from self._extenders_accept(node)):
                    node = None
                if node is not None and evaluation is None:
                    return ScheduleResult(node.name, state, 1, 1)

            template, among = table.templates.of(pod), runner.rows_of(pre_filtered.names)
            if evaluation is None:
                filtered = runner.filter(state, pod, template, among, sample=bool(extenders))
            else:
                filtered = self._evaluate_filters(evaluation, pre_filtered, among)
            rows = filtered.rows
            if extenders:
                rows = yield from self._filter_with_extenders(np.arange(len(table)) if rows is None else rows)
            if trace is not None:
                trace.filtered = perf_counter()
            count = len(table.nodes) if rows is None else len(rows)
            if count == 0:
                return (yield from self._post_filter(self._filter_diagnosis(pre_filtered, filtered)))

            if evaluation is not None:
                row = self._evaluate_scores(evaluation)
                row = row if node is None else node.row
                evaluation.node_name, evaluation.nominated = table.nodes[row].name, node is not None
            elif count == 1 or not (runner.profile.scorers or extenders):
                row = 0 if rows is None else int(rows[0])
            else:
                totals, same = runner.scoring.totals(state, pod, template, rows, trace)
                if extenders and rows is not None:
                    totals = yield from self._add_extender_scores(rows, totals.copy())
                place = runner.selection.pick(totals, rows)
                row = place if rows is None else int(rows[place])
                if trace is not None:
                    trace.scored = perf_counter()
                    if trace.ranks:
                        runner.scoring.rank(trace, state, pod, template, rows, totals, same, place)
            return ScheduleResult(table.nodes[row].name, state, filtered.examined, count)
        except PluginFailure as error:
            # As in kube-scheduler, the pod loses its nomination.
            return ScheduleFailure(error.status.message, error.status, state, result=NO_NOMINATION)

    # The nominated node

    def _nominated_node(self, name: str) -> NodeInfo | None:
        """Return the node nominated by an earlier preemption, if it passes the Filter plugins now."""
        runner = self._runner
        row = runner.table.row_of.get(name)
        if row is None:
            return None
        node = runner.table.nodes[row]
        try:
            status = runner.filter_node(self.state, self._pod, node)
        except PluginFailure:
            return None  # as in kube-scheduler: errors are reported only if they recur with the other nodes
        return node if status.is_success else None

    def _extenders_accept(self, node: NodeInfo) -> Steps[bool]:
        try:
            return len((yield from self._filter_with_extenders(np.array([node.row])))) > 0
        except PluginFailure:
            return False  # as above

    # Filter

    def _evaluate_filters(self, evaluation: Evaluation, pre_filtered: PreFiltered, among: Rows | None) -> Filtered:
        """Run the Filter plugins on all nodes and record each node's status."""
        runner = self._runner
        statuses, rows = runner.filtering.diagnose(
            self.state, self._pod, among, pre_filtered.absent_status, keep_errors=True
        )
        evaluation.examined = list(range(len(runner.table))) if among is None else among.tolist()
        evaluation.statuses, evaluation.feasible = statuses, rows
        error = next((status for status, _ in statuses.groups() if status.code is Code.ERROR), None)
        if error is not None:
            evaluation.aborted = True
            raise PluginFailure(error)
        return Filtered(rows, len(evaluation.examined), among)

    def _filter_with_extenders(self, rows: Rows) -> Steps[Rows]:
        """Return the rows that pass all extenders, called one after another."""
        for extender in self._extenders:
            if not len(rows):
                break
            if not extender.filters:
                continue
            nodes = self._nodes(rows)
            try:
                passed, rejected = yield from extender.filter(self._pod, nodes)
            except ExtenderError as error:
                self._extender_failed(extender, "filter", error)
                if not extender.ignorable:
                    raise PluginFailure(Status.error(str(error)).by(extender.name)) from None
                continue
            rows = np.array(passed, dtype=np.intp)
            self._extender_statuses = (self._extender_statuses or {}) | rejected
            self._record(ExtenderCall(extender.name, "filter", rejected=rejected))
        return rows

    # Score

    def _evaluate_scores(self, evaluation: Evaluation) -> int:
        """Record every plugin's score of every feasible node; return the first row with the highest total."""
        runner, rows = self._runner, evaluation.feasible
        runner.scoring.pre_score(self.state, self._pod, Nodes(runner.table, rows))
        evaluation.scores = runner.scoring.by_plugin(self.state, self._pod, rows)
        return int(rows[evaluation.totals.argmax()])

    def _add_extender_scores(self, rows: Rows, totals: npt.NDArray[np.int64]) -> Steps[npt.NDArray[np.int64]]:
        """Add the scores of all extenders, which are called concurrently. Errors are ignored, as upstream does."""
        called = [extender for extender in self._extenders if extender.prioritizes]
        nodes = self._nodes(rows)
        replies = (yield tuple(extender.prioritize(self._pod, nodes) for extender in called)) if called else ()
        for extender, reply in zip(called, replies, strict=True):
            try:
                scores = extender.scores(reply, nodes)
            except ExtenderError as error:
                self._extender_failed(extender, "prioritize", error)
                continue
            totals += scores
            self._runner.scoring.note(extender.name, scores)
            by_node = {node.name: int(score) for node, score in zip(nodes, scores, strict=True)}
            self._record(ExtenderCall(extender.name, "prioritize", scores=by_node))
        return totals

    # No feasible node

    def _pre_filter_diagnosis(self, status: Status) -> Diagnosis:
        rejectors = frozenset((status.plugin,)) if status.plugin else frozenset()
        return Diagnosis(NodeStatuses(self._runner.table, status), status.message, rejectors)

    def _filter_diagnosis(self, pre_filtered: PreFiltered, filtered: Filtered) -> Diagnosis:
        """Attribute each examined node to the first plugin, or the last extender, that rejected it."""
        statuses, passed = self._runner.filtering.diagnose(
            self.state, self._pod, filtered.examined_rows, pre_filtered.absent_status
        )
        rejectors, pending = statuses.plugins(), statuses.plugins(pending=True)
        rejectors |= frozenset(pre_filtered.narrowed_by)
        for name, status in (self._extender_statuses or {}).items():
            statuses.set_by_name(name, status)
        if self._extenders and len(passed):
            rejectors |= {EXTENDER}
        return Diagnosis(statuses, "", rejectors, pending)

    def _post_filter(self, diagnosis: Diagnosis) -> Steps[ScheduleFailure]:
        """Run PostFilter (preemption), with the extenders that take part in it."""
        if self._trace is not None:
            self._trace.post_filter_started = perf_counter()
        result, status = NO_NOMINATION, None
        if self._evaluation is None or self._evaluation.runs_post_filter:
            result, status = yield from self._run_post_filter(diagnosis.statuses)
        after = status.message if status is not None else ""
        message = fit_message(len(self._runner.table), diagnosis.statuses, diagnosis.pre_filter_message, after)
        return ScheduleFailure(
            message,
            Status.unschedulable(message),
            self.state,
            diagnosis.statuses,
            status,
            result,
            diagnosis.rejectors,
            diagnosis.pending,
        )

    def _run_post_filter(self, statuses: NodeStatuses) -> Steps[tuple[PostFilterResult, Status | None]]:
        plugins = self._runner.post_filter(self.state, self._pod, statuses)
        try:
            candidates = next(plugins)
            while True:
                candidates = plugins.send((yield from self._preempt_with_extenders(candidates)))
        except StopIteration as done:
            outcome: tuple[PostFilterResult, Status | None] = done.value
            return outcome

    def _preempt_with_extenders(self, candidates: Sequence[Candidate]) -> Steps[Sequence[Candidate] | Status]:
        """Return the candidates that the extenders keep, with their victims; or an error."""
        table = self._runner.table
        left = {table.nodes[each.row].name: each for each in candidates}
        for extender in self._extenders:
            if not extender.preempts:
                continue
            try:
                left = yield from extender.preempt(self._pod, left, table)
            except ExtenderError as error:
                self._extender_failed(extender, "preempt", error)
                if not extender.ignorable:
                    return Status.error(str(error))
                continue
            self._record(ExtenderCall(extender.name, "preempt"))
            if not left:
                break
        return tuple(left.values())

    def _nodes(self, rows: Rows) -> list[NodeInfo]:
        nodes = self._runner.table.nodes
        return [nodes[row] for row in rows.tolist()]

    def _record(self, call: ExtenderCall) -> None:
        if self._trace is not None:
            self._trace.extender_calls += (call,)

    def _extender_failed(self, extender: Extender, verb: str, error: ExtenderError) -> None:
        self._record(ExtenderCall(extender.name, verb, error=str(error)))
        if extender.ignorable and verb != "prioritize":
            log.info(
                "Skipping extender as it returned error and has ignorable flag set",
                pod=self._pod.key,
                extender=extender.name,
                verb=verb,
                err=str(error),
            )


class ScheduleOne:
    """A scheduler of the pods in the queue, one at a time. The engine adds event handlers and profiles."""

    cache: Cache
    queue: SchedulingQueue
    profiles: Profiles
    guards: Guards
    observer: Observer | None
    #: The running PreBind plugins, which preemption may cancel.
    pre_binds: PreBinds
    _extenders: Extenders | None
    #: The limits of attempts; None if they run to their end without a pause.
    _budget: AttemptBudget | None
    #: Publishes the node of a pod whose binding takes a while.
    _expect: Callable[[Pod, str], Awaitable[None]] | None
    #: Whether victims are evicted by requests that take a while. Otherwise they disappear before the next attempt.
    _evicts_later: bool
    #: Held while an attempt awaits extenders or pauses.
    lock: DecisionLock
    #: The preemptors whose victims are being evicted, by uid. The value is the uid of the last victim if no other
    #: eviction is in progress, or empty.
    preempting: dict[str, str]

    # The scheduling cycle

    def schedule_one(self) -> AssumedPod | FailedAttempt | PendingAttempt | None:
        """Run the scheduling cycle of the next pod. Return None if the queue is empty, or if the pod is skipped.

        The lock must be free. A PendingAttempt holds it until ``complete`` returns.
        """
        queued = self.queue.pop()
        if queued is None:
            return None
        runner = self.profiles.runners.get(queued.pod.scheduler_name)
        if runner is None or self._skip(queued.pod, runner):
            self.queue.done(queued.uid)
            return None
        if self.guards.stale:
            self._clear_cached_answers()
        steps = self.scheduling_cycle(queued, runner)
        try:
            requests = next(steps)
        except StopIteration as done:
            outcome: AssumedPod | FailedAttempt = done.value
            return outcome
        except Exception as error:
            return self._attempt_failed(queued, error)
        self.lock.take()
        return PendingAttempt(queued, steps, requests)

    async def complete(self, pending: PendingAttempt) -> AssumedPod | FailedAttempt:
        """Finish an attempt that awaits extenders or pauses, and release the lock."""
        try:
            return await self._complete(pending)
        except Exception as error:
            return self._attempt_failed(pending.queued, error)
        finally:
            self.lock.release()

    async def _complete(self, pending: PendingAttempt) -> AssumedPod | FailedAttempt:
        sender = self._extenders
        return await run_steps(pending.steps, pending.requests, sender.send if sender is not None else None)

    def _attempt_failed(self, queued: QueuedPod, error: Exception) -> FailedAttempt:
        """Fail an attempt that raised, so that only this pod is affected. Plugins' exceptions are handled elsewhere."""
        report_unexpected("a scheduling attempt failed", error, pod=queued.pod.key)
        failure = internal_error(error)
        try:
            self.cache.forget(queued.pod)
            return self.handle_failure(queued, failure, perf_counter())
        except Exception as again:
            report_unexpected("a failed attempt cannot be recorded", again, pod=queued.pod.key)
            self.queue.add_unschedulable(queued)
            return FailedAttempt(queued, failure)

    def _skip(self, pod: Pod, runner: PluginRunner) -> bool:
        if pod.is_terminating:
            note = f"skip schedule deleting pod: {pod.key}"
            runner.handle.events.record(pod, type="Warning", reason="FailedScheduling", action="Scheduling", note=note)
            return True
        return pod.uid in self.cache.assumed

    def scheduling_cycle(
        self, queued: QueuedPod, runner: PluginRunner, evaluation: Evaluation | None = None
    ) -> Steps[AssumedPod | FailedAttempt]:
        """Choose a node, assume the pod there and run Reserve and Permit; or handle the failure."""
        started = self.observer.begin(queued) if self.observer is not None else 0.0
        extenders = self._extenders.deciding(queued.pod) if self._extenders is not None else ()
        attempt = SchedulePod(runner, queued.pod, extenders, evaluation)
        steps = attempt.steps()
        result = yield from steps if self._budget is None else self._budget.run(steps, queued.pod, attempt.state)
        outcome = (
            self.handle_failure(queued, result, started, in_cycle=True)
            if isinstance(result, ScheduleFailure)
            else self._assume_and_reserve(queued, runner, result, started, evaluation)
        )
        if self.guards.troubled:
            self.guards.end_attempt()
        return outcome

    def _assume_and_reserve(
        self,
        queued: QueuedPod,
        runner: PluginRunner,
        result: ScheduleResult,
        started: float,
        evaluation: Evaluation | None,
    ) -> AssumedPod | FailedAttempt:
        node_name, state, profile, observer = result.node_name, result.state, runner.profile, self.observer
        record = observer.placed(queued, runner, result) if observer is not None else None
        pod = self.cache.assume(queued.pod, node_name).pod
        if observer is not None:
            observer.start_lap()
        status = binding.reserve(profile, state, pod, node_name)
        if evaluation is not None:
            evaluation.reserve = status
        if observer is not None:
            observer.lap(profile.name, "Reserve", status.code, record)
        if status.is_success:
            status = binding.permit(profile, state, pod, node_name)
            if evaluation is not None:
                evaluation.permit = status
            if observer is not None:
                observer.lap(profile.name, "Permit", status.code, record)
        if not status.is_success and status.code is not Code.WAIT:
            self.undo(runner, state, pod, node_name)
            return self.handle_failure(queued, rejected_after_filter(status, state), started)
        if state.pods_to_activate:
            self.queue.activate(state.pods_to_activate)
        if (waits := status.code is Code.WAIT) and observer is not None:
            observer.held(record, self.profiles.waiting_pods.get(pod.uid))
        examined = result.evaluated, result.feasible
        return AssumedPod(queued, pod, node_name, state, runner, *examined, waits, started, perf_counter(), record)

    def _clear_cached_answers(self) -> None:
        """Drop cached answers after a plugin was disabled or enabled."""
        self.guards.stale = False
        for runner in self.profiles.runners.values():
            runner.clear_cached_answers()

    # The binding cycle

    async def bind(self, assumed: AssumedPod) -> FailedAttempt | None:
        """Run the binding cycle: wait for Permit, then PreBind, Bind and PostBind. Return None if the pod is bound."""
        runner, state, pod, node_name = assumed.runner, assumed.state, assumed.pod, assumed.node_name
        try:
            status, rejected = await self._run_binding_cycle(assumed)
        except Exception as error:
            report_unexpected("a binding cycle failed", error, pod=pod.key)
            status, rejected = internal_error(error).status, False
        if status.is_success:
            return None
        async with self.lock:  # a decision in progress counts the pod on its node
            self.undo(runner, state, pod, node_name)
            failed = self.handle_failure(assumed.queued, rejected_after_filter(status, state), assumed.started)
            self.queue.assigned_pod_deleted(pod, only=(lambda other: other.uid != pod.uid) if rejected else None)
            return failed

    async def _run_binding_cycle(self, assumed: AssumedPod) -> tuple[Status, bool]:
        """Run the plugins of the binding cycle; return the status, and whether the pod was rejected at Permit."""
        runner, state, observer = assumed.runner, assumed.state, self.observer
        pod, node_name = assumed.pod, assumed.node_name
        profile = runner.profile
        points = observer.points(profile.name, pod.uid) if observer is not None else None
        status, pre_binders = binding.pre_flight(profile, state, pod, node_name, points)
        rejected = False
        if status.is_success and self._expect is not None and (pre_binders or assumed.waits):
            await self._expect(pod, node_name)
        if status.is_success:
            status = await binding.wait_on_permit(self.profiles.waiting_pods, pod)
            rejected = status.is_rejected
            if observer is not None and assumed.waits:
                observer.waited(pod.uid, status.code, assumed.assumed_at)
        if status.is_success:
            # From here on, only an error returns the pod to the queue, and that needs no replay of events.
            self.queue.done(assumed.queued.uid)
            started = perf_counter()
            status = await binding.pre_bind(pre_binders, state, pod, node_name, self.pre_binds)
            started = binding.observe(points, "PreBind", status, started)
        if status.is_success:
            bound = await self._bind_with_extender(pod, node_name)
            status = bound if bound is not None else await binding.bind(profile, state, pod, node_name)
            started = binding.observe(points, "Bind", status, started)
        if status.is_success:
            try:
                await binding.post_bind(profile, state, pod, node_name)
                binding.observe(points, "PostBind", SUCCESS, started)
                if observer is not None:
                    observer.bound(assumed.queued, assumed.started, assumed.assumed_at, assumed.record)
                if state.pods_to_activate:
                    self.queue.activate(state.pods_to_activate)
            except Exception as error:  # the pod is bound nevertheless
                report_unexpected("a step after the bind failed", error, pod=pod.key)
        return status, rejected

    async def _bind_with_extender(self, pod: Pod, node_name: str) -> Status | None:
        """Bind a pod with the first extender that binds it. Return None if no extender does."""
        extenders = self._extenders
        if extenders is None:
            return None
        for extender in extenders.binding(pod):
            try:
                await extenders.run(extender.bind(pod, node_name))
            except ExtenderError as error:
                if not extender.ignorable:
                    return Status.error(str(error)).by(extender.name)
                log.info(
                    "Skipping extender in bind as it returned error and has ignorable flag set",
                    extender=extender.name,
                    err=str(error),
                )
                continue
            return SUCCESS
        return None

    # Failures

    def undo(self, runner: PluginRunner, state: CycleState, pod: Pod, node_name: str) -> None:
        """Roll back an assumed pod: run Unreserve and remove the pod from its node."""
        binding.unreserve(runner.profile, state, pod, node_name)
        self.cache.forget(pod)

    def handle_failure(
        self, queued: QueuedPod, failure: ScheduleFailure, started: float, *, in_cycle: bool = False
    ) -> FailedAttempt:
        """Record a failed attempt, update the pod's nomination and return the pod to the queue."""
        result, pod, observer = failure.result, queued.pod, self.observer
        if observer is not None:
            observer.failed(queued, failure, started, in_cycle=in_cycle)
        if result.nominated_node:
            self.cache.nominate(pod, result.nominated_node)
        elif result.nominated_node == "":
            self.cache.nominator.remove(pod.uid)
        victims = result.victims
        if victims and self._evicts_later:
            victims = self._start_evictions(victims)
            if victims:
                self.preempting[pod.uid] = ""  # before an event requeues it: another attempt would evict more pods
        latest = self.cache.objects.lister(Pod).get(pod.name, pod.namespace)
        if self._is_waiting(latest, pod.uid):
            rejectors, pending = failure.rejectors, failure.pending
            self.queue.add_unschedulable(
                queued, unschedulable_plugins=rejectors, pending_plugins=pending, pod=latest, backoff=failure.backoff
            )
        else:
            self.queue.done(pod.uid)
            if observer is not None:
                observer.left(pod)
        return FailedAttempt(queued, failure, victims, result.nominated_node)

    def _start_evictions(self, victims: Iterable[str]) -> tuple[str, ...]:
        """Mark victims as being evicted. Return those that no earlier preemption or session evicts."""
        table = self.cache.table
        new = tuple(uid for uid in victims if uid in table.pods and uid not in table.evicting)
        for uid in new:
            self.cache.start_eviction(table.pods[uid].pod)
        return new

    def _is_waiting(self, pod: Pod | None, uid: str) -> bool:
        """Return whether a pod is still to be scheduled: neither deleted nor bound, and of an active profile."""
        return pod is not None and pod.uid == uid and not pod.node_name and pod.scheduler_name in self.profiles.runners
