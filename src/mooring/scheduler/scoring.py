"""Scoring: PreScore, Score, the selection of the best node, and the scores in decision records.

Hot path. Cached scores are reused; the other scorers run on the feasible nodes only. All arithmetic is on integers, as
in kube-scheduler.
"""

from __future__ import annotations

import hashlib
import random
from time import perf_counter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.checkpoints import checkpoint
from mooring.columns.answer_cache import AnswerColumn
from mooring.columns.block_maxima import BlockMaxima
from mooring.columns.highest_rows import HighestRows
from mooring.columns.nodes import Nodes
from mooring.columns.table import NodeTable
from mooring.columns.templates import PodTemplate
from mooring.config.model import TieBreak
from mooring.framework.plugin_errors import contain
from mooring.framework.score_range import are_fractions
from mooring.framework.state import CycleState, StateKey
from mooring.framework.status import SKIP_TEMPLATE, SKIP_THIS_VERSION, Code, Status
from mooring.observe.attempt_trace import Trace
from mooring.observe.decision_records import Candidate, best_places
from mooring.scheduler.answer_cache import TemplateAnswerCache
from mooring.scheduler.answers import PluginFailure, as_status, checked_scores, failure
from mooring.scheduler.plugin_calls import call_score
from mooring.scheduler.profile import Profile, ScorePlugin
from mooring.scheduler.template_calls import TemplateCalls

Rows = npt.NDArray[np.intp]
Ints = npt.NDArray[np.int64]
MAX_NODE_SCORE = 100
#: The weighted scores of all feasible nodes, by plugin; a number if all nodes have the same score.
Weighted = list[tuple[str, Ints | int]]


class ScoreSteps(msgspec.Struct, frozen=True):
    """A plugin's scores of some nodes: as it returned them, normalized, and multiplied by its weight."""

    raw: Ints
    normalized: Ints
    weighted: Ints


class Totals(msgspec.Struct, gc=False):
    """The weighted sums of the feasible nodes' scores. Do not modify or store the vector: it may be cached."""

    values: Ints
    #: The score that all nodes share. It is separate because it does not affect the choice of a node, and adding it
    #: to every node takes time.
    same: int
    #: The row of each value; None for all rows.
    rows: Rows | None
    #: The same values in a form that finds the highest one fast, if it is maintained. Nodes that are not feasible have
    #: the value LOWEST.
    highest: HighestRows | BlockMaxima | None = None
    #: The places of the highest values in ascending order, if the selection has searched for them.
    best: Rows | None = None


