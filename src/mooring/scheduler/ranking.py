"""Ranking: the best nodes of a decision with each plugin's score, for its record.

Hot path, if records are kept. The totals are there already; the next best places are found in them one by one, and
only for these few nodes the plugins whose scores went into the findings' sum are asked again.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.framework.nodes import Nodes
from mooring.framework.state import CycleState
from mooring.framework.table import NodeTable
from mooring.observe.records import Candidate
from mooring.scheduler.findings import ask_score
from mooring.scheduler.profile import Profile, ScorePlugin

Rows = npt.NDArray[np.intp]
Ints = npt.NDArray[np.int64]
#: A plugin's weighted scores of all feasible nodes; a number where they are all the same.
Weighted = list[tuple[str, Ints | int]]

_LOWEST = np.iinfo(np.int64).min


def best_places(totals: Ints, chosen: int, count: int) -> list[int]:
    """The chosen place, then those with the next highest totals, the first of equals first.

    The vector is written to meanwhile, and restored: looking for the highest again and again is cheaper than sorting.
    """
    if not totals.flags.writeable:
        totals = totals.copy()
    places = [chosen]
    values = [totals[chosen]]
    try:
        totals[chosen] = _LOWEST
        for _ in range(min(count, len(totals)) - 1):
            place = int(totals.argmax())
            places.append(place)
            values.append(totals[place])
            totals[place] = _LOWEST
    finally:
        for place, value in zip(places, values, strict=True):
            totals[place] = value
    return places


class Ranking:
    """Makes candidates for one profile."""

    def __init__(self, profile: Profile, table: NodeTable) -> None:
        self._table = table
        #: Those whose scores are part of the findings' sum. The plugin's own method is asked: these are no evaluations
        #: that metrics should count.
        self._summed = tuple(
            (scorer, getattr(scorer.plugin, "score", None))
            for scorer in profile.scorers
            if scorer.depends is not None and scorer.normalize is None
        )

    def candidates(
        self, state: CycleState, pod: Pod, rows: Rows | None, totals: Ints, same: int, places: list[int], kept: Weighted
    ) -> tuple[tuple[str, ...], tuple[Candidate, ...]]:
        """The names of the scorers, and the nodes at these places with their scores."""
        nodes = self._table.nodes
        chosen = [nodes[place if rows is None else int(rows[place])] for place in places]
        names: list[str] = []
        columns: list[list[int]] = []
        for name, scores in kept:
            names.append(name)
            columns.append([scores if isinstance(scores, int) else int(scores[place]) for place in places])
        for scorer, score in self._summed:
            if scorer.name in state.skip_score:
                continue
            names.append(scorer.name)
            if score is None:
                columns.append(self._ask(scorer, state, pod, rows, places))
            else:
                columns.append([scorer.weight * int(score(state, pod, node)) for node in chosen])
        found = tuple(
            [
                Candidate(node.name, int(totals[place]) + same, scores)
                for node, place, scores in zip(
                    chosen, places, zip(*columns, strict=True) if columns else [()] * len(places), strict=True
                )
            ]
        )
        return tuple(names), found

    def _ask(self, scorer: ScorePlugin, state: CycleState, pod: Pod, rows: Rows | None, places: list[int]) -> list[int]:
        wanted = np.array(places, dtype=np.intp) if rows is None else rows[places]
        scores = ask_score(scorer, state, pod, Nodes(self._table, wanted))
        if isinstance(scores, int):
            return [scores * scorer.weight] * len(places)
        return [int(score) * scorer.weight for score in scores]
