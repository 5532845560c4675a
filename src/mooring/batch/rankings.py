"""Rankings: the best nodes of each task with the plugins' scores, for decision records.

Hot path: every placed task gets a ranking while records are enabled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.batch.session_nodes import SessionNode
from mooring.observe.decision_records import RUNNERS_UP, Candidate, best_places

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.intp]
#: The number of candidates in a ranking.
BEST: Final = 1 + RUNNERS_UP
#: Plugin -> its scores of the nodes that were evaluated; a number where they are all the same.
Parts = dict[str, Any]


class Ranking(NamedTuple):
    """The chosen node and the next best ones."""

    feasible: int
    scorers: tuple[str, ...] = ()
    candidates: tuple[Candidate, ...] = ()


class Rankings:
    """The rankings of one session by the uid of the task. A task that is placed again gets a new one."""

    def __init__(self, nodes: Sequence[SessionNode]) -> None:
        self._nodes = nodes
        self._by_task: dict[str, Ranking] = {}

    def put(self, uid: str, feasible: int, scorers: tuple[str, ...], candidates: Iterable[Candidate]) -> None:
        """Record the chosen node and the next best ones."""
        self._by_task[uid] = Ranking(feasible, scorers, tuple(candidates))

    def put_scores(self, uid: str, rows: Rows, totals: Floats, parts: Parts, place: int) -> None:
        """Record the chosen position and the next best of the scores of some rows."""
        vectors = [np.broadcast_to(part, len(rows)) for part in parts.values()]
        candidates = []
        for each in best_places(totals, place, BEST):
            scores = [vector.item(each) for vector in vectors]
            candidates.append(candidate(self._nodes[int(rows[each])].name, totals.item(each), scores))
        self.put(uid, len(rows), tuple(parts), candidates)

    def only(self, uid: str) -> None:
        """Record that a task had one feasible node, which was not scored."""
        self._by_task[uid] = Ranking(1)

    def of(self, uid: str) -> Ranking | None:
        """Return the ranking of a task, if it was placed by its scores."""
        return self._by_task.get(uid)


def candidate(node: str, total: float, scores: Iterable[float]) -> Candidate:
    """Return a candidate with its scores in all plugins."""
    return Candidate(node, _number(total), tuple([_number(score) for score in scores]))


def _number(score: float) -> int | float:
    """Return a score without needless digits."""
    value = round(score, 3)
    return int(value) if value.is_integer() else value
