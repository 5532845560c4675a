"""Scoring: PreScore, Score, the selection of the best node, and the scores for decision records.

Hot path. Cached scores are reused; the other scorers run on the feasible nodes only. All arithmetic is on integers, as
in kube-scheduler.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.columns.nodes import Nodes
from mooring.columns.table import NodeTable
from mooring.columns.templates import PodTemplate
from mooring.framework.state import CycleState, StateKey
from mooring.framework.status import SKIP_TEMPLATE, SUCCESS, Code, Status
from mooring.observe.attempt_trace import Trace
from mooring.observe.decision_records import Candidate
from mooring.scheduler.answer_cache import TemplateAnswerCache, TemplateCalls, ask_score
from mooring.scheduler.answers import PluginFailure, as_status, checked_scores, failure
from mooring.scheduler.profile import Profile, ScorePlugin

Rows = npt.NDArray[np.intp]
Ints = npt.NDArray[np.int64]
MAX_NODE_SCORE = 100
#: A plugin's weighted scores of all feasible nodes; a number where they are all the same.
Weighted = list[tuple[str, Ints | int]]

_LOWEST = np.iinfo(np.int64).min


class Scoring:
    """Runs a profile's PreScore and Score plugins."""

    def __init__(self, profile: Profile, findings: TemplateAnswerCache) -> None:
        self.profile = profile
        self.table = profile.handle.table
        self._findings = findings
        self._pre_score = TemplateCalls(profile.pre_score)
        #: What built-in plugins make of a score that all nodes have.
        self._same: dict[tuple[str, int], int] = {}
        self._others = tuple(s for s in profile.scorers if s.depends is None)
        self._normalized = tuple(s for s in profile.scorers if s.depends is not None and s.normalize is not None)
        self._ranking = Ranking(profile, self.table)
        #: What plugins gave in the last call of ``totals``, if its trace wanted to know.
        self._kept: Weighted = []
        #: The places that ``rank`` found last.
        self._places: list[int] = []

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        """Run the PreScore plugins; those that return Skip do not score. Raises PluginFailure."""
        calls = self._pre_score.of(self.table.templates.of(pod), state)
        state.skip_score |= calls.skipped
        settled: list[str] = []
        skipped: list[str] = []
        entries: dict[StateKey[Any], Any] = {}
        for bound in calls.asked:
            before = len(state) if bound.name in calls.constant else None
            try:
                answer = bound.call(state, pod, nodes)
                status = SUCCESS if answer is None else answer if type(answer) is Status else as_status(answer)
            except Exception as error:
                raise failure(f'running PreScore plugin "{bound.name}"', bound.name, error) from error
            if status.code is Code.SKIP:
                state.skip_score.add(bound.name)
                if status is SKIP_TEMPLATE or before is not None:
                    skipped.append(bound.name)
            elif not status.is_success:
                text = f'running PreScore plugin "{bound.name}": {status.message}'
                raise PluginFailure(Status.error(text).by(bound.name))
            if before is not None or status is SKIP_TEMPLATE:
                settled.append(bound.name)
                entries |= state.written_since(before) if before is not None else {}
        if settled and calls.lasting:
            calls.cache(settled, skipped, entries)

    def totals(
        self, state: CycleState, pod: Pod, template: PodTemplate, rows: Rows | None, trace: Trace | None = None
    ) -> tuple[Ints, int]:
        """The weighted sum of all scores for each feasible row (None: all rows), but for what all rows get alike.

        That part comes second: it has no say in which node is best, and adding it to every row would cost.
        The vector may be a live one: read it, do not keep it.
        """
        nodes = Nodes(self.table, rows)
        self.pre_score(state, pod, nodes)
        if trace is not None:
            trace.pre_scored = perf_counter()
        kept: Weighted | None = [] if trace is not None and trace.ranks else None
        findings = self._findings.of(template)
        findings.refresh_scores(self.profile, state, pod)
        total: Ints = findings.total if rows is None else findings.total[rows]
        same = 0  # what all nodes get alike
        for plugin in self._normalized:
            column = findings.raw.get(plugin.name)
            if column is None:
                continue
            raw = column.values
            chosen = raw if rows is None or isinstance(raw, int) else raw[rows]
            score = self._finish(plugin, state, pod, chosen)
            if kept is not None:
                kept.append((plugin.name, score))
            if isinstance(score, int):
                same += score
            else:
                total = total + score
        for plugin in self._others:
            if plugin.name in state.skip_score:
                continue
            score = self._finish(plugin, state, pod, ask_score(plugin, state, pod, nodes))
            if kept is not None:
                kept.append((plugin.name, score))
            if isinstance(score, int):
                same += score
            else:
                total = total + score
        if kept is not None:
            self._kept = kept
        return total, same

    def note(self, name: str, scores: Ints) -> None:
        """Record scores that extenders added to the last ``totals``."""
        self._kept.append((name, scores))

    def rank(
        self,
        trace: Trace,
        state: CycleState,
        pod: Pod,
        template: PodTemplate,
        rows: Rows | None,
        totals: Ints,
        same: int,
        place: int,
    ) -> None:
        """Record the chosen node and the next best with their scores. Call it right after ``totals``."""
        places = self._places = best_places(totals, place, trace.ranks, self._places)
        trace.scorers, trace.candidates = self._ranking.candidates(
            state, pod, template, rows, totals, same, places, self._kept
        )

    def _finish(self, plugin: ScorePlugin, state: CycleState, pod: Pod, scores: Ints | int) -> Ints | int:
        """Normalize, check and weight scores."""
        if plugin.normalize is not None:
            if isinstance(scores, int):
                scores = self._normalize_same(plugin, state, pod, scores)
            else:
                scores = self._normalize(plugin, state, pod, scores)
        if not plugin.trusted:
            _check_range(plugin, scores)
        return scores * plugin.weight

    def _normalize_same(self, plugin: ScorePlugin, state: CycleState, pod: Pod, score: int) -> int:
        """Normalize a score that all nodes share by normalizing one."""
        known = self._same.get((plugin.name, score)) if plugin.trusted else None
        if known is None:
            one = self._normalize(plugin, state, pod, np.full(1, score, dtype=np.int64))
            known = one if isinstance(one, int) else int(one[0])
            self._same[plugin.name, score] = known
        return known

    @staticmethod
    def _normalize(plugin: ScorePlugin, state: CycleState, pod: Pod, scores: Ints) -> Ints | int:
        try:
            answer = plugin.normalize(state, pod, scores)  # type: ignore[misc]
            return checked_scores(answer, len(scores), "normalize_scores")
        except Exception as error:
            raise failure(f'normalizing scores of plugin "{plugin.name}"', plugin.name, error) from error

    def by_plugin(self, state: CycleState, pod: Pod, rows: Rows | None) -> dict[str, Ints]:
        """Return each plugin's weighted scores without the cache; not for the hot path. PreScore must have run."""
        nodes = Nodes(self.table, rows)
        found: dict[str, Ints] = {}
        for plugin in self.profile.scorers:
            if plugin.name in state.skip_score:
                continue
            scores = self._finish(plugin, state, pod, ask_score(plugin, state, pod, nodes))
            found[plugin.name] = np.full(len(nodes), scores, dtype=np.int64) if isinstance(scores, int) else scores
        return found


