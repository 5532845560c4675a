"""Evaluation of single decisions: every plugin's answer about every node, and the result of preemption."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mooring.api.meta import parse_time
from mooring.api.pod import Pod
from mooring.framework.plugin_errors import run_loop
from mooring.framework.status import Code, Status
from mooring.loading import Catalog
from mooring.observe.attempt_trace import Evaluation
from mooring.releases import NEWEST, Release
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt, ScheduleFailure
from mooring.scheduler.engine import Engine
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.profile import ProfileError
from mooring.scheduler.profiles import known_kinds
from mooring.scheduler.queue import QueuedPod
from mooring.scheduler.schedule_pod import run_without_extenders, schedule_pod
from mooring.simulation.bindings import Bindings
from mooring.simulation.cases import CaseError, as_stored, config_of, elapse_of, fill, pod_of, pods_of
from mooring.simulation.device_cases import DeviceCase, RecordingClaimWriter, has_devices

__all__ = ["CaseError", "evaluate"]

_NO_PLUGINS = Catalog()
#: The duration of an attempt: long enough to order attempts, too short for any timeout.
_ATTEMPT_SECONDS: Final = 0.001
#: The time of the first attempt: later than the times in a case, except those that are to lie in the future.
_START: Final = 4_000_000_000.0
#: DynamicResources scores every node 0 without claims; the score is only shown for cases about devices.
_UNSCORED = frozenset({"DynamicResources"})
#: Plugins that search for victims on many nodes in any order: the reasons of their errors are only shown for cases
#: about devices, as in the recorded answers.
_SEARCHERS = frozenset({"DefaultPreemption", "CapacityScheduling"})
#: A reason of Coscheduling; the amounts that follow it are not shown.
_GAP = "resource gap"


def evaluate(case: Mapping[str, Any], catalog: Catalog = _NO_PLUGINS, *, release: Release = NEWEST) -> dict[str, Any]:
    """Evaluate one case as a release decides; the catalog contains additional plugins. Raises CaseError.

    A case is ``{"objects": [...], "pod": {...}, "config"?: {...}}``. Instead of ``pod``, it can have ``"pods": [...]``,
    which are tried one after another, and ``"elapse": {...}``, the seconds that pass before an attempt, by its number.
    A case about devices can have ``"before": [{"pod": {...}, "node": name}]``, pods whose claims are in flight, and
    ``"events": [...]``, for which the queueing hints are shown.
    """
    clock, several = _Clock(), "pods" in case
    given = pods_of(case) if several else [pod_of(case.get("pod"), "pod")]
    pods = [as_stored(pod, release) for pod in given]
    elapse = elapse_of(case, len(pods)) if several else {}
    config = config_of(case, catalog, release)
    writer = RecordingClaimWriter()
    try:
        engine = Engine(config, plugins=catalog.classes(), rng=random.Random(0), clock=clock, claims=writer)
    except ProfileError as error:
        raise CaseError(f"config: {error}") from None
    fill(engine.cache, case, known_kinds(catalog.classes()))
    if several:
        result = run_loop(_Attempts(engine, clock, pods).run(elapse))
    else:
        devices = DeviceCase(engine, case, writer) if has_devices(case) else None
        result = _evaluate_pod(engine, pods[0], devices)
    if config.extenders:
        result["note"] = "extenders are not called: these are the answers of the plugins alone"
    return result


def _evaluate_pod(engine: Engine, pod: Pod, devices: DeviceCase | None) -> dict[str, Any]:
    """Return the answers about one pod."""
    runner = engine.profiles.first
    if devices is not None:
        devices.place_before()
    engine.cache.objects.put(pod)  # it exists, but its nomination reserves nothing
    evaluation = Evaluation()
    outcome = schedule_pod(runner, pod, evaluation)
    failure = outcome if isinstance(outcome, ScheduleFailure) else None
    result = _shown(runner, evaluation, failure, with_devices=devices is not None)
    if devices is None:
        return result
    gate = devices.pre_enqueue(pod)
    if not gate.is_success:
        result["preEnqueue"] = _status(gate)
    if "preemption" in result and (writes := devices.writes()):
        result["preemption"]["writes"] = writes
    names = [runner.table.nodes[row].name for row in evaluation.feasible.tolist()]
    if found := devices.allocations(outcome.state, pod, names):
        result["allocations"] = found
    if not evaluation.aborted and evaluation.scores:
        best = max(zip(evaluation.totals.tolist(), names, strict=True), key=lambda pair: pair[0])[0]
        node = min(name for name, total in zip(names, evaluation.totals.tolist(), strict=True) if total == best)
        if (bound := devices.bind(outcome.state, pod, node)) is not None:
            result["bind"] = bound
    if hints := devices.hints(pod):
        result["hints"] = hints
    return result


class _Clock:
    """A clock that is set explicitly."""

    def __init__(self) -> None:
        self.now = _START

    def __call__(self) -> float:
        return self.now


class _Attempts:
    """Attempts for pods in a given order. Bindings and evictions succeed at once."""

    def __init__(self, engine: Engine, clock: _Clock, pods: list[Pod]) -> None:
        self._engine = engine
        self._cache = engine.cache
        self._clock = clock
        self._order = [pod.uid for pod in pods]
        #: The newest version of each pod.
        self._pods = {pod.uid: pod for pod in pods}
        self._bindings = Bindings(engine)
        #: The uids of evicted pods.
        self._evicted: set[str] = set()
        for pod in pods:
            self._cache.put(pod)

    async def run(self, elapse: Mapping[int, float]) -> dict[str, Any]:
        """Try the pods one after another."""
        result: dict[str, Any] = {"queueOrder": self._queue_order()}
        attempts: list[dict[str, Any]] = []
        for number, uid in enumerate(self._order):
            if number in elapse:
                attempts.append(await self._elapse(elapse[number]))
            self._clock.now += _ATTEMPT_SECONDS
            attempts.append({"pod": self._pods[uid].key, **await self._attempt(uid)})
        result["attempts"] = attempts
        result["queueOrderAfter"] = self._queue_order()
        if self._bindings:
            result["waiting"] = sorted(self._bindings.waiting)
        self._bindings.cancel()
        return result

    def _queue_order(self) -> list[str]:
        """Return the pods in the order of the queue, as if each was queued when it was created."""
        less = self._engine.profiles.first.profile.queue_sort[0].call

        def compare(a: QueuedPod, b: QueuedPod) -> int:
            return -1 if less(a, b) else int(less(b, a))

        return [queued.key for queued in sorted(map(_queued, self._pods.values()), key=functools.cmp_to_key(compare))]

    async def _elapse(self, seconds: float) -> dict[str, Any]:
        """Advance the clock."""
        until = self._clock.now + seconds
        changes = await self._finish_waiting(until)
        self._clock.now = until
        changes.pop("allowed", None)
        return {"elapsedSeconds": int(seconds) if seconds == int(seconds) else seconds, **changes}

    async def _attempt(self, uid: str) -> dict[str, Any]:
        pod, engine = self._pods[uid], self._engine
        if uid in self._cache.table.pods or uid in self._evicted:
            return {"skipped": True}
        runner = engine.profiles.runners.get(pod.scheduler_name, engine.profiles.first)
        evaluation = Evaluation()
        outcome = run_without_extenders(engine.scheduling_cycle(_queued(pod), runner, evaluation))
        failed = outcome if isinstance(outcome, FailedAttempt) and not evaluation.node_name else None
        # A scheduler does not score the nodes if the pod's nominated node is feasible.
        failure = failed.failure if failed is not None else None
        shown = _shown(runner, evaluation, failure, skips_scores=evaluation.nominated)
        if not shown["filter"]:
            del shown["filter"]
        if failed is None:
            shown |= await self._placed(outcome, pod, evaluation)
        else:
            self._evict(failed.victims)
            if failed.nominated_node is not None:
                self._nominate(pod, failed.nominated_node)
        return shown | await self._finish_waiting(self._clock.now)

    async def _placed(self, outcome: AssumedPod | FailedAttempt, pod: Pod, evaluation: Evaluation) -> dict[str, Any]:
        """Bind a pod, or hold it at Permit. Return its node and the answers of Reserve and Permit."""
        shown: dict[str, Any] = {"node": evaluation.node_name}
        if evaluation.permit is None:
            shown["reserve"] = _status(evaluation.reserve or Status())
        else:
            shown["permit"] = {key: value for key, value in _status(evaluation.permit).items() if key != "plugin"}
        if isinstance(outcome, FailedAttempt):
            state = outcome.failure.state
            self._rolled_back(pod)
        else:
            state = outcome.state
            if outcome.waits:
                shown["permit"] = {"code": Code.WAIT.title, "timeoutSeconds": self._hold(outcome)}
            else:
                self._bound(outcome, await self._engine.bind(outcome))
        if state.pods_to_activate:
            shown["activated"] = sorted(state.pods_to_activate)
        return shown

    def _hold(self, assumed: AssumedPod) -> float:
        """Hold a pod at Permit. Return the timeout."""
        waiting = self._engine.profiles.waiting_pods.get(assumed.pod.uid)
        assert waiting is not None
        seconds = waiting.seconds
        self._bindings.hold(assumed)
        return int(seconds) if seconds == int(seconds) else seconds

    def _bound(self, assumed: AssumedPod, failed: FailedAttempt | None) -> None:
        if failed is None:
            self._cache.put(assumed.pod)
        else:
            self._rolled_back(assumed.pod)

    def _rolled_back(self, pod: Pod) -> None:
        if pod.uid in self._evicted:
            self._cache.remove(pod)
        else:
            self._nominate(self._pods[pod.uid], "")

    async def _finish_waiting(self, until: float) -> dict[str, Any]:
        """Finish the waiting pods that are allowed, rejected or timed out by a time. Return the changes."""
        allowed: list[str] = []
        rejected: list[dict[str, str]] = []
        waiting = self._engine.profiles.waiting_pods
        while True:
            async for assumed, failed in self._bindings.finished():
                if failed is None:
                    allowed.append(assumed.pod.key)
                else:
                    status = failed.failure.status
                    rejected.append({"pod": assumed.pod.key, "plugin": status.plugin, "reason": status.message})
                self._bound(assumed, failed)
            if waiting.next_deadline > until:
                break
            self._clock.now = max(self._clock.now, waiting.next_deadline)
            waiting.expire(self._clock.now)
        shown: dict[str, Any] = {}
        if allowed:
            shown["allowed"] = sorted(allowed)
        if rejected:
            shown["rejected"] = sorted(rejected, key=lambda each: each["pod"])
        return shown

    def _evict(self, victims: Iterable[str]) -> None:
        for uid in victims:
            self._evicted.add(uid)
            victim = self._cache.table.pods[uid].pod
            waiting = self._engine.profiles.waiting_pods.get(uid)
            if waiting is not None:
                waiting.reject("", "preempted")
            else:
                self._cache.remove(victim)

    def _nominate(self, pod: Pod, node_name: str) -> None:
        """Nominate a pod to a node; an empty name clears the nomination."""
        if not node_name:
            self._cache.nominator.remove(pod.uid)
        status = msgspec.structs.replace(pod.status, nominated_node_name=node_name)
        self._pods[pod.uid] = changed = msgspec.structs.replace(pod, status=status)
        self._cache.put(changed)


def _queued(pod: Pod) -> QueuedPod:
    created = parse_time(pod.metadata.creation_timestamp) if pod.metadata.creation_timestamp else 0.0
    queued = QueuedPod.new(pod, created)
    queued.initial_attempt_timestamp = created
    return queued


# Answers as plain data


def _shown(
    runner: PluginRunner,
    evaluation: Evaluation,
    failure: ScheduleFailure | None,
    *,
    with_devices: bool = False,
    skips_scores: bool = False,
) -> dict[str, Any]:
    """Return the answers of all plugins in an attempt."""
    if failure is not None and failure.statuses is None and not evaluation.aborted:  # a plugin failed
        return {"preFilter": _status(failure.status), "filter": {}}
    shown: dict[str, Any] = {"preFilter": _status(evaluation.pre_filter), "filter": {}}
    if evaluation.statuses is not None:
        unscored = frozenset() if with_devices else _UNSCORED
        shown |= _nodes(runner, evaluation, unscored, skips_scores=skips_scores or evaluation.aborted)
    if evaluation.aborted:
        return {"aborted": True, **shown}
    if failure is not None:
        shown["preemption"] = _preemption(runner, failure, shows_errors=with_devices)
    return shown


def _nodes(
    runner: PluginRunner, evaluation: Evaluation, unscored: frozenset[str], *, skips_scores: bool
) -> dict[str, Any]:
    assert evaluation.statuses is not None
    nodes = runner.table.nodes
    shown: dict[str, Any] = {}
    if evaluation.pre_filter_nodes is not None:
        shown["preFilterNodes"] = sorted(evaluation.pre_filter_nodes)
    statuses = {row: status for status, rows in evaluation.statuses.groups() for row in rows.tolist()}
    rows = evaluation.feasible.tolist()
    feasible = set(rows)
    shown["filter"] = {
        nodes[row].name: _status(Status() if row in feasible else statuses[row]) for row in evaluation.examined
    }
    if rows and not skips_scores:
        shown["scores"] = {
            nodes[row].name: {
                plugin: int(scores[place]) for plugin, scores in evaluation.scores.items() if plugin not in unscored
            }
            for place, row in enumerate(rows)
        }
        shown["totals"] = {nodes[row].name: total for row, total in zip(rows, evaluation.totals.tolist(), strict=True)}
    return shown


def _preemption(runner: PluginRunner, failure: ScheduleFailure, *, shows_errors: bool) -> dict[str, Any]:
    status, result = failure.post_filter, failure.result
    shown: dict[str, Any] = {"status": _status(status or Status.unschedulable())}
    if status is not None and status.is_success:
        shown["status"] = _status(status)
        shown["nominatedNode"] = result.nominated_node
        if result.victims:
            shown["victims"] = sorted(runner.table.pods[uid].pod.key for uid in result.victims)
    elif status is not None and status.code is Code.ERROR and status.plugin in _SEARCHERS and not shows_errors:
        shown["status"]["reasons"] = []
    return shown


def _status(status: Status) -> dict[str, Any]:
    reasons = [_GAP if reason.startswith(_GAP) else reason for reason in status.reasons]
    shown: dict[str, Any] = {"code": status.code.title, "reasons": sorted(reasons)}
    if status.plugin and not status.is_success:
        shown["plugin"] = status.plugin
    return shown
