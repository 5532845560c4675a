"""Looking for nodes: which will do for a task, why the others will not, and which is best.

Hot path. Everything is asked about all nodes in columns; a callback that answers node by node is asked about the nodes
that are still left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.batch.callbacks import first_error
from mooring.batch.fit_errors import SEVERE, Everywhere, FitErrors, Stage, Verdict
from mooring.batch.resource import Resource
from mooring.batch.session import NodeCallback, Session
from mooring.batch.session_nodes import SessionNode, SessionNodes
from mooring.batch.task import TaskInfo
from mooring.framework.status import Code, Status
from mooring.framework.verdicts import Verdicts

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
#: What a node must satisfy: "allocate" room (future room included) and all predicates, "backfill" the predicates,
#: "evict" the predicates as far as evictions are no remedy, "simulate" room and the same.
Mode = Literal["allocate", "backfill", "evict", "simulate"]


class Lacking:
    """Nodes without room, and of what they have too little first."""

    def __init__(self, session: Session, request: Resource, failed: Mask) -> None:
        self.failed = failed
        rows = np.flatnonzero(failed)
        self._names = dict(zip(rows.tolist(), _first_lacking(session, request, rows), strict=True))

    def verdict(self, row: int) -> Verdict:
        """What there is too little of."""
        return (_insufficient(self._names[row]),)

    def unresolvable(self) -> Mask:
        """None: evicting somebody helps."""
        return np.zeros(len(self.failed), dtype=np.bool_)


def _first_lacking(session: Session, request: Resource, rows: Rows) -> list[str]:
    """For rows without room, the first resource that is lacking: CPU, memory, then the others by name."""
    amounts = session.amounts
    names = ["cpu", "memory", *sorted(request.scalars or ())]
    found: npt.NDArray[np.int64] = np.full(len(rows), -1)
    for number, name in reversed(list(enumerate(names))):
        short = ~(amounts.future[amounts.slots[name], rows] > request.get(name) - 0.1)
        found[short] = number
    return [names[number] for number in found.tolist()]


_INSUFFICIENT: dict[str, Status] = {}


def _insufficient(resource: str) -> Status:
    status = _INSUFFICIENT.get(resource)
    if status is None:
        status = _INSUFFICIENT[resource] = Status.unschedulable(f"Insufficient {resource}")
    return status


class Said:
    """Nodes that a predicate turned down, by row."""

    def __init__(self, verdicts: dict[int, Verdict], count: int) -> None:
        self._verdicts = verdicts
        self.failed: Mask = np.zeros(count, dtype=np.bool_)
        self.failed[list(verdicts)] = True
        self.severe: Mask = np.zeros(count, dtype=np.bool_)
        self._hopeless: Mask = np.zeros(count, dtype=np.bool_)
        for row, verdict in verdicts.items():
            self.severe[row] = any(status.code in SEVERE for status in verdict)
            self._hopeless[row] = any(status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE for status in verdict)

    def verdict(self, row: int) -> Verdict:
        """What was said."""
        return self._verdicts[row]

    def unresolvable(self) -> Mask:
        """Where no eviction helps."""
        return self._hopeless


class Judged:
    """Nodes that a predicate in column form turned down."""

    def __init__(self, verdicts: Verdicts) -> None:
        self._verdicts = verdicts
        self.failed: Mask = np.asarray(verdicts.codes != 0)
        self.severe: Mask = np.zeros(len(self.failed), dtype=np.bool_)
        self._hopeless: Mask = np.zeros(len(self.failed), dtype=np.bool_)
        for code in np.unique(verdicts.codes[self.failed]).tolist():
            status = verdicts.status(code)
            where = verdicts.codes == code
            if status.code in SEVERE:
                self.severe |= where
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                self._hopeless |= where

    def verdict(self, row: int) -> Verdict:
        """What the code of a row means."""
        return (self._verdicts.status(int(self._verdicts.codes[row])),)

    def unresolvable(self) -> Mask:
        """Where no eviction helps."""
        return self._hopeless


class Narrowed:
    """Part of what another stage said."""

    def __init__(self, stage: Stage, failed: Mask) -> None:
        self._stage = stage
        self.failed = failed

    def verdict(self, row: int) -> Verdict:
        """What was said."""
        return self._stage.verdict(row)

    def unresolvable(self) -> Mask:
        """Where no eviction helps."""
        mask: Mask = self._stage.unresolvable() & self.failed
        return mask


class ErrorCache:
    """Which nodes failed for tasks of a role before; they are not asked again.

    As in Volcano, that holds also where the node would do by now. Tasks without a role are always asked about.
    """

    def __init__(self, *, enabled: bool) -> None:
        self._enabled = enabled
        self._stages: dict[tuple[str, str], list[Stage]] = {}

    def known(self, task: TaskInfo) -> list[Stage]:
        """What earlier searches found."""
        return self._stages.get((task.job, task.role), []) if self._enabled and task.role else []

    def keep(self, task: TaskInfo, stages: Sequence[Stage]) -> None:
        """Remember what a search found."""
        if self._enabled and task.role:
            self._stages.setdefault((task.job, task.role), []).extend(stages)


class Found(NamedTuple):
    """The nodes that will do, and what was said of the others."""

    rows: Rows
    errors: FitErrors


def pre_predicate(session: Session, task: TaskInfo) -> str:
    """Let plugins prepare for a task; the first error, if any."""
    return first_error(session.all("pre_predicate"), task)


def nowhere(session: Session, error: str) -> FitErrors:
    """The same error for all nodes."""
    everywhere = np.ones(len(session.node_list), dtype=np.bool_)
    return FitErrors([Everywhere(everywhere, (Status.error(error),))])


def find_nodes(session: Session, task: TaskInfo, mode: Mode, cache: ErrorCache, allowed: Mask | None = None) -> Found:
    """The nodes (among the allowed ones) that will do for a task; ``pre_predicate`` must have run for it."""
    count = len(session.node_list)
    alive: Mask = np.ones(count, dtype=np.bool_) if allowed is None else allowed.copy()
    stages: list[Stage] = []
    for stage in cache.known(task):
        failed = stage.failed & alive
        if failed.any():
            stages.append(Narrowed(stage, failed))
            alive &= ~failed
    known = len(stages)
    if mode in ("allocate", "simulate"):
        room = session.amounts.fits(task.request, session.amounts.future)
        failed = alive & ~room
        if failed.any():
            stages.append(Lacking(session, task.request, failed))
            alive &= room
    passed = _ask_predicates(session, task, mode, alive, stages)
    cache.keep(task, stages[known:])
    return Found(np.flatnonzero(passed), FitErrors(stages))


def _ask_predicates(session: Session, task: TaskInfo, mode: Mode, alive: Mask, stages: list[Stage]) -> Mask:
    """Ask the predicates in order about the nodes that are left; each node is judged by the first that fails it."""
    curable = mode in ("evict", "simulate")
    excused: Mask | None = None
    for callback in session.all("predicate"):
        outcome = ask_predicate(session, task, callback, alive)
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
        stages.append(Narrowed(outcome, failed))
    return alive if excused is None else alive | excused


def ask_predicate(session: Session, task: TaskInfo, callback: NodeCallback, alive: Mask) -> Any:
    """What one predicate says of the nodes that are left; None if nothing."""
    if not callback.columns:
        return _ask_each(session, task, callback.function, alive)
    answer = callback.function(task, SessionNodes(session))
    if answer is None or not isinstance(answer, Verdicts):
        return answer
    return Judged(answer)


def _ask_each(session: Session, task: TaskInfo, function: Callable[..., Any], alive: Mask) -> Said | None:
    verdicts: dict[int, Verdict] = {}
    nodes = session.node_list
    for row in np.flatnonzero(alive).tolist():
        answer = function(task, nodes[row])
        if answer is None:
            continue
        status = Status.unschedulable(answer) if isinstance(answer, str) else answer
        if not status.is_success:
            verdicts[row] = (status,)
    return Said(verdicts, len(nodes)) if verdicts else None


def score_nodes(session: Session, task: TaskInfo, rows: Rows) -> Floats | None:
    """The total score of some nodes; None if a plugin that scores them together failed."""
    return session.total_scores(task, SessionNodes(session, rows))


def best_node(session: Session, task: TaskInfo, rows: Rows) -> SessionNode | None:
    """The node to take; several equally good ones draw lots. A single candidate is taken unseen."""
    nodes = session.node_list
    if len(rows) == 1:
        return nodes[int(rows[0])]
    scores = score_nodes(session, task, rows)
    if scores is None or not len(rows):
        return None
    choosers = session.all("best_node")
    if choosers:
        by_score: dict[float, list[SessionNode]] = {}
        for row, score in zip(rows.tolist(), scores.tolist(), strict=True):
            by_score.setdefault(score, []).append(nodes[row])
        for function in choosers:
            chosen: SessionNode | None = function(task, by_score)
            if chosen is not None:
                return chosen
    best = int(scores.argmax())
    tied = np.flatnonzero(scores == scores[best])
    place = best if len(tied) == 1 else int(tied[int(session.random.random() * len(tied))])
    return nodes[int(rows[place])]


def best_with_room(session: Session, task: TaskInfo, rows: Rows) -> SessionNode | None:
    """The best node with room now; where there is none, the best with room later."""
    now = session.amounts.fits(task.request, session.amounts.idle, rows)
    for group in (rows[now], rows[~now]):
        if len(group):
            node = best_node(session, task, group)
            if node is not None:
                return node
    return None
