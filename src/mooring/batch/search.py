"""The search for the feasible nodes of a task, the reasons why others are infeasible, and the best node.

Hot path. Callbacks evaluate all nodes in columns; a per-node callback evaluates only the nodes that are still feasible.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.batch.callbacks import first_error
from mooring.batch.fit_errors import SEVERE, Everywhere, FitErrors, Stage, Verdict
from mooring.batch.rankings import Parts
from mooring.batch.registrations import NodeCallback
from mooring.batch.resource import Resource
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode, SessionNodes
from mooring.batch.task import TaskInfo
from mooring.checkpoints import checkpoint
from mooring.columns.distinct import distinct
from mooring.framework.status import Code, Status
from mooring.framework.verdicts import Verdicts

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
#: The requirements on a node. "allocate": room (including future room) and all predicates. "backfill": all predicates.
#: "evict": the predicates that evictions cannot resolve. "simulate": room and those predicates.
Mode = Literal["allocate", "backfill", "evict", "simulate"]


class InsufficientRoom:
    """Nodes without room, and the first resource that each lacks."""

    def __init__(self, session: Session, request: Resource, failed: Mask) -> None:
        self.failed = failed
        rows = np.flatnonzero(failed)
        self._names = ["cpu", "memory", *sorted(request.scalars or ())]
        self._lacking: npt.NDArray[np.int64] = np.full(len(failed), -1)
        self._lacking[rows] = _first_lacking(session, request, self._names, rows)

    def verdict(self, row: int) -> Verdict:
        """Return which resource is insufficient."""
        return (_insufficient(self._names[self._lacking[row]]),)

    def kinds(self, rows: Rows) -> npt.NDArray[np.int64]:
        """Return the numbers of the resources."""
        return self._lacking[rows]

    def unresolvable(self) -> Mask:
        """Return no rows: evictions can help on all of them."""
        return np.zeros(len(self.failed), dtype=np.bool_)


def _first_lacking(session: Session, request: Resource, names: list[str], rows: Rows) -> npt.NDArray[np.int64]:
    """Return the first of the resources that rows without room lack, as its position in ``names``."""
    amounts = session.amounts
    found: npt.NDArray[np.int64] = np.full(len(rows), -1)
    for number, name in reversed(list(enumerate(names))):
        short = ~(amounts.future[amounts.slots[name], rows] > request.get(name) - 0.1)
        found[short] = number
    return found


_INSUFFICIENT: dict[str, Status] = {}


def _insufficient(resource: str) -> Status:
    status = _INSUFFICIENT.get(resource)
    if status is None:
        status = _INSUFFICIENT[resource] = Status.unschedulable(f"Insufficient {resource}")
    return status


class RejectedByRow:
    """Nodes that a per-node predicate rejected."""

    def __init__(self, verdicts: dict[int, Verdict], count: int) -> None:
        self._verdicts = verdicts
        self.failed: Mask = np.zeros(count, dtype=np.bool_)
        self.failed[list(verdicts)] = True
        self.severe: Mask = np.zeros(count, dtype=np.bool_)
        self._unresolvable: Mask = np.zeros(count, dtype=np.bool_)
        for row, verdict in verdicts.items():
            self.severe[row] = any(status.code in SEVERE for status in verdict)
            self._unresolvable[row] = any(status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for status in verdict)

    def verdict(self, row: int) -> Verdict:
        """Return the row's statuses."""
        return self._verdicts[row]

    def kinds(self, rows: Rows) -> Rows:
        """Return the rows: each may have its own reasons."""
        return rows

    def unresolvable(self) -> Mask:
        """Return the rows on which no eviction can help."""
        return self._unresolvable


