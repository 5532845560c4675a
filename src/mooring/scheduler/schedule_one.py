"""ScheduleOne: one scheduling attempt, from the pod that the queue pops to its binding, as in schedule_one.go.

The scheduling cycle is a generator without I/O: it yields requests to extenders, is sent the replies in the same order,
and returns the outcome. With a budget it also pauses, by yielding no requests, if it takes long. Otherwise, if no
extender is interested in the pod, it never yields. The binding cycle is a coroutine and runs concurrently with the
attempts that follow.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup
from mooring.checkpoints import PausableCall
from mooring.framework.device_allocations import claim_statuses
from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS, Code, Status
from mooring.loading.circuit_breaker import Guards
from mooring.logs import get_logger
from mooring.observe.attempt_trace import Evaluation
from mooring.plugins.gang_scheduling import GangScheduling
from mooring.scheduler import binding
from mooring.scheduler.attempt_budget import AttemptBudget
from mooring.scheduler.attempt_results import (
    AssumedPod,
    FailedAttempt,
    GroupStatus,
    PendingAttempt,
    ScheduleFailure,
    ScheduleResult,
    handed_over,
    internal_error,
    rejected_after_filter,
)
from mooring.scheduler.binding import PointTimes, PreBinds
from mooring.scheduler.cache import Cache
from mooring.scheduler.decision_lock import DecisionLock
from mooring.scheduler.extenders import ExtenderError, Extenders, Steps, run_steps
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.pod_group_cycle import PodGroupCycle
from mooring.scheduler.profile import Bound
from mooring.scheduler.queue import QueuedPod, SchedulingQueue
from mooring.scheduler.schedule_pod import SchedulePod
from mooring.unexpected_errors import report_unexpected

if TYPE_CHECKING:
    from mooring.scheduler.observer import Observer
    from mooring.scheduler.profiles import Profiles

T = TypeVar("T")
Rows = npt.NDArray[np.intp]

log = get_logger("mooring.scheduler")


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
    #: Publishes the node of a pod if its binding takes a while; the result ends that.
    _expect: Callable[[Pod, str], Callable[[], Awaitable[None]]] | None
    #: Whether the release publishes such nodes, and asks the PreBind plugins before whether they have work.
    _publishes: bool
    #: Whether victims are evicted by requests that take a while. Otherwise they disappear before the next attempt.
    _evicts_later: bool
    #: Held while an attempt awaits extenders or pauses.
    lock: DecisionLock
    #: The preemptors whose victims are being evicted, by uid. The value is the uid of the last victim if no other
    #: eviction is in progress, or empty.
    preempting: dict[str, str]
    #: Outcomes of the last group that ``schedule_one`` has not returned yet.
    decided: deque[AssumedPod | FailedAttempt]
    #: The pods that were rejected at Permit since the last attempt.
    rejected: list[AssumedPod]
    #: Publishes the condition of a group after its cycle.
    report_group: Callable[[NativePodGroup, GroupStatus], None] | None

    # The scheduling cycle

    def schedule_one(self) -> AssumedPod | FailedAttempt | PendingAttempt | None:
        """Run the scheduling cycle of the next pod. Return None if the queue is empty, or if the pod is skipped.

        The lock must be free. A PendingAttempt holds it until ``complete`` returns.
        """
        if self.decided:
            return self.decided.popleft()
        if self.rejected:
            self._roll_back_rejected()
        queued = self.queue.pop()
        if queued is None:
            return None
        runner = self.profiles.runners.get(queued.pod.scheduler_name)
        if runner is None or self._skip(queued.pod, runner):
            self.queue.done(queued.uid)
            return None
        if self.guards.stale:
            self._clear_cached_answers()
        gangs = runner.profile.plugins.get(GangScheduling.name) if queued.pod.spec.scheduling_group else None
        if isinstance(gangs, GangScheduling) and gangs.active:
            steps = PodGroupCycle(self, runner, gangs).steps(queued)
        else:
            steps = self.scheduling_cycle(queued, runner)
        try:
            requests = next(steps)
        except StopIteration as done:
            outcome: AssumedPod | FailedAttempt | None = done.value
            return outcome
        except Exception as error:
            return self.attempt_failed(queued, error)
        self.lock.take()
        return PendingAttempt(queued, steps, requests)

    @property
    def ready(self) -> bool:
        """Whether ``schedule_one`` would return an outcome."""
        return bool(self.decided) or self.queue.ready

    async def complete(self, pending: PendingAttempt) -> AssumedPod | FailedAttempt | None:
        """Finish an attempt that awaits extenders or pauses, and release the lock."""
        try:
            return await self._complete(pending)
        except Exception as error:
            return self.attempt_failed(pending.queued, error)
        finally:
            self.lock.release()

    async def _complete(self, pending: PendingAttempt) -> AssumedPod | FailedAttempt | None:
        sender = self._extenders
        return await run_steps(pending.steps, pending.requests, sender.send if sender is not None else None)

    def attempt_failed(self, queued: QueuedPod, error: Exception) -> FailedAttempt:
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
        if pod.metadata.deletion_timestamp is not None:
            note = f"skip schedule deleting pod: {pod.key}"
            runner.handle.events.record(pod, type="Warning", reason="FailedScheduling", action="Scheduling", note=note)
            return True
        return pod.metadata.uid in self.cache.assumed

    def attempt(
        self,
        queued: QueuedPod,
        runner: PluginRunner,
        evaluation: Evaluation | None = None,
        *,
        in_group: bool = False,
        rows: Rows | None = None,
    ) -> Steps[ScheduleResult | ScheduleFailure]:
        """Search for a node for a pod, among some rows (None: all), within the budget of an attempt."""
        extenders = self._extenders.deciding(queued.pod) if self._extenders is not None else ()
        attempt = SchedulePod(runner, queued.pod, extenders, evaluation, in_group=in_group, rows=rows)
        steps = attempt.steps()
        budget = self._budget
        return steps if budget is None else budget.run(steps, queued.pod, attempt.state, requests=bool(extenders))

    def pausable(self, attempts: Callable[[], None]) -> PausableCall | None:
        """Return a call that makes attempts, and pauses within those that take long; None if none may pause.

        While it pauses, hold the lock.
        """
        return None if self._budget is None else self._budget.pausable(attempts)

    def asks_extenders(self, pods: Iterable[Pod]) -> bool:
        """Return whether an extender is interested in one of some pods."""
        return self._extenders is not None and any(self._extenders.deciding(pod) for pod in pods)

    @property
    def pauses(self) -> bool:
        """Whether long attempts pause, so that other tasks run."""
        return self._budget is not None

    def scheduling_cycle(
        self, queued: QueuedPod, runner: PluginRunner, evaluation: Evaluation | None = None
    ) -> Steps[AssumedPod | FailedAttempt]:
        """Choose a node, assume the pod there and run Reserve and Permit; or handle the failure."""
        started = self.observer.begin(queued) if self.observer is not None else 0.0
        result = yield from self.attempt(queued, runner, evaluation)
        if self.cache.table.share is not None:
            result = self.within_share(queued.pod, result)
        outcome = (
            self.handle_failure(queued, result, started, in_cycle=True)
            if isinstance(result, ScheduleFailure)
            else self._assume_and_reserve(queued, runner, result, started, evaluation)
        )
        if self.guards.troubled:
            self.guards.end_attempt()
        return outcome

    def within_share(self, pod: Pod, result: ScheduleResult | ScheduleFailure) -> ScheduleResult | ScheduleFailure:
        """Return the result of an attempt; a handover if the node belongs to another member (active-active)."""
        share = self.cache.table.share
        if share is None:
            return result
        if isinstance(result, ScheduleFailure):
            share.count_failure(pod, cleared=result.result.nominated_node == "")
            return result
        return result if share.usable(result.node_name) else handed_over(pod, result, share)

    def node_chosen(self) -> None:
        """Called between the choice of a node and Reserve. Recordings and replays keep the time of this step."""

    def _assume_and_reserve(
        self,
        queued: QueuedPod,
        runner: PluginRunner,
        result: ScheduleResult,
        started: float,
        evaluation: Evaluation | None,
    ) -> AssumedPod | FailedAttempt:
        self.node_chosen()
        reserved = self.reserve(queued, runner, result, started, evaluation)
        if isinstance(reserved, ScheduleFailure):
            return self.handle_failure(queued, reserved, started)
        return self.permit(reserved, evaluation)

    def reserve(
        self,
        queued: QueuedPod,
        runner: PluginRunner,
        result: ScheduleResult,
        started: float,
        evaluation: Evaluation | None = None,
        *,
        observed: bool = True,
    ) -> AssumedPod | ScheduleFailure:
        """Assume a pod on its node and run Reserve. A failure leaves nothing behind.

        Without ``observed``, the node is one that a group only tries, and is not recorded.
        """
        node_name, state, profile = result.node_name, result.state, runner.profile
        observer = self.observer if observed else None
        record = observer.placed(queued, runner, result) if observer is not None else None
        pod = self.cache.assume(queued.pod, node_name, claim_statuses(state, node_name)).pod
        if observer is not None:
            observer.start_lap()
        status = binding.reserve(profile, state, pod, node_name)
        if evaluation is not None:
            evaluation.reserve = status
        if observer is not None:
            observer.lap(profile.name, "Reserve", status.code, record)
        if status is not SUCCESS and not status.is_success:
            self.undo(runner, state, pod, node_name)
            return rejected_after_filter(status, state)
        examined = result.evaluated, result.feasible
        return AssumedPod(queued, pod, node_name, state, runner, *examined, started=started, record=record)

    def permit(self, assumed: AssumedPod, evaluation: Evaluation | None = None) -> AssumedPod | FailedAttempt:
        """Run Permit for a pod with a reserved node."""
        state, runner, observer, record = assumed.state, assumed.runner, self.observer, assumed.record
        profile, pod, node_name = runner.profile, assumed.pod, assumed.node_name
        if self.rejected:  # while this attempt was paused
            self._roll_back_rejected()
        status = binding.permit(profile, state, pod, node_name)
        if evaluation is not None:
            evaluation.permit = status
        if observer is not None:
            observer.lap(profile.name, "Permit", status.code, record)
        assumed.waits = status.code is Code.WAIT
        if status is not SUCCESS and not (status.is_success or assumed.waits):
            self.undo(runner, state, pod, node_name)
            return self.handle_failure(assumed.queued, rejected_after_filter(status, state), assumed.started)
        if state.pods_to_activate:
            self.queue.activate(state.pods_to_activate, by=assumed.queued)
        if assumed.waits:
            self._hold(assumed)
        assumed.assumed_at = perf_counter()
        return assumed

    def _hold(self, assumed: AssumedPod) -> None:
        waiting = self.profiles.waiting_pods.get(assumed.pod.uid)
        if self.observer is not None:
            self.observer.held(assumed.record, waiting)
        if waiting is not None:
            waiting.when_settled(partial(self._settled, assumed))

    def _settled(self, assumed: AssumedPod, verdict: Status) -> None:
        if not verdict.is_success:
            self.rejected.append(assumed)

    def _roll_back_rejected(self) -> None:
        """Roll back the pods that were rejected at Permit, and those that plugins reject with them at Unreserve.

        Their binding cycles end only when their tasks run, which may be after further attempts. Until then a plugin
        would count them: the rest of a gang would start without them.
        """
        for assumed in self.rejected:  # grows meanwhile
            self.roll_back(assumed)
        self.rejected.clear()

    def _clear_cached_answers(self) -> None:
        """Drop cached answers after a plugin was disabled or enabled."""
        self.guards.stale = False
        for runner in self.profiles.runners.values():
            runner.clear_cached_answers()

    # The binding cycle

    async def bind(self, assumed: AssumedPod) -> FailedAttempt | None:
        """Run the binding cycle: wait for Permit, then PreBind, Bind and PostBind. Return None if the pod is bound."""
        runner, state, pod, node_name = assumed.runner, assumed.state, assumed.pod, assumed.node_name
        profile, rejected = runner.profile, False
        points = self.observer.points(profile.name, pod.metadata.uid) if self.observer is not None else None
        try:
            status, pre_binders = SUCCESS, profile.pre_bind
            if self._publishes:
                status, pre_binders = binding.pre_flight(profile, state, pod, node_name, points)
            if status is SUCCESS and (pre_binders or assumed.waits):
                status, rejected = await self._wait_and_pre_bind(assumed, pre_binders, points)
            elif status is SUCCESS:
                self.queue.done(pod.metadata.uid)
                binding.observe(points, "PreBind", SUCCESS, perf_counter())
            if status is SUCCESS or status.is_success:
                started = perf_counter()
                bound = await self._bind_with_extender(pod, node_name) if self._extenders is not None else None
                status = bound if bound is not None else await binding.bind(profile, state, pod, node_name)
                started = binding.observe(points, "Bind", status, started)
                if status is SUCCESS or status.is_success:
                    try:
                        if profile.post_bind:
                            await binding.post_bind(profile, state, pod, node_name)
                        self._bound(assumed, points, started)
                    except Exception as error:  # the pod is bound nevertheless
                        report_unexpected("a step after the bind failed", error, pod=pod.key)
                    return None
        except Exception as error:
            report_unexpected("a binding cycle failed", error, pod=pod.key)
            status, rejected = internal_error(error).status, False
        async with self.lock:  # a decision in progress counts the pod on its node
            self.roll_back(assumed)
            failure = rejected_after_filter(status, state, waited=rejected)
            failed = self.handle_failure(assumed.queued, failure, assumed.started)
            if rejected:
                self.queue.waiting_pod_rejected(pod)
            else:
                self.queue.assigned_pod_deleted(pod)
            return failed

    def _bound(self, assumed: AssumedPod, points: PointTimes | None, started: float) -> None:
        """Record a bound pod, for which PostBind started at a time and has ended."""
        binding.observe(points, "PostBind", SUCCESS, started)
        if self.observer is not None:
            self.observer.bound(assumed.queued, assumed.started, assumed.assumed_at, assumed.record)
        if assumed.state.pods_to_activate:
            self.queue.activate(assumed.state.pods_to_activate)

    async def _wait_and_pre_bind(
        self, assumed: AssumedPod, pre_binders: tuple[Bound, ...], points: PointTimes | None
    ) -> tuple[Status, bool]:
        """Wait for Permit and run PreBind; return the status, and whether the pod was rejected at Permit.

        If that takes a while, the node is published.
        """
        end = self._expect(assumed.pod, assumed.node_name) if self._publishes and self._expect is not None else None
        try:
            return await self._permitted_and_pre_bound(assumed, pre_binders, points)
        finally:
            if end is not None:
                await end()

    async def _permitted_and_pre_bound(
        self, assumed: AssumedPod, pre_binders: tuple[Bound, ...], points: PointTimes | None
    ) -> tuple[Status, bool]:
        pod, observer = assumed.pod, self.observer
        status = await binding.wait_on_permit(self.profiles.waiting_pods, pod)
        if observer is not None and assumed.waits:
            observer.waited(pod.uid, status.code, assumed.assumed_at)
        if not status.is_success:
            return status, status.is_rejected
        # From here on, only an error returns the pod to the queue, and that needs no replay of events.
        self.queue.done(assumed.queued.uid)
        started = perf_counter()
        if pre_binders:
            status = await binding.pre_bind(pre_binders, assumed.state, pod, assumed.node_name, self.pre_binds)
        binding.observe(points, "PreBind", status, started)
        return status, False

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

    def roll_back(self, assumed: AssumedPod) -> None:
        """Undo an assumed pod, unless that has happened."""
        if not assumed.rolled_back:
            assumed.rolled_back = True
            self.undo(assumed.runner, assumed.state, assumed.pod, assumed.node_name)

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
                queued,
                unschedulable_plugins=rejectors,
                pending_plugins=pending,
                pod=latest,
                backoff=failure.backoff,
                group=failure.group,
                waited=failure.waited,
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
        if pod is None or pod.uid != uid or pod.node_name or pod.scheduler_name not in self.profiles.runners:
            return False
        share = self.cache.table.share
        return share is None or share.takes(pod)
