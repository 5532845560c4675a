"""Ranking: the best nodes of a decision with each plugin's score, for its record.

Hot path, if records are kept. The totals are there already; the next best places are found in them one by one, and
only for these few nodes the plugins whose scores went into the findings' sum are asked again, unless they were for the
last pod of the template.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.columns.nodes import Nodes
from mooring.columns.table import NodeTable
from mooring.columns.templates import PodTemplate
from mooring.framework.state import CycleState
from mooring.observe.decision_records import Candidate
from mooring.scheduler.answer_cache import ask_score
from mooring.scheduler.profile import Profile, ScorePlugin

Rows = npt.NDArray[np.intp]
Ints = npt.NDArray[np.int64]
#: A plugin's weighted scores of all feasible nodes; a number where they are all the same.
Weighted = list[tuple[str, Ints | int]]

_LOWEST = np.iinfo(np.int64).min


def best_places(totals: Ints, chosen: int, count: int, guess: Sequence[int] = ()) -> list[int]:
    """The chosen place, which has the highest total, then places with the next highest ones.

    Places of ``guess`` (the last answer) that are as good as the chosen one are taken without looking further. The
    vector is written to meanwhile, and restored: looking for the highest again and again is cheaper than sorting.
    """
    best, size = totals[chosen], len(totals)
    places = [chosen]
    for place in guess:
        if len(places) < count and place < size and place != chosen and totals[place] == best:
            places.append(place)
    missing = min(count, size) - len(places)
    return places if missing <= 0 else places + _next_best(totals, places, missing)


def _next_best(totals: Ints, taken: list[int], count: int) -> list[int]:
    """The places with the highest totals besides those that are taken, the first of equals first."""
    if not totals.flags.writeable:
        totals = totals.copy()
    places = list(taken)
    values = [totals[place] for place in places]
    try:
        totals[places] = _LOWEST
        for _ in range(count):
            place = int(totals.argmax())
            places.append(place)
            values.append(totals[place])
            totals[place] = _LOWEST
    finally:
        for place, value in zip(places, values, strict=True):
            totals[place] = value
    return places[len(taken) :]


class _Known:
    """Scores of some rows for one template, as long as nothing changes about them."""

    __slots__ = ("position", "scores", "structure")

    def __init__(self) -> None:
        self.structure = -1
        self.position = -1
        self.scores: dict[int, tuple[int, ...]] = {}


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
        self,
        state: CycleState,
        pod: Pod,
        template: PodTemplate,
        rows: Rows | None,
        totals: Ints,
        same: int,
        places: list[int],
        kept: Weighted,
    ) -> tuple[tuple[str, ...], tuple[Candidate, ...]]:
        """The names of the scorers, and the nodes at these places with their scores."""
        active = [pair for pair in self._summed if pair[0].name not in state.skip_score]
        names = tuple([name for name, _ in kept] + [scorer.name for scorer, _ in active])
        known = self._known(template, names)
        nodes, found = self._table.nodes, []
        for place in places:
            row = place if rows is None else int(rows[place])
            total = summed = int(totals[place])
            scores: list[int] = []
            for _, score in kept:
                if isinstance(score, int):
                    scores.append(score)
                else:
                    scores.append(int(score[place]))
                    summed -= scores[-1]
            if active:
                parts = known.get(row)
                if parts is None:
                    parts = known[row] = self._parts(active, state, pod, row, summed)
                scores += parts
            found.append(Candidate(nodes[row].name, total + same, tuple(scores)))
        return names, tuple(found)

    def _known(self, template: PodTemplate, names: tuple[str, ...]) -> dict[int, tuple[int, ...]]:
        """What is known of a template's rows: the next best nodes are mostly those of the decision before."""
        key, table = (self, names), self._table
        known: _Known | None = template.cache.get(key)  # type: ignore[assignment]  # nobody else has this key
        if known is None:
            known = template.cache[key] = _Known()
        changed = table.changes.since(known.position, _MANY) if known.structure == table.structure else None
        if changed is None or len(known.scores) > _MANY:
            known.scores.clear()
        else:
            for row in changed:
                known.scores.pop(row, None)
        known.structure, known.position = table.structure, table.changes.position
        return known.scores

    def _parts(
        self,
        active: list[tuple[ScorePlugin, Callable[..., int] | None]],
        state: CycleState,
        pod: Pod,
        row: int,
        sum_: int,
    ) -> tuple[int, ...]:
        """What each plugin gave a row. The last one's part is what is left of the sum."""
        parts = []
        for scorer, score in active[:-1]:
            if score is not None:
                parts.append(scorer.weight * int(score(state, pod, self._table.nodes[row])))
                continue
            scores = ask_score(scorer, state, pod, Nodes(self._table, np.array([row])))
            parts.append(scorer.weight * (scores if isinstance(scores, int) else int(scores[0])))
        return (*parts, sum_ - sum(parts))


#: So many rows are kept for a template, and so many changes looked through, before it is begun anew.
_MANY = 256
