"""TemplateAnswerCache: the answers of filters and scorers, cached per pod template.

Hot path. Plugins that declare what they depend on (``depends_on``) are called for all nodes once per template; after
that only for rows that changed. Changes of the node object (rare) are distinguished from changes of the pods on it
(every placement). The cache never changes an answer: a property test compares it with answers that are not cached.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.columns.answer_cache import AnswerCache, AnswerColumn, CachedAnswers
from mooring.columns.block_maxima import LOWEST, BlockMaxima
from mooring.columns.highest_rows import HighestRows
from mooring.columns.node_info import NodeInfo
from mooring.columns.nodes import Nodes
from mooring.columns.row_cursor import RowCursor
from mooring.columns.table import NodeTable
from mooring.columns.templates import PodTemplate
from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS
from mooring.framework.verdicts import Verdicts
from mooring.scheduler.plugin_calls import (
    call_score,
    call_single_filter,
    call_single_score,
    passing_nodes,
    weighted_scores,
)
from mooring.scheduler.profile import FilterPlugin, Profile, ScorePlugin

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
#: From this many nodes on, the highest totals are maintained; for fewer, a search is as fast. From MANY_NODES on, those
#: of blocks of rows are.
SOME_NODES, MANY_NODES = 512, 8192
#: Up to this many changed rows, the highest totals are updated row by row if they are not those of blocks.
_FEW_CHANGES = 4
#: Up to this many changed rows are evaluated node by node, if the plugin supports it; more are evaluated in columns.
_FEW = 2
#: Up to this weight, weighted scores of built-in plugins (0 to 100) fit into 16 bits.
_MAX_SMALL_WEIGHT = 100
#: How many combinations of the answers of declared filters with verdicts of others are cached.
_COMBINED = 8


class ConstraintAnswers(CachedAnswers):
    """The answers that depend only on the node and on the constraints of a pod: the first answers of new templates."""

    __slots__ = (
        "_filters",
        "_filters_cursor",
        "_ok",
        "_raw",
        "_rows",
        "_rows_version",
        "_scorers",
        "_scorers_cursor",
        "_table",
    )

    def __init__(self, table: NodeTable, key: Hashable) -> None:
        super().__init__(key)
        self._table = table
        self._filters: tuple[FilterPlugin, ...] = ()
        self._filters_cursor = table.node_cursor()
        self._ok = AnswerColumn(True)
        #: The rows that pass all of these filters (None: all), and the version of ``_ok`` that they are from.
        self._rows: Rows | None = None
        self._rows_version = -1
        self._scorers: tuple[ScorePlugin, ...] = ()
        self._scorers_cursor = table.node_cursor()
        self._raw: dict[str, AnswerColumn] = {}

    def drop(self) -> None:
        """Release the memory."""
        super().drop()
        self._filters_cursor.reset()
        self._scorers_cursor.reset()
        self._ok.replace(True)
        self._rows = None
        self._raw = {}

    def passing(self, filters: tuple[FilterPlugin, ...], state: CycleState, pod: Pod) -> Mask | bool:
        """Return which rows pass some filters; True for all. Do not modify it: it is shared."""
        if filters is not self._filters:
            self._filters_cursor.reset()
            self._filters = filters
        if not self._filters_cursor.current:
            self._ok.refresh(
                self._filters_cursor,
                len(self._table.nodes),
                lambda rows: passing_nodes(filters, state, pod, self._nodes(rows), True),
            )
        ok: Mask | bool = self._ok.share()
        return ok

    def passing_rows(self) -> Rows | None:
        """Return the rows of the mask that ``passing`` returned last (None: all)."""
        if self._rows_version != self._ok.version:
            ok: Mask | bool = self._ok.values
            self._rows = None if isinstance(ok, bool) or ok.all() else ok.nonzero()[0]
            self._rows_version = self._ok.version
        return self._rows

    def scores(self, scorers: tuple[ScorePlugin, ...], state: CycleState, pod: Pod) -> dict[str, AnswerColumn]:
        """Return the raw scores of some scorers, by name. Do not modify them: they are shared, and stay current."""
        if scorers is not self._scorers:
            self._scorers_cursor.reset()
            self._scorers = scorers
        if not self._scorers_cursor.current:
            self._refresh_scores(state, pod)
        return self._raw

    def _refresh_scores(self, state: CycleState, pod: Pod) -> None:
        size, cursor = len(self._table.nodes), self._scorers_cursor
        changed = cursor.changed(max(2, size >> 2))
        if changed is None:
            nodes = self._nodes(None)
            self._raw = {
                plugin.name: AnswerColumn(call_score(plugin, state, pod, nodes), shared=True)
                for plugin in self._scorers
            }
        elif changed:
            nodes = self._nodes(changed)
            for plugin in self._scorers:
                self._raw[plugin.name].patch(changed, call_score(plugin, state, pod, nodes), size)
        cursor.advance()

    def _nodes(self, rows: list[int] | None) -> Nodes:
        return Nodes(self._table, None if rows is None else np.array(rows))


class _Combined:
    """Which rows pass the declared filters and some lasting verdicts of others."""

    __slots__ = ("mask", "rows", "verdicts", "version")

    def __init__(self, version: int, verdicts: list[Verdicts], mask: Mask) -> None:
        #: The version of the answers of the declared filters.
        self.version = version
        self.verdicts = verdicts
        self.mask = mask
        #: The rows; None for all.
        self.rows: Rows | None = None if mask.all() else mask.nonzero()[0]


class TemplateAnswers(CachedAnswers):
    """The answers for one template in one profile: which nodes pass the declared filters, and their declared scores."""

    __slots__ = (
        "_by_constraints",
        "_combined",
        "_constraint_answers",
        "_filter_changes",
        "_filters_singly",
        "_maxima",
        "_maxima_changes",
        "_node_filters",
        "_node_ok",
        "_ok",
        "_parts",
        "_pod_filters",
        "_raw_by_node",
        "_raw_by_pods",
        "_rows",
        "_rows_version",
        "_score_changes",
        "_skip",
        "_skip_score",
        "_stored",
        "_summed",
        "_summed_singly",
        "_table",
        "_total",
        "_unchanged",
        "raw",
        "summed_names",
        "templates",
    )

    # Set when all filters, or all scorers, run. The first call runs all of them.
    _skip: frozenset[str]
    _node_filters: tuple[FilterPlugin, ...]
    _pod_filters: tuple[FilterPlugin, ...]
    _filters_singly: bool
    _skip_score: frozenset[str]
    _summed: tuple[ScorePlugin, ...]
    _summed_singly: bool
    _raw_by_node: tuple[ScorePlugin, ...]
    _raw_by_pods: tuple[ScorePlugin, ...]

    def __init__(self, table: NodeTable, key: Hashable, by_constraints: AnswerCache[ConstraintAnswers]) -> None:
        super().__init__(key)
        self._table = table
        self._by_constraints = by_constraints
        #: The answers for the constraints of the pods, once they are known.
        self._constraint_answers: ConstraintAnswers | None = None
        self._filter_changes, self._score_changes = table.cursor(), table.cursor()
        #: Which nodes pass the filters that depend only on the node, and which pass all declared filters.
        self._node_ok = AnswerColumn(True)
        self._ok = AnswerColumn(True)
        #: The raw scores of declared scorers that normalize, by name.
        self.raw: dict[str, AnswerColumn] = {}
        #: The weighted sum of the other declared scorers, their names, and the weighted scores of each but the first.
        self._total = AnswerColumn()
        self.summed_names: tuple[str, ...] = ()
        self._parts: list[AnswerColumn] = []
        #: Whether the cache holds these answers. Then the parts take less space.
        self._stored = False
        #: The rows that pass all declared filters (None: all), and the version of ``_ok`` that they are from.
        self._rows: Rows | None = None
        self._rows_version = -1
        #: The same with verdicts of other filters.
        self._combined: list[_Combined] = []
        #: The totals of these rows, and how often they were requested since all filters or scorers ran.
        self._maxima: HighestRows | BlockMaxima | None = None
        self._maxima_changes: RowCursor | None = None
        self._unchanged = 0
        #: How many templates use these answers.
        self.templates = 0

    def drop(self) -> None:
        """Release the memory."""
        super().drop()
        for column in (self._node_ok, self._ok, self._total):
            column.replace(0)
        self.raw, self._parts, self._combined = {}, [], []
        self._rows = self._maxima = self._constraint_answers = None
        self._filter_changes.reset()
        self._score_changes.reset()

    def store(self) -> None:
        """Take less space, because the cache holds these answers now."""
        self._stored = True
        if self._parts:
            self._parts = [
                _part(plugin, part.values) for plugin, part in zip(self._summed[1:], self._parts, strict=True)
            ]

    def restart(self, key: Hashable) -> None:
        """Become the answers, still empty, for another kind of pod."""
        self.key = key
        self._constraint_answers = None
        self._combined.clear()
        self._filter_changes.reset()
        self._score_changes.reset()

    # Filters

    def passing(self, profile: Profile, state: CycleState, pod: Pod) -> Mask | None:
        """Return which rows pass the declared filters (None: all). Do not modify it."""
        changed = self._filter_changes.changed(len(self._table.nodes) >> 2)
        if changed is None or self._skip != state.skip_filter & profile.declared:
            self._run_all_filters(profile, state, pod)
        elif changed:
            self._refresh_filters(profile, state, pod, changed)
        ok = self._ok.values
        return None if ok is True else ok

    def passing_also(self, verdicts: list[Verdicts]) -> Mask:
        """Return which rows pass the declared filters and have none of some rejections. Do not modify it."""
        lasting = True
        for each in verdicts:
            lasting = lasting and each.lasting
        if lasting:
            for known in self._combined:
                if known.version == self._ok.version and known.verdicts == verdicts:
                    return known.mask
        ok: Mask | bool = self._ok.values
        for each in verdicts:
            passed = each.codes == 0
            ok = passed if ok is True else ok & passed
        assert not isinstance(ok, bool), "there are verdicts"
        if lasting:
            if len(self._combined) >= _COMBINED or (self._combined and self._combined[0].version != self._ok.version):
                self._combined.clear()
            self._combined.append(_Combined(self._ok.version, verdicts, ok))
        return ok

    def passing_rows(self, ok: Mask) -> Rows | None:
        """Return the rows of a mask (None: all). If ``passing`` or ``passing_also`` returned it, they are cached."""
        if ok is not self._ok.values:
            for known in self._combined:
                if known.mask is ok:
                    return known.rows
            return None if ok.all() else ok.nonzero()[0]
        if self._rows_version != self._ok.version:
            self._rows = None if ok.all() else ok.nonzero()[0]
            self._rows_version = self._ok.version
        return self._rows

    def _refresh_filters(self, profile: Profile, state: CycleState, pod: Pod, changed: list[int]) -> None:
        node_changed = self._filter_changes.nodes_changed(len(self._table.nodes) >> 2)
        if node_changed is None:
            self._run_all_filters(profile, state, pod)
            return
        if node_changed:
            self._rerun_filters(self._node_filters, state, pod, node_changed, self._node_ok, None)
        node_ok = self._node_ok.values
        self._rerun_filters(self._pod_filters, state, pod, changed, self._ok, None if node_ok is True else node_ok)
        self._filter_changes.advance()

    def _shared(self, pod: Pod) -> ConstraintAnswers:
        """Return the answers that all templates with the constraints of a pod share."""
        shared = self._constraint_answers
        if shared is None or not shared.alive:
            shared = self._by_constraints.of(self._table.templates.of(pod).constraints)
            self._constraint_answers = shared
        return shared

    def _run_all_filters(self, profile: Profile, state: CycleState, pod: Pod) -> None:
        skip = profile.declared & state.skip_filter
        filters = profile.declared_filters(skip)
        nodes = Nodes(self._table)
        shared = self._shared(pod)
        shared_ok = shared.passing(filters.by_constraints, state, pod)
        node_ok = passing_nodes(filters.others, state, pod, nodes, shared_ok) if filters.others else shared_ok
        ok = passing_nodes(filters.by_pods, state, pod, nodes, node_ok)
        # Only now, because a plugin may have raised.
        self._skip, self._filters_singly = skip, filters.singly
        self._node_filters, self._pod_filters = filters.by_node, filters.by_pods
        self._node_ok.replace(node_ok, shared=True)
        self._ok.replace(ok, shared=ok is node_ok)
        if ok is shared_ok:
            self._rows, self._rows_version = shared.passing_rows(), self._ok.version
        self._filter_changes.advance()
        self._unchanged = 0

    def _rerun_filters(
        self,
        filters: Sequence[FilterPlugin],
        state: CycleState,
        pod: Pod,
        rows: list[int],
        column: AnswerColumn,
        base: Mask | None,
    ) -> None:
        """Run filters again for the rows that ``base`` allows (None: all), and update ``column``."""
        passed: list[bool] | bool
        if len(rows) <= _FEW and self._filters_singly:
            passed = [
                (base is None or bool(base[row])) and self._passes(filters, state, pod, self._table.nodes[row])
                for row in rows
            ]
        else:
            answer = passing_nodes(filters, state, pod, Nodes(self._table, np.array(rows)), True)
            if base is not None:
                answer = base[rows] & answer
            passed = answer if isinstance(answer, bool) else answer.tolist()
        column.patch(rows, passed, len(self._table.nodes))

    @staticmethod
    def _passes(filters: Sequence[FilterPlugin], state: CycleState, pod: Pod, node: NodeInfo) -> bool:
        for plugin in filters:
            if call_single_filter(plugin, state, pod, node) is not SUCCESS:
                return False
        return True

    # Scores

    def add_summed_scores(self, row: int, scores: list[int]) -> None:
        """Append the weighted scores that the sum of a row consists of, in the order of ``summed_names``."""
        if not self.summed_names:
            return
        place = len(scores)
        first = self._total.values.item(row)
        for part in self._parts:
            values = part.values
            score = values if isinstance(values, int) else values.item(row)
            first -= score
            scores.append(score)
        scores.insert(place, first)

    def sum_scores(self, profile: Profile, state: CycleState, pod: Pod) -> Ints:
        """Update the scores of changed rows; return the weighted sum of the declared scorers that do not normalize."""
        changed = self._score_changes.changed(len(self._table.nodes) >> 2)
        if changed is None or self._skip_score != state.skip_score & profile.declared:
            self._run_all_scorers(profile, state, pod)
        elif changed:
            self._refresh_scores(profile, state, pod, changed)
        total: Ints = self._total.values
        return total

    def _refresh_scores(self, profile: Profile, state: CycleState, pod: Pod, changed: list[int]) -> None:
        node_changed = self._score_changes.nodes_changed(len(self._table.nodes) >> 2)
        if node_changed is None:
            self._run_all_scorers(profile, state, pod)
            return
        self._rerun_raw(self._raw_by_pods, state, pod, changed)
        if node_changed:
            self._rerun_raw(self._raw_by_node, state, pod, node_changed)
        self._rerun_summed(state, pod, changed)
        self._score_changes.advance()

    def highest(self, rows: Rows | None) -> HighestRows | BlockMaxima | None:
        """Return the sum of the feasible rows, with LOWEST for the others; None if it is not maintained.

        It is maintained if all feasible rows are those that pass the declared filters, and few rows change.
        """
        size, ok = len(self._table.nodes), self._ok.values
        if size < SOME_NODES or not self._filter_changes.current:
            return None
        if rows is not (None if ok is True else self._rows):
            return None
        if ok is not True and self._rows_version != self._ok.version:
            return None
        self._unchanged += 1
        if self._unchanged == 1:
            return None  # many templates have only one pod
        cursor = self._maxima_changes = self._maxima_changes or self._table.cursor()
        changed = cursor.changed(size >> 4 if size >= MANY_NODES else _FEW_CHANGES)
        if changed is None and size < MANY_NODES:
            cursor.advance()
            self._maxima = None
            return None
        total, maxima = self._total.values, self._maxima
        if changed is None or maxima is None or self._unchanged == 2:
            values = total.copy() if ok is True else np.where(ok, total, LOWEST)
            maxima = self._maxima = BlockMaxima(values) if size >= MANY_NODES else HighestRows(values)
        else:
            for row in changed:
                maxima.set(row, total.item(row) if ok is True or ok.item(row) else LOWEST)
        cursor.advance()
        return maxima

    def _run_all_scorers(self, profile: Profile, state: CycleState, pod: Pod) -> None:
        skip = profile.declared & state.skip_score
        scorers = profile.declared_scorers(skip)
        nodes = Nodes(self._table)
        raw = self._shared(pod).scores(scorers.by_constraints, state, pod)
        if scorers.others or scorers.by_pods:
            raw = dict(raw)
            for each in (*scorers.others, *scorers.by_pods):
                raw[each.name] = AnswerColumn(call_score(each, state, pod, nodes), shared=True)
        total: Ints | int = 0
        parts: list[AnswerColumn] = []
        for number, plugin in enumerate(scorers.summed):
            scores = weighted_scores(plugin, state, pod, nodes)
            if number:
                parts.append(_part(plugin, scores) if self._stored else AnswerColumn(scores, shared=True))
                total += scores
            elif isinstance(scores, int):
                total = np.full(len(nodes), scores, dtype=np.int64)
            else:
                total = scores if plugin.trusted and scores.flags.owndata else scores.copy()
        # Only now, because a plugin may have raised.
        self._skip_score, self._summed, self._summed_singly = skip, scorers.summed, scorers.singly
        self.raw, self._raw_by_node, self._raw_by_pods = raw, scorers.by_node, scorers.by_pods
        self.summed_names, self._parts = scorers.summed_names, parts
        self._total.replace(np.zeros(len(nodes), dtype=np.int64) if isinstance(total, int) else total)
        self._score_changes.advance()
        self._unchanged = 0

    def _rerun_raw(self, plugins: Sequence[ScorePlugin], state: CycleState, pod: Pod, rows: list[int]) -> None:
        if not plugins:
            return
        nodes = Nodes(self._table, np.array(rows))
        for plugin in plugins:
            self.raw[plugin.name].patch(rows, call_score(plugin, state, pod, nodes), len(self._table))

    def _rerun_summed(self, state: CycleState, pod: Pod, rows: list[int]) -> None:
        """Run the scorers of the sum again for some rows."""
        scorers, size, parts = self._summed, len(self._table.nodes), self._parts
        if not scorers:
            return
        if len(rows) > _FEW or not self._summed_singly:
            some = Nodes(self._table, np.array(rows))
            weighted = [weighted_scores(plugin, state, pod, some) for plugin in scorers]
            self._total.patch(rows, sum(weighted[1:], weighted[0]), size)
            for part, scores in zip(parts, weighted[1:], strict=True):
                part.patch(rows, scores, size)
            return
        for row in rows:
            node = self._table.nodes[row]
            single = [plugin.weight * call_single_score(plugin, state, pod, node) for plugin in scorers]
            self._total.set(row, sum(single), size)
            for part, score in zip(parts, single[1:], strict=True):
                part.set(row, score, size)


def _part(plugin: ScorePlugin, scores: Ints | int) -> AnswerColumn:
    """Return the column of a plugin's weighted scores. Those of built-in plugins are small numbers."""
    if isinstance(scores, int) or not plugin.trusted or plugin.weight > _MAX_SMALL_WEIGHT:
        return AnswerColumn(scores, shared=True)
    return AnswerColumn(scores.astype(np.int16))


