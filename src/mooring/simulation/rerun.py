"""Rerun: decides a recorded workload again, with any configuration, and compares the outcomes.

The trace says when nodes, pods and other objects appear and disappear. Binds and evictions succeed at once, and a
decision takes no time. A pod that finished runs as long as it ran in the trace; a pod that was deleted is deleted at
the same time. Evictions in the trace are left out: whether a pod is evicted is a decision.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.config import SchedulerConfiguration
from mooring.framework.plugin import Plugin
from mooring.framework.plugin_errors import run_loop
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.simulation.bindings import Bindings
from mooring.simulation.device_claims import SimulatedClaimWriter, release_claims
from mooring.simulation.placement_metrics import Metrics, PlacementMetrics, changes
from mooring.simulation.workload_trace import TraceChange

#: Attempts at one moment, after which time goes on: plugins can requeue pods forever.
_MAX_ATTEMPTS: Final = 1_000_000
#: Waiting times that differ by less are equal: a recorded bind takes a while.
_SAME_SECONDS: Final = 1.0

_HOUR: Final = 3600.0

_replace = msgspec.structs.replace


class PodRun(msgspec.Struct, kw_only=True):
    """What happened to a pod."""

    pod: str
    arrived: float
    node: str = ""
    bound: float | None = None
    ended: float | None = None
    evicted: bool = False
    message: str = ""

    @property
    def waited(self) -> float | None:
        """The seconds from arrival to bind; None if the pod was not bound."""
        return None if self.bound is None else self.bound - self.arrived


class RerunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a run."""

    #: UID -> the pods that arrived without a node.
    pods: dict[str, PodRun]
    metrics: Metrics
    events: int
    attempts: int
    start: float
    end: float


class _Lifetime(msgspec.Struct):
    """When a pod was bound and ended in the trace."""

    arrived: float
    bound: float | None = None
    ended: float | None = None
    finished: bool = False


def recorded_outcome(trace: Iterable[TraceChange], *, prices: Mapping[str, float] | None = None) -> RerunResult:
    """Return what happened in a trace, in the form of a run."""
    found = list(trace)
    start, end = _period(found)
    metrics = PlacementMetrics(start=start, end=end, prices=prices)
    pods: dict[str, PodRun] = {}
    for change in found:
        metrics.advance(change.time)
        item = change.item
        if isinstance(item, Node):
            if change.deleted:
                metrics.remove_node(item.name)
            else:
                metrics.put_node(item)
        if not isinstance(item, Pod):
            continue
        run = pods.get(item.uid)
        if change.deleted or item.is_finished:
            metrics.remove(item.uid)
            if run is not None and run.ended is None:
                run.ended, run.evicted = change.time, change.evicted
        elif not item.node_name:
            pods.setdefault(item.uid, PodRun(pod=item.key, arrived=change.time))
        elif run is None:
            metrics.place(item, item.node_name, waited=None)
        elif run.bound is None:
            run.node, run.bound = item.node_name, change.time
            metrics.place(item, item.node_name, waited=run.waited)
    result = metrics.result(end)
    return RerunResult(pods=pods, metrics=result, events=len(found), attempts=0, start=start, end=end)


def rerun(
    trace: Iterable[TraceChange],
    config: SchedulerConfiguration,
    *,
    plugins: Mapping[str, type[Plugin]] | None = None,
    seed: int = 0,
    prices: Mapping[str, float] | None = None,
) -> RerunResult:
    """Decide the pods of a trace. The same arguments give the same outcome. Raises ProfileError."""
    return run_loop(Rerun(list(trace), config, plugins=plugins, seed=seed, prices=prices).run())


