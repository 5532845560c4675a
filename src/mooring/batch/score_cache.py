"""Kept answers: what callbacks said of the nodes for one kind of task, for the next task of that kind.

Hot path. A gang of a thousand equal pods is not a thousand looks at all nodes: after a placement only one row has
changed, and only that row is asked about again. This holds as long as all callbacks declare what their answer depends
on (``depends``), and it never changes a decision; a test compares with answers made afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from mooring.batch.node import NodeInfo
from mooring.batch.nodes import SessionNodes
from mooring.batch.session import UNKEEPABLE, Session
from mooring.batch.task import TaskInfo

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

#: If so many rows changed, all are asked again.
_MANY: Final = 512


class Kept:
    """For one kind of task: which nodes have room now and pass, and their scores."""

    __slots__ = ("_position", "_rank")

    def __init__(self) -> None:
        self._position = -1
        #: The score of each node, minus infinity where it will not do or has no room now.
        self._rank: Floats = np.zeros(0)

    def best(self, session: Session, task: TaskInfo) -> int | None:
        """The row of the best node with room now, lots drawn among equals; None if there is none."""
        self._refresh(session, task)
        rank = self._rank
        place = int(rank.argmax())
        top = rank.item(place)
        if top == -np.inf:
            return None
        (tied,) = (rank == top).nonzero()
        return place if len(tied) == 1 else int(tied[int(session.random.random() * len(tied))])

    def _refresh(self, session: Session, task: TaskInfo) -> None:
        log = session.changed_rows
        if self._position >= 0:
            changed = sorted(set(log[self._position :]))
            self._position = len(log)
            if not changed:
                return
            if len(changed) < _MANY:
                rows = np.array(changed, dtype=np.intp)
                self._rank[rows] = _ranked(session, task, rows)
                return
        self._position = len(log)
        self._rank = _ranked(session, task, None)


def _ranked(session: Session, task: TaskInfo, rows: Rows | None) -> Floats:
    nodes = SessionNodes(session, rows)
    ok = session.ledger.fits(task.request, session.ledger.idle, rows)
    ok &= session.ledger.fits(task.request, session.ledger.future, rows)
    for predicate in session.all("predicate"):
        answer = predicate.function(task, nodes)
        if answer is not None:
            ok &= ~answer.failed if hasattr(answer, "failed") else answer.codes == 0
    scores = session.total_scores(task, nodes)
    if scores is None:  # a scorer that declares what it depends on failed: nobody is chosen this way
        return np.full(len(nodes), -np.inf)
    return np.where(ok, scores, -np.inf)


class KeptAnswers:
    """The kept answers of one session, by kind of task."""

    def __init__(self, session: Session, least_nodes: int) -> None:
        self._session = session
        self._kept: dict[Hashable, Kept] = {}
        callbacks = [*session.all("predicate"), *session.all("node_order"), *session.all("batch_node_order")]
        whole = all(callback.columns and callback.depends is not None for callback in callbacks)
        self._enabled = whole and not session.all("best_node") and len(session.node_list) >= least_nodes
        self._keys: list[Callable[[TaskInfo], Any]] = [each.depends for each in callbacks] if self._enabled else []

    def best(self, task: TaskInfo) -> NodeInfo | None:
        """The best node with room now, if answers can be kept for the task; ``pre_predicate`` must have run for it."""
        if not self._enabled:
            return None
        session = self._session
        key: list[Hashable] = [session.table.template(task.pod)]
        for depends in self._keys:
            part = depends(task)
            if part is UNKEEPABLE:
                return None
            key.append(part)
        kept = self._kept.get(tuple(key))
        if kept is None:
            kept = self._kept[tuple(key)] = Kept()
        row = kept.best(session, task)
        return None if row is None else session.node_list[row]