class RejectedByColumn:
    """Nodes that a predicate in column form rejected."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self.failed: Mask = np.asarray(verdicts.codes != 0)
        self.severe: Mask = np.zeros(len(self.failed), dtype=np.bool_)
        self._unresolvable: Mask = np.zeros(len(self.failed), dtype=np.bool_)
        for code in distinct(verdicts.codes[self.failed]):
            status = verdicts.status(code)
            where = verdicts.codes == code
            if status.code in SEVERE:
                self.severe |= where
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                self._unresolvable |= where

    def verdict(self, row: int) -> Verdict:
        """Return the status of a row's code."""
        return (self._verdicts.status(int(self._verdicts.codes[row])),)

    def kinds(self, rows: Rows) -> npt.NDArray[np.integer]:
        """Return the codes."""
        return self._verdicts.codes[rows]

    def unresolvable(self) -> Mask:
        """Return the rows on which no eviction can help."""
        return self._unresolvable


class PartialStage:
    """Some of the rows of another stage."""

    def __init__(self, stage: Stage, failed: Mask) -> None:
        self._stage = stage
        self.failed = failed

    def verdict(self, row: int) -> Verdict:
        """Return the row's statuses."""
        return self._stage.verdict(row)

    def kinds(self, rows: Rows) -> npt.NDArray[np.integer]:
        """Return the numbers of the other stage."""
        return self._stage.kinds(rows)

    def unresolvable(self) -> Mask:
        """Return the rows on which no eviction can help."""
        mask: Mask = self._stage.unresolvable() & self.failed
        return mask