class Scoring:
    """The PreScore and Score plugins of a profile."""

    def __init__(self, profile: Profile, answers: TemplateAnswerCache) -> None:
        self.profile = profile
        self.table = profile.handle.table
        self._answers = answers
        self._pre_score = TemplateCalls(profile.pre_score, profile)
        #: The weighted score of built-in plugins that normalize if all nodes have the same score, by plugin and score.
        self._same: dict[tuple[str, int], int] = {}
        self._others = tuple(s for s in profile.scorers if s.depends is None)
        self._normalized = tuple(s for s in profile.scorers if s.depends is not None and s.normalize is not None)
        #: The scores of the last call of ``totals`` by plugin, if its trace ranks nodes.
        self._kept: Weighted = []
        #: The places that the last call of ``rank`` found.
        self._places: list[int] = []

    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        """Run the PreScore plugins. Plugins that return Skip do not score. Raises PluginFailure."""
        calls = self._pre_score.of(pod, self.table.templates.of(pod), state)
        state.skip_score |= calls.skipped
        if not calls.plugins:
            return
        constant_answers: list[str] = []
        skipped: list[str] = []
        entries: dict[StateKey[Any], Any] = {}
        constant = calls.constant
        for bound in calls.plugins:
            before = len(state) if bound.name in constant else None
            checkpoint()
            try:
                answer = bound.call(state, pod, nodes)
                if answer is None:
                    if before is not None:
                        constant_answers.append(bound.name)
                        entries |= state.written_since(before)
                    continue
                status = answer if type(answer) is Status else as_status(answer)
            except BaseException as error:
                contain(error)
                raise failure(f'running PreScore plugin "{bound.name}"', bound.name, error) from error
            if status.code is Code.SKIP:
                state.skip_score.add(bound.name)
                if status is SKIP_THIS_VERSION:
                    calls.cache_version(bound)
                elif before is not None or (status is SKIP_TEMPLATE and bound.name in calls.skippers):
                    constant_answers.append(bound.name)
                    skipped.append(bound.name)
            elif not status.is_success:
                text = f'running PreScore plugin "{bound.name}": {status.message}'
                raise PluginFailure(Status.error(text).by(bound.name))
            elif before is not None:
                constant_answers.append(bound.name)
            if before is not None:
                entries |= state.written_since(before)
        if constant_answers:
            calls.cache(constant_answers, skipped, entries)

    def totals(
        self, state: CycleState, pod: Pod, template: PodTemplate, rows: Rows | None, trace: Trace | None = None
    ) -> Totals:
        """Return the weighted sum of each feasible row's scores (None: all rows)."""
        nodes = Nodes(self.table, rows)
        self.pre_score(state, pod, nodes)
        if trace is not None:
            trace.pre_scored = perf_counter()
        kept: Weighted | None = [] if trace is not None and trace.ranks else None
        answers = self._answers.of(template)
        summed = answers.sum_scores(self.profile, state, pod)
        total: Ints | None = None  # the scores that differ, except the cached sum
        same = 0  # the score that all nodes share
        for plugin in self._normalized:
            column = answers.raw.get(plugin.name)
            if column is None:
                continue
            raw = column.values
            score = (
                self._finish(plugin, state, pod, raw)
                if isinstance(raw, int)
                else self._finish_column(plugin, state, pod, column, rows)
            )
            if kept is not None:
                kept.append((plugin.name, score))
            if isinstance(score, int):
                same += score
            else:
                total = score if total is None else total + score
        for plugin in self._others:
            if plugin.name in state.skip_score:
                continue
            skipped = plugin.zero_if_skipped and plugin.name in state.skip_filter
            score = self._finish(plugin, state, pod, 0 if skipped else call_score(plugin, state, pod, nodes))
            if kept is not None:
                kept.append((plugin.name, score))
            if isinstance(score, int):
                same += score
            else:
                total = score if total is None else total + score
        if kept is not None:
            self._kept = kept
        if total is None:
            highest = answers.highest(rows)
            if highest is not None:
                return Totals(highest.values, same, None, highest)
        cached = summed if rows is None else summed.take(rows)
        return Totals(cached if total is None else cached + total, same, rows)

    def declared_sum(self, state: CycleState, pod: Pod, template: PodTemplate) -> Ints:
        """Return the weighted sum of the declared scorers that do not normalize, for all rows. Do not modify it."""
        return self._answers.of(template).sum_scores(self.profile, state, pod)

    def raw_scores(self, state: CycleState, pod: Pod, template: PodTemplate) -> list[Ints]:
        """Return the raw scores of the declared scorers that normalize, for all rows, unless all rows have the same."""
        answers = self._answers.of(template)
        answers.sum_scores(self.profile, state, pod)
        columns = (column.values for column in answers.raw.values())
        return [values for values in columns if isinstance(values, np.ndarray)]

    def note(self, name: str, scores: Ints) -> None:
        """Record scores that extenders have added to the last ``totals``."""
        self._kept.append((name, scores))

    def rank(self, trace: Trace, template: PodTemplate, totals: Totals, place: int) -> None:
        """Record the chosen node and the next best with their scores. Call it right after ``totals``."""
        places = self._places = _next_places(totals, place, trace.ranks, self._places)
        answers, nodes, rows, values = self._answers.of(template), self.table.nodes, totals.rows, totals.values
        kept, found = self._kept, []
        trace.scorers = (*[name for name, _ in kept], *answers.summed_names)
        for each in places:
            row = each if rows is None else rows.item(each)
            scores: list[int] = []
            for _, score in kept:  # not a comprehension, which is a call
                scores.append(score if isinstance(score, int) else score.item(each))
            answers.add_summed_scores(row, scores)
            found.append(Candidate(nodes[row].name, values.item(each) + totals.same, tuple(scores)))
        trace.candidates = tuple(found)

    def _finish_column(
        self, plugin: ScorePlugin, state: CycleState, pod: Pod, column: AnswerColumn, rows: Rows | None
    ) -> Ints | int:
        """Normalize and weight the scores of some rows (None: all).

        Templates with equal constraints share the column, and often have the same feasible rows; to normalize takes
        longer than everything else here. Therefore the result of a built-in plugin is cached with the column.
        """
        known = column.derived
        if known is not None and known[0] == column.version and known[1] is rows:
            cached: Ints | int = known[2]
            return cached
        score = self._finish(plugin, state, pod, column.values if rows is None else column.values.take(rows))
        if plugin.trusted:
            column.derived = column.version, rows, score
        return score

    def _finish(self, plugin: ScorePlugin, state: CycleState, pod: Pod, scores: Ints | int) -> Ints | int:
        """Normalize, check and weight scores."""
        if type(scores) is int:
            known = self._same.get((plugin.name, scores))
            if known is not None:
                return known
        if plugin.normalize is not None:
            if isinstance(scores, int):
                scores = self._normalize_same(plugin, state, pod, scores)
            else:
                scores = self._normalize(plugin, state, pod, scores)
        if not plugin.trusted:
            _check_range(plugin, scores)
        return scores * plugin.weight

    def _normalize_same(self, plugin: ScorePlugin, state: CycleState, pod: Pod, score: int) -> int:
        """Normalize a score that all nodes share by normalizing it once; the result of built-in plugins is cached."""
        one = self._normalize(plugin, state, pod, np.full(1, score, dtype=np.int64))
        known = one if isinstance(one, int) else int(one[0])
        if plugin.trusted:
            self._same[plugin.name, score] = known * plugin.weight
        return known

    @staticmethod
    def _normalize(plugin: ScorePlugin, state: CycleState, pod: Pod, scores: Ints) -> Ints | int:
        try:
            answer = plugin.normalize(state, pod, scores)  # type: ignore[misc]
            if plugin.on_fractions is not None and are_fractions(answer):
                plugin.on_fractions("normalize_scores")
            return checked_scores(answer, len(scores), "normalize_scores")
        except BaseException as error:
            contain(error)
            raise failure(f'normalizing scores of plugin "{plugin.name}"', plugin.name, error) from error

    def by_plugin(self, state: CycleState, pod: Pod, rows: Rows | None) -> dict[str, Ints]:
        """Return each plugin's weighted scores without the cache. Not for the hot path; PreScore must have run."""
        return {name: each.weighted for name, each in self.steps(state, pod, rows).items()}

    def steps(self, state: CycleState, pod: Pod, rows: Rows | None) -> dict[str, ScoreSteps]:
        """Return each plugin's raw, normalized and weighted scores. Not for the hot path; PreScore must have run."""
        nodes = Nodes(self.table, rows)
        found: dict[str, ScoreSteps] = {}
        for plugin in self.profile.scorers:
            if plugin.name in state.skip_score:
                continue
            answer = call_score(plugin, state, pod, nodes)
            raw = np.array(np.broadcast_to(answer, len(nodes)), dtype=np.int64)
            weighted = np.array(np.broadcast_to(self._finish(plugin, state, pod, answer), len(nodes)), dtype=np.int64)
            found[plugin.name] = ScoreSteps(raw, weighted // plugin.weight, weighted)
        return found


def _next_places(totals: Totals, chosen: int, count: int, guess: list[int]) -> list[int]:
    """Return what ``best_places`` returns, without a search if enough places are as good as the chosen one."""
    best, values = totals.best, totals.values
    if best is None or len(best) < count:
        return best_places(values, chosen, count, guess)
    highest, size = values.item(chosen), len(values)
    places = [chosen]
    for each in guess:
        if len(places) < count and each < size and each != chosen and values.item(each) == highest:
            places.append(each)
    if len(places) < count:
        others = [each for each in best[: 2 * count].tolist() if each not in places]
        places += others[: count - len(places)]
    return places


def _check_range(plugin: ScorePlugin, scores: Ints | int) -> None:
    low, high = (scores, scores) if isinstance(scores, int) else (int(scores.min()), int(scores.max()))
    wrong = low if low < 0 else high if high > MAX_NODE_SCORE else None
    if wrong is not None:
        text = (
            f'plugin "{plugin.name}" returns an invalid score {wrong}, '
            f"it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
        )
        raise PluginFailure(Status.error(text).by(plugin.name))


class Selection:
    """Selects the node with the highest total. Of several, a random one, or always the first in a fixed order."""

    def __init__(self, table: NodeTable, rng: random.Random, tie_break: TieBreak) -> None:
        self._rng = rng
        self._order = _StableOrder(table) if tie_break == "stable" else None

    def pick(self, totals: Ints, rows: Rows | None) -> int:
        """Return the place of the highest total; ``rows`` has the rows of the totals (None: all rows)."""
        return self.pick_place(Totals(totals, 0, rows))

    def pick_place(self, totals: Totals) -> int:
        """Return the place that ``pick`` returns, faster if the highest totals are maintained."""
        if totals.highest is not None and self._order is None:
            return totals.highest.choose(self._rng.random)
        values, rows = totals.values, totals.rows
        tied = totals.best = (values == values.item(int(values.argmax()))).nonzero()[0]
        if len(tied) == 1:
            number = 0
        elif self._order is None:
            number = int(self._rng.random() * len(tied))
        else:
            number = int(self._order.ranks()[tied if rows is None else rows[tied]].argmin())
        place: int = tied.item(number)
        return place

    def order(self, rows: Rows) -> Rows | None:
        """Return the fixed order, as places in ``rows``, in which nodes with equal totals are taken; None if random."""
        return None if self._order is None else self._order.ranks()[rows].argsort(kind="stable")

    def random_place(self) -> float:
        """Return a number from 0 to 1, to choose one of several equals."""
        return self._rng.random()


class _StableOrder:
    """An order of the nodes that depends only on their names: it is the same after a restart, and on every replica.

    The rank is a hash, so that names that follow racks or zones do not fill these one after another.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._cursor = table.node_cursor(survives_resize=True)
        self._ranks: npt.NDArray[np.uint64] = np.zeros(64, dtype=np.uint64)

    def ranks(self) -> npt.NDArray[np.uint64]:
        """Return a rank by row; the lowest comes first."""
        if not self._cursor.current:
            nodes = self._table.nodes
            if len(nodes) > len(self._ranks):
                self._ranks = np.concatenate([self._ranks, np.zeros(len(nodes), dtype=np.uint64)])
            changed = self._cursor.changed(len(nodes))
            for row in range(len(nodes)) if changed is None else changed:
                digest = hashlib.blake2b(nodes[row].name.encode(), digest_size=8).digest()
                self._ranks[row] = int.from_bytes(digest, "big")
            self._cursor.advance()
        return self._ranks