class Rerun:
    """One run."""

    def __init__(
        self,
        trace: list[TraceChange],
        config: SchedulerConfiguration,
        *,
        plugins: Mapping[str, type[Plugin]] | None = None,
        seed: int = 0,
        prices: Mapping[str, float] | None = None,
    ) -> None:
        self._trace = trace
        self._start, self._end = _period(trace)
        self._now = self._start
        writer = SimulatedClaimWriter()
        self._engine = Engine(config, plugins=plugins, clock=lambda: self._now, rng=random.Random(seed), claims=writer)
        writer.engine = self._engine
        self._bindings = Bindings(self._engine)
        self._metrics = PlacementMetrics(start=self._start, end=self._end, prices=prices)
        self._lifetimes = _lifetimes(trace)
        self._pods: dict[str, PodRun] = {}
        #: The ends of finished pods: time, uid.
        self._ends: list[tuple[float, str]] = []
        self._attempts = 0

    async def run(self) -> RerunResult:
        """Decide the whole trace."""
        for change in self._trace:
            await self._until(change.time)
            self._apply(change)
            await self._decide()
        await self._until(self._end)
        self._bindings.cancel()
        self._messages()
        return RerunResult(
            pods=self._pods,
            metrics=self._metrics.result(self._end),
            events=len(self._trace),
            attempts=self._attempts,
            start=self._start,
            end=self._end,
        )

    # Time

    async def _until(self, moment: float) -> None:
        """Let time pass: backoffs end, and pods finish."""
        queue, waiting = self._engine.queue, self._engine.profiles.waiting_pods
        while True:
            following = min(queue.next_tick, waiting.next_deadline if waiting else math.inf)
            if self._ends and self._ends[0][0] <= min(following, moment):
                time, uid = heapq.heappop(self._ends)
                self._pass(time)
                self._finish(uid)
            elif following <= moment:
                # The next representable time, so that a deadline that is now has passed.
                self._pass(max(following, math.nextafter(self._now, math.inf)))
                self._engine.tick()
            else:
                break
            await self._decide()
        self._pass(moment)

    def _pass(self, moment: float) -> None:
        if moment > self._now:
            self._now = moment
            self._metrics.advance(moment)

    # Events

    def _apply(self, change: TraceChange) -> None:
        item, engine = change.item, self._engine
        if isinstance(item, Pod):
            self._apply_pod(item, change)
            return
        if isinstance(item, Node):
            if change.deleted:
                self._metrics.remove_node(item.name)
            else:
                self._metrics.put_node(item)
        if change.deleted:
            engine.remove(item)
        else:
            engine.put(item)

    def _apply_pod(self, pod: Pod, change: TraceChange) -> None:
        engine, run = self._engine, self._pods.get(pod.uid)
        if run is None:
            if change.deleted or pod.is_finished:
                self._metrics.remove(pod.uid)
                engine.remove(pod)
            elif pod.node_name or pod.scheduler_name not in engine.profiles.runners:
                engine.put(pod)
                if pod.node_name:
                    self._metrics.place(pod, pod.node_name, waited=None)
            else:
                self._pods[pod.uid] = PodRun(pod=pod.key, arrived=change.time)
                engine.put(_arriving(pod))
        elif change.deleted or pod.is_finished:
            if not change.evicted and not self._ends_by_itself(pod.uid, run):
                self._remove(pod.uid, run)
        elif run.bound is None and run.ended is None and not pod.node_name:
            engine.put(_arriving(pod))  # a gate was removed, for example

    def _ends_by_itself(self, uid: str, run: PodRun) -> bool:
        """Return whether a pod finishes after the time that it ran in the trace."""
        return self._lifetimes[uid].finished and (run.bound is None or run.ended is None)

    def _finish(self, uid: str) -> None:
        run = self._pods[uid]
        if run.ended is None:
            self._remove(uid, run)

    def _remove(self, uid: str, run: PodRun, *, evicted: bool = False) -> None:
        if run.ended is not None:
            return
        run.ended, run.evicted = self._now, evicted
        engine = self._engine
        self._metrics.remove(uid)
        placed = engine.cache.table.pods.get(uid)
        namespace, _, name = run.pod.rpartition("/")
        found = placed.pod if placed is not None else engine.cache.objects.lister(Pod).get(name, namespace)
        if found is not None and found.uid == uid:
            engine.remove(found)
            release_claims(engine, found)

    # Decisions

    async def _decide(self) -> None:
        engine = self._engine
        for _ in range(_MAX_ATTEMPTS):
            if not engine.queue.ready:
                break
            outcome = engine.schedule_one()
            self._attempts += 1
            if isinstance(outcome, FailedAttempt):
                self._failed(outcome)
            elif isinstance(outcome, AssumedPod):
                if outcome.waits:
                    self._bindings.hold(outcome)
                else:
                    self._bound(outcome, await engine.bind(outcome))
            if self._bindings:
                async for assumed, failed in self._bindings.finished():
                    self._bound(assumed, failed)

    def _bound(self, assumed: AssumedPod, failed: FailedAttempt | None) -> None:
        if failed is not None:
            self._failed(failed)
            return
        pod = assumed.pod
        run, lifetime = self._pods[pod.uid], self._lifetimes[pod.uid]
        run.node, run.bound, run.message = assumed.node_name, self._now, ""
        self._metrics.place(pod, assumed.node_name, waited=run.waited)
        self._engine.put(pod)
        if lifetime.finished and lifetime.bound is not None and lifetime.ended is not None:
            heapq.heappush(self._ends, (self._now + lifetime.ended - lifetime.bound, pod.uid))

    def _failed(self, failed: FailedAttempt) -> None:
        run = self._pods.get(failed.queued.uid)
        if run is not None:
            run.message = failed.failure.message
        for uid in failed.victims:
            waiting = self._engine.profiles.waiting_pods.get(uid)
            if waiting is not None:
                waiting.preempt("DefaultPreemption")
                continue
            victim = self._pods.get(uid)
            if victim is not None:
                self._remove(uid, victim, evicted=True)
            elif (info := self._engine.cache.table.pods.get(uid)) is not None:
                self._metrics.remove(uid)
                self._engine.remove(info.pod)

    def _messages(self) -> None:
        for run in self._pods.values():
            if run.bound is not None:
                run.message = ""


