"""Observer: records the engine's decisions as metrics, decision records, log messages and traces.

Hot path if an engine has one. The engine also works without an observer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from time import perf_counter

import numpy as np

from mooring.api.pod import Pod
from mooring.framework.device_allocations import DEVICE_REJECTIONS, DeviceRejection
from mooring.framework.status import Code, Status
from mooring.framework.waiting_pods import WaitingPod
from mooring.observe.attempt_trace import ExtenderCall, Trace
from mooring.observe.decision_records import (
    RUNNERS_UP,
    Decision,
    DecisionRecords,
    Hold,
    Phases,
    Preempted,
    Preemption,
    Verdict,
)
from mooring.observe.group_metrics import GroupMetrics
from mooring.observe.plugin_metrics import PluginTimes
from mooring.observe.scheduler_metrics import ERROR, SCHEDULED, UNSCHEDULABLE, ProfileMetrics, SchedulerMetrics
from mooring.observe.tracing import AttemptSpan, AttemptTracer, TracedPoints
from mooring.scheduler.attempt_results import ScheduleFailure, ScheduleResult
from mooring.scheduler.cache import Cache
from mooring.scheduler.decision_log import DecisionLog
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.queue import QueuedPod, SchedulingQueue

#: How many nodes are named for each reason.
_NAMES = 5


class Observer:
    """Decision records, metrics, the decision log and traces of one engine; each is optional."""

    def __init__(
        self,
        *,
        records: DecisionRecords | None = None,
        metrics: SchedulerMetrics | None = None,
        decision_log: DecisionLog | None = None,
        tracer: AttemptTracer | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.records = records
        self.metrics = metrics
        self.decision_log = decision_log
        self.tracer = tracer
        #: UID -> the trace of an attempt that chose a node and is not finished; the last of them is the current one.
        self._spans: dict[str, AttemptSpan] = {}
        self._span: AttemptSpan | None = None
        self._clock = clock
        self._trace = Trace(ranks=1 + RUNNERS_UP if records is not None else 0)
        self._cache: Cache
        self._profiles: dict[str, ProfileMetrics] = {}
        self._lap = 0.0

    @property
    def logs(self) -> bool:
        """Whether added pods and decisions are logged."""
        return self.decision_log is not None

    @property
    def groups(self) -> GroupMetrics | None:
        """The metrics of groups of pods."""
        return self.metrics.groups if self.metrics is not None else None

    @property
    def plugin_times(self) -> PluginTimes | None:
        """The metrics of plugin calls."""
        return self.metrics.plugins if self.metrics is not None else None

    def attach(self, cache: Cache, queue: SchedulingQueue, runners: Mapping[str, PluginRunner]) -> None:
        """Start observing an engine."""
        self._cache = cache
        for runner in runners.values():
            runner.trace = self._trace
        if self.metrics is None:
            return
        read, table = self.metrics.readings, cache.table
        read.pending, read.inflight_events = queue.pending, queue.in_flight_events
        read.incoming = lambda: queue.counters.incoming
        read.unschedulable = lambda: queue.counters.rejected
        read.cache_size = lambda: {
            "nodes": len(table), "pods": len(table.pods), "assumed_pods": len(cache.assumed)
        }  # fmt: skip
        # Removed profiles may still have pods in their binding cycle.
        self._profiles.update({name: self.metrics.profile(name) for name in runners})

    def points(self, profile: str, uid: str) -> ProfileMetrics | TracedPoints | None:
        """Return what records the extension points of a pod's binding cycle."""
        metrics = self._profiles.get(profile)
        span = self._spans.get(uid) if self._spans else None
        return metrics if span is None else TracedPoints(metrics, span)

    # Pods

    def unscheduled_pod_added(self, pod: Pod) -> None:
        """Log an added pod without a node."""
        if self.decision_log is not None:
            self.decision_log.unscheduled_pod_added(pod)

    def scheduled_pod_added(self, pod: Pod, *, waited: bool) -> None:
        """Log a pod with a node; ``waited`` is true if it was unscheduled before."""
        if self.decision_log is not None:
            self.decision_log.scheduled_pod_added(pod, waited=waited)

    def scheduled_pods_added(self, pods: Iterable[Pod]) -> None:
        """Log pods with a node that were not unscheduled before."""
        if self.decision_log is not None:
            for pod in pods:
                self.decision_log.scheduled_pod_added(pod, waited=False)

    def left(self, pod: Pod) -> None:
        """Finish the record of a pod that was deleted or bound."""
        if self.records is not None:
            self.records.finish(pod.key, pod.uid)

    def left_gated(self, queued: QueuedPod) -> None:
        """Record that a pod was deleted while a PreEnqueue plugin gated it."""
        if self.records is None:
            return
        code, reasons = Code.UNSCHEDULABLE_AND_UNRESOLVABLE.title, queued.gating_reasons
        self.records.put(
            Decision(
                pod=queued.key,
                uid=queued.uid,
                profile=queued.profile,
                time=self._clock(),
                attempt=queued.attempts,
                outcome="gated",
                phases=Phases(),
                message=", ".join(reasons),
                verdicts=self.records.share((Verdict(queued.gating_plugin, code, reasons, 0, ()),)),
            )
        )

    def preempted(self, victim: Pod, preemptor: Pod, node: str, plugin: str) -> None:
        """Record that a pod was evicted for another one."""
        if self.records is not None:
            found = Preempted(by=preemptor.key, plugin=plugin, node=node, time=self._clock())
            self.records.preempt(victim.key, victim.uid, found, profile=victim.scheduler_name)

    # The scheduling cycle

    def begin(self, queued: QueuedPod) -> float:
        """Start observing an attempt; return the time."""
        if self.metrics is not None:
            self.metrics.begin_attempt()
        if self.decision_log is not None:
            self.decision_log.attempt(queued)
        now = perf_counter()
        self._trace.begin(now)
        return now

    def searched(self) -> None:
        """Record that the node of the attempt was found before, together with those of the other pods of a group."""
        self._trace.pre_filtered = self._trace.filtered = perf_counter()

    def placed(self, queued: QueuedPod, runner: PluginRunner, result: ScheduleResult) -> Decision | None:
        """Record the chosen node."""
        trace, now = self._trace, perf_counter()
        if self.decision_log is not None:
            self.decision_log.placed(runner, queued.pod, result, scored=trace.scored > 0)
            self.decision_log.extended(queued.pod, trace.extender_calls)
        nominated = trace.filtered == 0.0
        filtered = now if nominated else trace.filtered
        if self.tracer is not None:
            self._span = self._start_span(queued, self.tracer, now)
            if self._span is not None:
                self._spans[queued.uid] = self._span
        metrics = self.metrics
        if metrics is not None:
            metrics.algorithm.observe(now - trace.started)
            points = self._profiles[runner.profile.name]
            points.pre_filter.observe(trace.pre_filtered - trace.started)
            points.filter.observe(filtered - trace.pre_filtered)
            if trace.scored:
                points.pre_score.observe(trace.pre_scored - filtered)
                points.score.observe(trace.scored - trace.pre_scored)
        if self.records is None:
            return None
        decision = Decision(
            pod=queued.key,
            uid=queued.uid,
            profile=runner.profile.name,
            time=self._clock(),
            attempt=queued.attempts,
            outcome="placed",
            phases=Phases(
                pre_filter=trace.pre_filtered - trace.started,
                filter=filtered - trace.pre_filtered,
                score=trace.scored - filtered if trace.scored else None,
            ),
            node=result.node_name,
            evaluated=result.evaluated,
            feasible=result.feasible,
            scorers=trace.scorers,
            candidates=trace.candidates,
            was_nominated=nominated,
            verdicts=_rejections(trace.extender_calls) if trace.extender_calls else (),
            queued=queued.initial_attempt_timestamp,
            moves=queued.moves,
        )
        self.records.put(decision)
        return decision

    def start_lap(self) -> None:
        """Start timing an extension point."""
        self._lap = perf_counter()

    def lap(self, profile: str, point: str, code: Code, decision: Decision | None) -> None:
        """Record an extension point and start timing the next."""
        now = perf_counter()
        if self.metrics is not None:
            self._profiles[profile].point(point, code, now - self._lap)
        if self._span is not None:
            self._span.point(point, self._lap, now, code)
        if decision is not None:
            decision.phases.reserve = (decision.phases.reserve or 0.0) + now - self._lap
        self._lap = now

    def held(self, decision: Decision | None, waiting: WaitingPod | None) -> None:
        """Record which plugins make a pod wait at Permit."""
        if decision is not None and waiting is not None:
            decision.permit = holds(waiting)

    # Outcomes

    def waited(self, uid: str, code: Code, since: float) -> None:
        """Record that a pod waiting at Permit was allowed or rejected."""
        now = perf_counter()
        if self.metrics is not None:
            self.metrics.permit_wait(code).observe(now - since)
        if (span := self._spans.get(uid)) is not None:
            span.point("WaitOnPermit", since, now, code)

    def bound(self, queued: QueuedPod, started: float, decided: float, decision: Decision | None) -> None:
        """Record a bound pod."""
        now = perf_counter()
        if self._spans and (span := self._spans.pop(queued.uid, None)) is not None:
            span.end(SCHEDULED)
        if decision is not None:
            decision.outcome = "bound"
            decision.phases.bind = now - decided
        metrics = self.metrics
        if metrics is None:
            return
        self._profiles[queued.profile].durations[SCHEDULED].observe(now - started)
        metrics.pod_attempts.observe(queued.attempts)
        if queued.initial_attempt_timestamp is not None:
            metrics.sli(queued.attempts).observe(max(0.0, self._clock() - queued.initial_attempt_timestamp))
        metrics.after_flush += queued.was_flushed

    def failed(self, queued: QueuedPod, failure: ScheduleFailure, started: float, *, in_cycle: bool) -> None:
        """Record a failed attempt; ``in_cycle`` is true if it failed in the scheduling cycle."""
        now, profile = perf_counter(), queued.profile
        outcome = UNSCHEDULABLE if failure.status.is_rejected else ERROR
        if self.tracer is not None:
            span = self._start_span(queued, self.tracer, now) if in_cycle else self._spans.pop(queued.uid, None)
            if span is not None:
                span.end(outcome, message=failure.message)
        if self.decision_log is not None and in_cycle:
            self.decision_log.failed(queued.pod, failure)
            self.decision_log.extended(queued.pod, self._trace.extender_calls)
        if self.metrics is not None:
            self._profiles[profile].attempted(outcome, now - started)
            if in_cycle:
                self.metrics.algorithm.observe(now - started)
                self._failed_points(self._profiles[profile], failure, now)
            if failure.result.victims and queued.pod.spec.scheduling_group is None:
                self.metrics.victims.observe(len(failure.result.victims))
        if self.records is None:
            return
        decision = Decision(
            pod=queued.key,
            uid=queued.uid,
            profile=profile,
            time=self._clock(),
            attempt=queued.attempts,
            outcome=outcome,
            phases=self._failed_phases(now) if in_cycle else Phases(bind=now - started),
            message=failure.message,
            verdicts=self.records.share(verdicts(failure)),
            preemption=self._preemption(failure),
            devices=device_rejections(failure),
        )
        if decision.preemption is not None:
            decision.victims = decision.preemption.victims
        self.records.put(decision)

    def _start_span(self, queued: QueuedPod, tracer: AttemptTracer, now: float) -> AttemptSpan | None:
        """Return the trace of the current attempt with the extension points so far; None if it is not sampled."""
        trace = self._trace
        span = tracer.start(queued.pod, profile=queued.profile, attempt=queued.attempts, started=trace.started)
        if span is None:
            return None
        started = trace.started
        for name, ended in (
            ("PreFilter", trace.pre_filtered),
            ("Filter", trace.filtered),
            ("PreScore", trace.pre_scored),
            ("Score", trace.scored),
        ):
            if not ended:
                break
            span.point(name, started, ended)
            started = ended
        if trace.post_filter_started:
            span.point("PostFilter", trace.post_filter_started, now)
        return span

    def _failed_points(self, points: ProfileMetrics, failure: ScheduleFailure, now: float) -> None:
        """Record the extension points of a failed scheduling cycle."""
        trace = self._trace
        broke = not failure.status.is_rejected
        if not trace.pre_filtered:
            if broke:
                points.point("PreFilter", Code.ERROR, now - trace.started)
            return
        early = failure.statuses is not None and not trace.filtered
        code = failure.statuses.absent.code if early and failure.statuses is not None else Code.SUCCESS
        points.point("PreFilter", code, trace.pre_filtered - trace.started)
        if not early:
            until = trace.filtered or now
            points.point("Filter", Code.SUCCESS if trace.filtered else Code.ERROR, until - trace.pre_filtered)
        if failure.post_filter is not None:
            points.point("PostFilter", failure.post_filter.code, now - trace.post_filter_started)

    def _failed_phases(self, now: float) -> Phases:
        trace = self._trace
        if not trace.pre_filtered:
            return Phases(pre_filter=now - trace.started)
        phases = Phases(pre_filter=trace.pre_filtered - trace.started)
        if trace.filtered:
            phases.filter = trace.filtered - trace.pre_filtered
        if trace.post_filter_started:
            phases.post_filter = now - trace.post_filter_started
        return phases

    def _preemption(self, failure: ScheduleFailure) -> Preemption | None:
        status, result = failure.post_filter, failure.result
        if status is None:
            return None
        pods = self._cache.table.pods
        victims = tuple(pods[uid].pod.key for uid in result.victims if uid in pods)
        return Preemption(status.plugin, status.code.title, status.message, result.nominated_node or "", victims)