class TemplateAnswerCache:
    """The cached answers of one profile, shared by templates with equal signatures.

    Many templates have only one pod. Answers are therefore stored when their signature is used again; those of a new
    signature are in ``_new`` until the next one. The least recently used templates are dropped, together with what
    plugins have cached for them.
    """

    def __init__(self, profile: Profile, *, budget_bytes: int = 128 << 20, templates: int = 8192) -> None:
        table = profile.handle.table
        self._capacity = templates
        shared = self._by_constraints = AnswerCache(
            lambda key: ConstraintAnswers(table, key), table.__len__, budget_bytes=budget_bytes >> 1
        )
        self._by_signature = AnswerCache(
            lambda key: TemplateAnswers(table, key, shared), table.__len__, budget_bytes=budget_bytes
        )
        #: The templates, with their answers if these are stored.
        self._by_template: OrderedDict[PodTemplate, TemplateAnswers | None] = OrderedDict()
        #: The answers for the last new signature.
        self._new = self._by_signature.make(None)
        #: The hashes of the signatures that were new. If two are equal, answers are only stored earlier.
        self._used: set[int] = set()
        #: The template of the last call and its answers: the filters and scorers of an attempt use the same.
        self._last: tuple[PodTemplate | None, TemplateAnswers | None] = (None, None)
        self._profile = profile
        table.templates.listeners.add(self)

    def template_dropped(self, template: PodTemplate) -> None:
        """Drop a template, and its answers if no other has the same: tenants can create any number of large ones."""
        found = self._by_template.pop(template, None)
        if found is not None:
            self._release(found)
        if self._last[0] is template:
            self._last = (None, None)
        if not template.constraints.templates:
            shared = self._by_constraints.find(template.constraints)
            if shared is not None:
                self._by_constraints.discard(shared)

    def _release(self, answers: TemplateAnswers) -> None:
        answers.templates -= 1
        if not answers.templates and answers.alive:
            self._by_signature.discard(answers)

    def for_next(self, template: PodTemplate) -> TemplateAnswers:
        """Return the answers for the next pod of a template, whose attempt then gets the same from ``of``."""
        if self._last[0] is template and self._last[1] is self._new:
            found = self._by_template[template] = self._store_new()
            found.templates += 1
            return found
        return self.of(template)

    def of(self, template: PodTemplate) -> TemplateAnswers:
        """Return the answers for a template; new answers are empty."""
        last, found = self._last
        if last is template and found is not None and found.alive:
            return found
        found = self._by_template.get(template)
        if found is not None and found.alive:
            self._by_template.move_to_end(template)
            self._by_signature.used(found)
        else:
            found = self._of_signature(template)
        self._last = template, found
        return found

    def _of_signature(self, template: PodTemplate) -> TemplateAnswers:
        """Return the answers for a template that has none of its own."""
        signature = self._profile.signature(template)
        new, by_template = self._new, self._by_template
        found = self._by_signature.find(signature)
        if found is not None:
            self._by_signature.used(found)
        elif new.key == signature:
            found = self._store_new()
        elif (number := hash(signature)) in self._used:
            found = self._by_signature.of(signature)
            found.store()
        else:
            if len(self._used) >= self._capacity:
                self._used.clear()
            self._used.add(number)
            new.restart(signature)
        by_template[template] = found
        if found is not None:
            found.templates += 1
        if len(by_template) > self._capacity:
            oldest, dropped = by_template.popitem(last=False)
            oldest.cache.clear()
            if dropped is not None:
                self._release(dropped)
        return new if found is None else found

    def _store_new(self) -> TemplateAnswers:
        """Store the answers for the last new signature, which a template uses again."""
        found = self._new
        found.store()
        self._by_signature.add(found)
        self._new = self._by_signature.make(None)
        return found
