"""The Pod view: the decision about a pod as a matrix of nodes and plugins, its timeline, and its explanation.

The matrix is what the plugins answer now. For a pod on a node, the pod is taken off its node for the evaluation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import msgspec
import numpy as np

from mooring.api.meta import parse_time
from mooring.api.pod import Pod
from mooring.api.resources import format_amount, pod_requests
from mooring.dashboard.cluster_view import owner_of
from mooring.framework.state import CycleState
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.observe.attempt_trace import Evaluation
from mooring.observe.decision_records import Decision
from mooring.scheduler.attempt_results import ScheduleFailure
from mooring.scheduler.engine import Engine
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.pod_explanation import Gangs, explain_with_pauses
from mooring.scheduler.queue import QueuedPod
from mooring.scheduler.schedule_pod import evaluate_pod
from mooring.scheduler.scoring import ScoreSteps
from mooring.unexpected_errors import shortened

#: The default and the maximum number of rows of the matrix, and of pods in a search.
_ROWS, _MAX_ROWS = 40, 200
_FOUND: Final = 50
#: After this many pods the scheduler's loop continues with other work.
_SLICE: Final = 1000
_MAX_TEXT: Final = 500
#: The score of the matrix that is the sum of all plugins.
TOTAL: Final = "(total)"
_REJECTED: Final = -1
#: Told about every pod of a cluster that is only read.
_NO_RECORDS: Final = (
    "No records of a running Mooring can be reached, because this dashboard only reads the cluster. The timeline has "
    "what the API server knows, and the matrix is what Mooring would decide now. A running Mooring shows its own "
    "decisions under /dashboard."
)

_replace = msgspec.structs.replace


class _Answers(msgspec.Struct):
    """The answers of all plugins about all nodes."""

    runner: PluginRunner
    evaluation: Evaluation
    state: CycleState
    failure: ScheduleFailure | None
    #: Scores of the feasible rows.
    scores: dict[str, ScoreSteps]


class PodView:
    """The decisions about single pods. Without a scheduling loop (``reported``), there are no records."""

    def __init__(self, engine: Engine, *, gangs: Gangs | None = None, reported: bool = False) -> None:
        self._engine = engine
        self._gangs = gangs
        self._reported = reported

    async def search(self, text: str) -> dict[str, Any]:
        """Return pods whose namespace/name contains a text, pending pods first. Other work continues in between."""
        wanted = text.strip().lower()
        pending: list[dict[str, Any]] = []
        placed: list[dict[str, Any]] = []
        for number, pod in enumerate(self._engine.cache.objects.lister(Pod).list()):
            if number % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)
            found = placed if pod.node_name else pending
            if len(found) < _FOUND and wanted in pod.key.lower():
                found.append({"pod": pod.key, "node": pod.node_name, "scheduler": pod.scheduler_name})
        return {"pods": [*pending, *placed][:_FOUND]}

    async def details(self, key: str) -> dict[str, Any]:
        """Return the explanation, the timeline and the description of a pod. Raises HttpError."""
        engine = self._engine
        pod = self._pod(key)
        found = None
        if not (self._reported and pod is not None and pod.node_name):
            found = await explain_with_pauses(engine, key, self._gangs)
        if found is None and pod is None:
            raise HttpError(404, f"there is no pod {shortened(key, 200)!r}")
        observer = engine.observer
        records = observer.records if observer is not None else None
        decision = records.get(key) if records is not None else None
        if decision is not None and pod is not None and decision.uid != pod.uid:
            decision = None
        queued = engine.queue.find(key)
        return {
            "pod": key,
            "exists": pod is not None,
            "node": pod.node_name if pod is not None else "",
            "note": _NO_RECORDS if self._reported else "",
            "description": {} if pod is None else _description(pod),
            "explanation": None if found is None else msgspec.to_builtins(found),
            "timeline": _timeline(pod, decision, queued[1] if queued is not None else None),
        }

    def matrix(self, key: str, *, offset: int = 0, limit: int = _ROWS, search: str = "") -> dict[str, Any]:
        """Return what every plugin answers about some nodes: the best nodes first, then the rejected ones."""
        pod = self._schedulable(key)
        limit = min(max(limit, 1), _MAX_ROWS)
        with self._off_its_node(pod):
            answers = self._evaluate(pod)
            table = self._engine.cache.table
            order = self._order(answers)
            if search:
                text = search.lower()
                order = [row for row in order if text in table.nodes[row].name.lower()]
            places = {int(row): place for place, row in enumerate(answers.evaluation.feasible.tolist())}
            filters = [each.name for each in answers.runner.profile.filters]
            rows = [self._row(answers, row, places.get(row), filters) for row in order[offset : offset + limit]]
        weights = {each.name: each.weight for each in answers.runner.profile.scorers}
        failure = answers.failure
        return {
            "pod": key,
            "filters": filters,
            "skipped": sorted(answers.state.skip_filter.intersection(filters)),
            "scorers": [{"name": name, "weight": weights[name]} for name in answers.scores],
            "rows": rows,
            "nodes": len(order),
            "feasible": len(answers.evaluation.feasible),
            "chosen": answers.evaluation.node_name,
            "present": pod.node_name,
            "message": "" if failure is None else shortened(failure.message, 4 * _MAX_TEXT),
            "extenders": bool(self._engine.profiles.config.extenders),
        }

    def scores(self, key: str, plugin: str) -> dict[str, Any]:
        """Return the normalized score of every node, or the total of all plugins; -1 for a rejected node."""
        pod = self._schedulable(key)
        with self._off_its_node(pod):
            answers = self._evaluate(pod)
        table = self._engine.cache.table
        values = np.full(len(table), _REJECTED, dtype=np.int64)
        feasible = answers.evaluation.feasible
        if plugin in ("", TOTAL):
            found = sum((each.weighted for each in answers.scores.values()), np.zeros(len(feasible), dtype=np.int64))
        elif plugin in answers.scores:
            found = answers.scores[plugin].normalized
        else:
            raise HttpError(400, f"plugin: {shortened(plugin, 100)!r} does not score this pod")
        values[feasible] = found
        return {
            "pod": key,
            "plugin": plugin or TOTAL,
            "plugins": [TOTAL, *answers.scores],
            "structure": table.structure,
            "highest": int(found.max()) if len(found) else 0,
            "lowest": int(found.min()) if len(found) else 0,
            "feasible": len(feasible),
            "scores": values.tolist(),
        }

    # Evaluation

    def _pod(self, key: str) -> Pod | None:
        namespace, _, name = key.partition("/")
        return self._engine.cache.objects.lister(Pod).get(name, namespace)

    def _schedulable(self, key: str) -> Pod:
        pod = self._pod(key)
        if pod is None:
            raise HttpError(404, f"there is no pod {shortened(key, 200)!r}")
        if pod.scheduler_name not in self._engine.profiles.runners:
            raise HttpError(409, f"the pod belongs to another scheduler: {shortened(pod.scheduler_name, 100)}")
        if self._engine.lock.held:
            raise HttpError(503, "Unavailable: a decision is in progress; try again")
        return pod

    @contextmanager
    def _off_its_node(self, pod: Pod) -> Iterator[None]:
        """Take a pod off its node for an evaluation. Nothing else runs in between."""
        table = self._engine.cache.table
        info = table.pods.get(pod.uid)
        if info is None:
            yield
            return
        home = info.node.name if info.node is not None else info.pod.node_name
        table.remove_pod(pod.uid)
        try:
            yield
        finally:
            table.add_pod(info.pod, home)

    def _evaluate(self, pod: Pod) -> _Answers:
        runner = self._engine.profiles.runners[pod.scheduler_name]
        spec, status = _replace(pod.spec, node_name=""), _replace(pod.status, nominated_node_name="")
        outcome, evaluation = evaluate_pod(runner, _replace(pod, spec=spec, status=status))
        failure = outcome if isinstance(outcome, ScheduleFailure) else None
        scores: dict[str, ScoreSteps] = {}
        if failure is None and len(evaluation.feasible):
            scores = runner.scoring.steps(outcome.state, pod, evaluation.feasible)
        return _Answers(runner, evaluation, outcome.state, failure, scores)

    def _order(self, answers: _Answers) -> list[int]:
        """Return the rows: feasible ones by total, then rejected ones."""
        feasible = answers.evaluation.feasible
        totals = sum((each.weighted for each in answers.scores.values()), np.zeros(len(feasible), dtype=np.int64))
        best: list[int] = feasible[np.argsort(-totals, kind="stable")].tolist()
        chosen = self._engine.cache.table.row_of.get(answers.evaluation.node_name)
        if chosen in best:
            best.remove(chosen)
            best.insert(0, chosen)
        return [*best, *self._rejected(answers)]

    def _rejected(self, answers: _Answers) -> list[int]:
        """Return the rows of rejected nodes: those that passed most filters first, then those with fewest reasons."""
        places = {each.name: place for place, each in enumerate(answers.runner.profile.filters)}
        size = len(self._engine.cache.table)
        passed, reasons = np.full(size, -1, dtype=np.int64), np.zeros(size, dtype=np.int64)
        for status, rows in answers.evaluation.statuses.groups() if answers.evaluation.statuses is not None else ():
            passed[rows], reasons[rows] = places.get(status.plugin, -1), len(status.reasons)
        order = np.lexsort((reasons, -passed))
        rejected = np.ones(size, dtype=np.bool_)
        rejected[answers.evaluation.feasible] = False
        found: list[int] = order[rejected[order]].tolist()
        return found

    def _row(self, answers: _Answers, row: int, place: int | None, filters: list[str]) -> dict[str, Any]:
        name = self._engine.cache.table.nodes[row].name
        if place is not None:
            cells = [
                [int(each.raw[place]), int(each.normalized[place]), int(each.weighted[place])]
                for each in answers.scores.values()
            ]
            return {"node": name, "feasible": True, "total": sum(cell[2] for cell in cells), "scores": cells}
        statuses = answers.evaluation.statuses
        if statuses is not None:
            status = statuses.of_row(row)
        elif not answers.evaluation.pre_filter.is_success:
            status = answers.evaluation.pre_filter
        else:
            status = answers.failure.status if answers.failure is not None else answers.evaluation.pre_filter
        return {
            "node": name,
            "feasible": False,
            "plugin": status.plugin,
            "code": status.code.title,
            "reasons": [shortened(reason, _MAX_TEXT) for reason in status.reasons],
            # PreFilter plugins reject a node before any Filter plugin runs.
            "place": filters.index(status.plugin) if status.plugin in filters else -1,
        }


def _description(pod: Pod) -> dict[str, Any]:
    return {
        "scheduler": pod.scheduler_name,
        "priority": pod.priority,
        "phase": pod.status.phase,
        "owner": owner_of(pod),
        "created": pod.metadata.creation_timestamp or "",
        "requests": {name: format_amount(name, amount) for name, amount in pod_requests(pod).items() if amount},
    }


def _timeline(pod: Pod | None, decision: Decision | None, queued: QueuedPod | None) -> list[dict[str, Any]]:
    """Return what happened to a pod, in order: created, ready, attempts, moves in the queue, bind."""
    events: list[dict[str, Any]] = []
    if pod is not None and pod.metadata.creation_timestamp:
        events.append({"time": parse_time(pod.metadata.creation_timestamp), "kind": "created", "text": "Pod created"})
    ready = (
        queued.initial_attempt_timestamp if queued is not None else decision.queued if decision is not None else None
    )
    if ready is not None:
        events.append({"time": ready, "kind": "queued", "text": "Ready to be scheduled"})
    moves = queued.moves if queued is not None and queued.moves else decision.moves if decision is not None else ()
    for move in moves:
        failed = move.event == "ScheduleAttemptFailure"
        if failed and decision is not None and decision.waits and move is moves[-1]:
            continue  # the decision tells it
        text = f"Attempt failed; now {move.place}" if failed else f"{move.event}: now {move.place}"
        events.append(
            {
                "time": move.time,
                "kind": "failed" if failed else "moved",
                "text": text,
                "plugins": list(move.plugins) if failed else [],
            }
        )
    if decision is not None and decision.attempt:
        events += _outcome(decision)
    return sorted(events, key=lambda event: event["time"])


def _outcome(decision: Decision) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = []
    if decision.waits:
        text = f"Attempt {decision.attempt}: {decision.outcome}"
        events.append(
            {"time": decision.time, "kind": "failed", "text": text, "detail": shortened(decision.message, _MAX_TEXT)}
        )
        if decision.preemption is not None and decision.preemption.victims:
            victims = ", ".join(decision.preemption.victims[:5])
            events.append({"time": decision.time, "kind": "preemption", "text": f"Chose victims: {victims}"})
        return events
    text = f"Attempt {decision.attempt}: {decision.node} chosen from {decision.feasible} feasible nodes"
    events.append({"time": decision.time, "kind": "attempt", "text": text})
    events += [
        {"time": decision.time, "kind": "permit", "text": f"Waits at Permit for {hold.plugin}"}
        for hold in decision.permit
    ]
    if decision.phases.bind is not None:
        bound = {"time": decision.time + decision.phases.bind, "kind": "bound", "text": f"Bound to {decision.node}"}
        events.append(bound)
    if decision.preempted is not None:
        text = f"Preempted by {decision.preempted.by}"
        events.append({"time": decision.preempted.time, "kind": "preempted", "text": text})
    return events