def holds(waiting: WaitingPod) -> tuple[Hold, ...]:
    """Return the plugins that have not yet allowed a pod that waits at Permit."""
    automatic = waiting.automatic
    return tuple(
        Hold(plugin, seconds, until, automatic.get(plugin)) for plugin, (seconds, until) in waiting.timeouts.items()
    )


def verdicts(failure: ScheduleFailure) -> tuple[Verdict, ...]:
    """Group the statuses of a failed attempt, each with the number of nodes and some names."""
    statuses = failure.statuses
    if statuses is None:
        status = failure.status
        return (Verdict(status.plugin, status.code.title, status.reasons, 0, ()),) if status.plugin else ()
    nodes = statuses.table.nodes
    return grouped(
        (status, len(rows), [nodes[row].name for row in rows[:_NAMES].tolist()]) for status, rows in statuses.groups()
    )


def device_rejections(failure: ScheduleFailure) -> tuple[DeviceRejection, ...]:
    """Return why devices of a few nodes were not allocated in a failed attempt."""
    found = failure.state.get(DEVICE_REJECTIONS)
    if found is None or failure.statuses is None:
        return ()
    rows = [rows for status, rows in failure.statuses.groups() if status.plugin == "DynamicResources"]
    return tuple(found.on(np.concatenate(rows))) if rows else ()


def _rejections(calls: tuple[ExtenderCall, ...]) -> tuple[Verdict, ...]:
    """Group the nodes that extenders rejected in a successful attempt."""
    return grouped((status, 1, [node]) for call in calls for node, status in call.rejected.items())


def grouped(verdicts: Iterable[tuple[Status, int, list[str]]], *, names_kept: int = _NAMES) -> tuple[Verdict, ...]:
    """Merge equal statuses; add up the numbers of their nodes and keep some names."""
    found: dict[tuple[str, str, tuple[str, ...]], tuple[int, list[str]]] = {}
    for status, count, names in verdicts:
        key = (status.plugin, status.code.title, status.reasons)
        before, known = found.get(key, (0, []))
        found[key] = (before + count, (known + names)[:names_kept])
    return tuple(Verdict(*key, count, tuple(names)) for key, (count, names) in found.items())
