"""Scores of nodes, cached per kind of task.

Hot path. After a task of a gang is placed, only one row has changed, and only that row is evaluated for the next task
of the same kind. Tasks are of one kind if they have the same template and the callbacks' ``depends`` return equal
values for them, so all predicates and scorers of a session must declare ``depends``. The cache never changes a
decision: a test compares its scores with uncached ones.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mooring.batch.rankings import BEST, Parts, candidate
from mooring.batch.registrations import UNCACHEABLE
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode, SessionNodes
from mooring.batch.task import TaskInfo
from mooring.columns.answer_cache import AnswerCache, AnswerColumn, CachedAnswers
from mooring.columns.row_cursor import RowCursor
from mooring.observe.decision_records import Candidate, best_places

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]

#: With fewer nodes, all are evaluated for every task: that is cheap, and produces all messages.
LEAST_NODES: Final = 64


class TaskScores(CachedAnswers):
    """The score of each node for one kind of task; minus infinity for infeasible nodes and for nodes without room."""

    __slots__ = ("_candidates", "_cursor", "_live", "_parts", "_scorers", "_scores", "_session")

    def __init__(self, session: Session, key: Hashable) -> None:
        super().__init__(key)
        self._session = session
        self._live = [each for each in session.all("batch_node_order") if each.live]
        self._cursor = RowCursor(session.table, session.changes)
        self._scores = AnswerColumn()
        #: The scores by row and plugin, if the session keeps rankings.
        self._parts: Floats = np.zeros((0, 0))
        self._scorers: tuple[str, ...] = ()
        #: Row -> its candidate in rankings, until its scores change.
        self._candidates: dict[int, Candidate] = {}

    def best(self, task: TaskInfo, within: Rows | None = None) -> int | None:
        """Return the row of the best node (of some) with room now, at random among equals; None if there is none."""
        session = self._session
        self._scores.refresh(self._cursor, len(session.node_list), lambda rows: self._evaluate(task, rows))
        scores: Floats = self._scores.values
        if within is not None or self._live:
            scores = self._adjusted(task, scores, within)
        best = int(scores.argmax())
        top = scores.item(best)
        if top == -np.inf:
            return None
        (tied,) = (scores == top).nonzero()
        if len(tied) > 1:
            best = int(tied[int(session.random.random() * len(tied))])
        if session.rankings is not None:
            candidates = [self._candidate(row, scores) for row in best_places(scores, best, BEST)]
            feasible = int(np.count_nonzero(scores != -np.inf))
            session.rankings.put(task.uid, feasible, self._scorers, candidates)
        return best

    def _adjusted(self, task: TaskInfo, cached: Floats, within: Rows | None) -> Floats:
        """Return the scores of some nodes, with those that are not cached."""
        rows = np.flatnonzero(cached != -np.inf) if within is None else within[cached[within] != -np.inf]
        scores = np.full(len(cached), -np.inf)
        scores[rows] = cached[rows]
        if len(rows):
            for callback in self._live:
                scores[rows] += callback.function(task, SessionNodes(self._session, rows))
        return scores

    def _candidate(self, row: int, scores: Floats) -> Candidate:
        found = self._candidates.get(row)
        if found is None:
            name = self._session.node_list[row].name
            found = self._candidates[row] = candidate(name, scores.item(row), self._parts[row].tolist())
        return found

    def _evaluate(self, task: TaskInfo, changed: list[int] | None) -> Floats:
        session = self._session
        if session.rankings is None:
            return _scores(session, task, changed)
        parts: Parts = {}
        scores = _scores(session, task, changed, parts)
        if changed is None or len(parts) > len(self._scorers):
            self._scorers = tuple(parts)
            self._parts = np.zeros((len(session.node_list), len(parts)))
            self._candidates.clear()
        rows: Any = slice(None) if changed is None else changed
        if changed is not None and len(changed) == 1:  # faster than indexing with a list
            rows = slice(changed[0], changed[0] + 1)
        for column, part in enumerate(parts.values()):
            self._parts[rows, column] = part
        for row in changed or ():
            self._candidates.pop(row, None)
        return scores


def _scores(session: Session, task: TaskInfo, changed: list[int] | None, parts: Parts | None = None) -> Floats:
    amounts, request = session.amounts, task.request
    rows = None if changed is None else np.array(changed, dtype=np.intp)
    nodes = SessionNodes(session, rows)
    if changed is not None and len(changed) == 1:  # the usual case: the node of the last task
        (row,) = changed
        room = amounts.fits_row(request, amounts.idle, row) and amounts.fits_row(request, amounts.future, row)
        if not room:
            return np.array([-np.inf])
        ok = np.array([True])
    else:
        ok = amounts.fits(request, amounts.idle, rows)
        ok &= amounts.fits(request, amounts.future, rows)
    for predicate in session.all("predicate"):
        answer = predicate.function(task, nodes)
        if answer is not None:
            ok &= ~answer.failed if hasattr(answer, "failed") else answer.codes == 0
    scores = session.total_scores(task, nodes, parts, live=False)
    if scores is None:  # a scorer failed: the cache chooses no node
        return np.full(len(nodes), -np.inf)
    return np.where(ok, scores, -np.inf)


class ScoreCache:
    """The cached scores of one session, by kind of task."""

    def __init__(self, session: Session) -> None:
        self._session = session
        count = len(session.node_list)
        self._answers: AnswerCache[TaskScores] = AnswerCache(lambda key: TaskScores(session, key), lambda: count)
        callbacks = [*session.all("predicate"), *session.all("node_order"), *session.all("batch_node_order")]
        declared = all(callback.columns and callback.depends is not None for callback in callbacks)
        self._enabled = declared and not session.all("best_node") and count >= LEAST_NODES
        self._keys: list[Callable[[TaskInfo], Any]] = [each.depends for each in callbacks] if self._enabled else []

    def best(self, task: TaskInfo, within: Rows | None = None) -> SessionNode | None:
        """Return the best node (of some rows) with room now, if scores can be cached.

        ``pre_predicate`` must have run for the task.
        """
        if not self._enabled:
            return None
        session = self._session
        key: list[Hashable] = [session.table.template(task.pod)]
        for depends in self._keys:
            part = depends(task)
            if part is UNCACHEABLE:
                return None
            key.append(part)
        row = self._answers.of(tuple(key)).best(task, within)
        return None if row is None else session.node_list[row]