def _check_range(plugin: ScorePlugin, scores: Ints | int) -> None:
    low, high = (scores, scores) if isinstance(scores, int) else (int(scores.min()), int(scores.max()))
    wrong = low if low < 0 else high if high > MAX_NODE_SCORE else None
    if wrong is not None:
        text = (
            f'plugin "{plugin.name}" returns an invalid score {wrong}, '
            f"it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
        )
        raise PluginFailure(Status.error(text).by(plugin.name))


def pick(totals: Ints, rng: random.Random) -> int:
    """Return the position of the highest total; ties are broken uniformly at random."""
    best = int(totals.argmax())
    (tied,) = (totals == totals.item(best)).nonzero()
    return best if len(tied) == 1 else tied.item(int(rng.random() * len(tied)))


# The best nodes of an attempt with each plugin's score, for its record


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
    """Cached scores of unchanged rows for one template."""

    __slots__ = ("position", "scores", "structure")

    def __init__(self) -> None:
        self.structure = -1
        self.position = -1
        self.scores: dict[int, tuple[int, ...]] = {}


class Ranking:
    """Builds the candidates of decision records for one profile."""

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
        """Return the cached scores of a template's rows: the next best nodes are mostly those of the last attempt."""
        key, table = (self, names), self._table
        known: _Known | None = template.cache.get(key)  # type: ignore[assignment]  # the key is private to this class
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
        """Return each plugin's score of a row; the last one is the rest of the sum."""
        parts = []
        for scorer, score in active[:-1]:
            if score is not None:
                parts.append(scorer.weight * int(score(state, pod, self._table.nodes[row])))
                continue
            scores = ask_score(scorer, state, pod, Nodes(self._table, np.array([row])))
            parts.append(scorer.weight * (scores if isinstance(scores, int) else int(scores[0])))
        return (*parts, sum_ - sum(parts))


#: The most rows cached for a template, and the most changes applied to them, before the cache is rebuilt.
_MANY = 256