class ErrorCache:
    """Nodes that failed for earlier tasks of a role; they are not evaluated again.

    As in Volcano, this applies even if a node is feasible by now. Tasks without a role are always evaluated.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._stages: dict[tuple[str, str], list[Stage]] = {}

    def known(self, task: TaskInfo) -> list[Stage]:
        """Return the stages of earlier searches."""
        return self._stages.get((task.job, task.role), []) if self._enabled and task.role else []

    def keep(self, task: TaskInfo, stages: Sequence[Stage]) -> None:
        """Cache the stages of a search."""
        if self._enabled and task.role:
            self._stages.setdefault((task.job, task.role), []).extend(stages)


class Found(NamedTuple):
    """The rows of feasible nodes, and why others are infeasible."""

    rows: Rows
    errors: FitErrors


def pre_predicate(session: Session, task: TaskInfo) -> str:
    """Call the pre_predicate callbacks for a task. Return the first error, or "" on success."""
    checkpoint()
    return first_error(session.all("pre_predicate"), task)


def nowhere(session: Session, error: str, allowed: Mask | None = None) -> FitErrors:
    """Return the same error for all (allowed) nodes."""
    return FitErrors([Everywhere(_allowed(session, allowed), (Status.error(error),))])


def _allowed(session: Session, allowed: Mask | None) -> Mask:
    """Return a new mask of the allowed nodes that the session considers."""
    mask: Mask = np.ones(len(session.node_list), dtype=np.bool_) if allowed is None else allowed.copy()
    if session.amounts.selected is not None:
        mask &= session.amounts.selected
    return mask


def find_nodes(session: Session, task: TaskInfo, mode: Mode, cache: ErrorCache, allowed: Mask | None = None) -> Found:
    """Return the feasible nodes among the allowed ones; ``pre_predicate`` must have run for the task."""
    alive = _allowed(session, allowed)
    stages: list[Stage] = []
    for stage in cache.known(task):
        failed = stage.failed & alive
        if failed.any():
            stages.append(PartialStage(stage, failed))
            alive &= ~failed
    known = len(stages)
    if mode in ("allocate", "simulate"):
        room = session.amounts.fits(task.request, session.amounts.future)
        failed = alive & ~room
        if failed.any():
            stages.append(InsufficientRoom(session, task.request, failed))
            alive &= room
    with _Measured(session, "Predicate"):
        passed = _run_predicates(session, task, mode, alive, stages)
    cache.keep(task, stages[known:])
    return Found(np.flatnonzero(passed), FitErrors(stages))


class _Measured:
    """Reports the duration of a stage, if the session measures durations."""

    __slots__ = ("_report", "_stage", "_started")

    def __init__(self, session: Session, stage: str) -> None:
        self._report = session.on_stage
        self._stage = stage
        self._started = 0.0

    def __enter__(self) -> None:
        if self._report is not None:
            self._started = perf_counter()

    def __exit__(self, *_: object) -> None:
        if self._report is not None:
            self._report(self._stage, perf_counter() - self._started)


def _run_predicates(session: Session, task: TaskInfo, mode: Mode, alive: Mask, stages: list[Stage]) -> Mask:
    """Run the predicates in order on the nodes that are left; the first one that fails a node decides."""
    curable = mode in ("evict", "simulate")
    excused: Mask | None = None
    for callback in session.all("predicate"):
        outcome = run_predicate(session, task, callback, alive)
        if outcome is None:
            continue
        failed = outcome.failed & alive
        if not failed.any():
            continue
        alive = alive & ~failed
        if curable:
            mild = failed & ~outcome.severe
            excused = mild if excused is None else excused | mild
            failed = failed & outcome.severe
            if not failed.any():
                continue
        stages.append(PartialStage(outcome, failed))
    return alive if excused is None else alive | excused


def run_predicate(session: Session, task: TaskInfo, callback: NodeCallback, alive: Mask) -> Any:
    """Run one predicate on the nodes that are left; None if it has no opinion."""
    if not callback.columns:
        return _run_each(session, task, callback.function, alive)
    answer = callback.function(task, SessionNodes(session))
    if answer is None or not isinstance(answer, Verdicts):
        return answer
    return RejectedByColumn(answer)


def _run_each(session: Session, task: TaskInfo, function: Callable[..., Any], alive: Mask) -> RejectedByRow | None:
    verdicts: dict[int, Verdict] = {}
    nodes = session.node_list
    for row in np.flatnonzero(alive).tolist():
        answer = function(task, nodes[row])
        if answer is None:
            continue
        status = Status.unschedulable(answer) if isinstance(answer, str) else answer
        if not status.is_success:
            verdicts[row] = (status,)
    return RejectedByRow(verdicts, len(nodes)) if verdicts else None


def score_nodes(session: Session, task: TaskInfo, rows: Rows) -> Floats | None:
    """Return the total score of nodes; None if a batch_node_order callback failed."""
    return session.total_scores(task, SessionNodes(session, rows))


def best_node(session: Session, task: TaskInfo, rows: Rows) -> SessionNode | None:
    """Return the best node, at random among equals. A single candidate is not scored."""
    nodes, rankings = session.node_list, session.rankings
    if len(rows) == 1:
        if rankings is not None:
            rankings.only(task.uid)
        return nodes[int(rows[0])]
    parts: Parts | None = None if rankings is None else {}
    with _Measured(session, "Scoring"):
        scores = session.total_scores(task, SessionNodes(session, rows), parts)
    if scores is None or not len(rows):
        return None
    place = _choose(session, task, rows, scores)
    if rankings is not None:
        rankings.put_scores(task.uid, rows, scores, parts or {}, place)
    return nodes[int(rows[place])]


def _choose(session: Session, task: TaskInfo, rows: Rows, scores: Floats) -> int:
    """Return the position of the node that a plugin chooses, or else of the best one."""
    nodes = session.node_list
    choosers = session.all("best_node")
    if choosers:
        by_score: dict[float, list[SessionNode]] = {}
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
            by_score.setdefault(score, []).append(nodes[row])
        for function in choosers:
            chosen: SessionNode | None = function(task, by_score)
            if chosen is not None:
                (found,) = (rows == chosen.row).nonzero()
                if len(found):  # otherwise it is not a candidate
                    return int(found[0])
    best = int(scores.argmax())
    tied = np.flatnonzero(scores == scores[best])
    return best if len(tied) == 1 else int(tied[int(session.random.random() * len(tied))])


def best_with_room(session: Session, task: TaskInfo, rows: Rows) -> SessionNode | None:
    """Return the best node with room now, else the best with room in the future."""
    now = session.amounts.fits(task.request, session.amounts.idle, rows)
    for group in (rows[now], rows[~now]):
        if len(group):
            node = best_node(session, task, group)
            if node is not None:
                return node
    return None