def _period(trace: list[TraceChange]) -> tuple[float, float]:
    """Return the start and the end of a trace; an hour if everything happens at the same time, as in manifests."""
    if not trace:
        return 0.0, 0.0
    start, end = trace[0].time, trace[-1].time
    return start, end if end > start else start + _HOUR


def _arriving(pod: Pod) -> Pod:
    """Return a pod without what the recorded scheduler wrote to it."""
    if not pod.status.nominated_node_name:
        return pod
    return _replace(pod, status=_replace(pod.status, nominated_node_name=""))


def _lifetimes(trace: Iterable[TraceChange]) -> dict[str, _Lifetime]:
    found: dict[str, _Lifetime] = {}
    for change in trace:
        pod = change.item
        if not isinstance(pod, Pod):
            continue
        known = found.setdefault(pod.uid, _Lifetime(change.time))
        if change.deleted or pod.is_finished:
            if known.ended is None:
                known.ended, known.finished = change.time, pod.is_finished and known.bound is not None
        elif pod.node_name and known.bound is None:
            known.bound = change.time
    return found


# The comparison


class PodChange(msgspec.Struct, frozen=True):
    """A pod whose outcome differs. A node is empty and a waiting time None if the pod was not bound."""

    pod: str
    before: str
    after: str
    waited_before: float | None
    waited_after: float | None
    message: str = ""


class RunComparison(msgspec.Struct, frozen=True, kw_only=True):
    """The difference between two runs of the same trace."""

    before: RerunResult
    after: RerunResult
    #: Pods on other nodes; pods that wait longer, or are never bound; pods that wait shorter, or are bound only now.
    moved: list[PodChange]
    longer: list[PodChange]
    shorter: list[PodChange]
    evicted_before: int
    evicted_after: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON and YAML."""
        return {
            "pods": len(self.after.pods),
            "before": _totals(self.before),
            "after": _totals(self.after),
            "moved": msgspec.to_builtins(self.moved),
            "waitLonger": msgspec.to_builtins(self.longer),
            "waitShorter": msgspec.to_builtins(self.shorter),
            "metrics": changes(self.before.metrics, self.after.metrics),
        }


def compare_runs(before: RerunResult, after: RerunResult) -> RunComparison:
    """Return the difference between two runs of the same trace."""
    moved: list[PodChange] = []
    longer: list[PodChange] = []
    shorter: list[PodChange] = []
    for uid, now in after.pods.items():
        then = before.pods.get(uid)
        if then is None:
            continue
        change = PodChange(now.pod, then.node, now.node, then.waited, now.waited, now.message)
        if then.node and now.node and then.node != now.node:
            moved.append(change)
        one = math.inf if then.waited is None else then.waited
        other = math.inf if now.waited is None else now.waited
        if one != other and abs(other - one) > _SAME_SECONDS:
            (longer if other > one else shorter).append(change)
    return RunComparison(
        before=before,
        after=after,
        moved=moved,
        longer=longer,
        shorter=shorter,
        evicted_before=sum(run.evicted for run in before.pods.values()),
        evicted_after=sum(run.evicted for run in after.pods.values()),
    )


def _totals(result: RerunResult) -> dict[str, Any]:
    runs = result.pods.values()
    return {
        "bound": sum(run.bound is not None for run in runs),
        "neverBound": sum(run.bound is None for run in runs),
        "evicted": sum(run.evicted for run in runs),
        "metrics": msgspec.to_builtins(result.metrics),
    }


def without_random_ties(config: SchedulerConfiguration) -> SchedulerConfiguration:
    """Return a configuration that breaks ties in a fixed order, so that two runs differ only by their decisions."""
    return _replace(config, tie_break="stable")
