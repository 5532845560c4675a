"""Rankings: the best nodes of each task with the plugins' scores, for decision records.

Hot path: every placed task gets a ranking while records are enabled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.batch.session_nodes import SessionNode
from mooring.observe.decision_records import RUNNERS_UP, Candidate, best_places

Floats = npt.NDArray[np.float64]
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

    def put(
        self,
        uid: str,
        rows: npt.NDArray[np.intp] | None,
        totals: Floats,
        parts: Mapping[str, Any],
        place: int,
        feasible: int,
    ) -> None:
        """Record the chosen position and the next best; ``rows`` maps positions to rows, None if they are equal."""
        nodes = self._nodes
        vectors = list(parts.values())
        candidates = []
        for each in best_places(totals, place, 1 + RUNNERS_UP):
            scores = tuple(_number(vector if np.ndim(vector) == 0 else vector[each]) for vector in vectors)
            name = nodes[each if rows is None else int(rows[each])].name
            candidates.append(Candidate(name, _number(totals[each]), scores))
        self._by_task[uid] = Ranking(feasible, tuple(parts), tuple(candidates))

    def only(self, uid: str) -> None:
        """Record that a task had one feasible node, which was not scored."""
        self._by_task[uid] = Ranking(1)

    def of(self, uid: str) -> Ranking | None:
        """Return the ranking of a task, if it was placed by its scores."""
        return self._by_task.get(uid)


def _number(score: Any) -> int | float:
    """Return a score without needless digits."""
    value = round(float(score), 3)
    return int(value) if value.is_integer() else value
