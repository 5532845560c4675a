"""Findings: what the plugins said of the nodes for one kind of pod, kept for the next pod of it.

Hot path. Plugins that declare what they depend on (``depends_on``) are asked about all nodes once per template; after
that only about rows that changed. Two kinds of change are told apart: the node object (rare), and the pods on it
(every placement). Nothing here ever changes an answer: a property test compares with findings made afresh.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence, Sized
from typing import Any

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.columns.node_info import NodeInfo
from mooring.columns.nodes import Nodes
from mooring.columns.table import NodeTable
from mooring.columns.templates import PodTemplate
from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS, Status
from mooring.framework.verdicts import Verdicts
from mooring.scheduler.answers import (
    BadAnswerError,
    PluginFailure,
    as_score,
    as_status,
    checked_scores,
    failure,
)
from mooring.scheduler.profile import FilterPlugin, Profile, ScorePlugin

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
#: So many changed rows are asked about one by one, if the plugin can; more are asked about in columns.
_FEW = 2


class Findings:
    """For one template in one profile: which nodes pass the declared filters, and their declared scores."""

    __slots__ = (
        "_node_filters",
        "_node_ok",
        "_node_position",
        "_ok",
        "_pod_filters",
        "_position",
        "_raw_by_node",
        "_raw_by_pods",
        "_score_node_position",
        "_score_position",
        "_score_structure",
        "_skip",
        "_skip_score",
        "_structure",
        "_summed",
        "_summed_singly",
        "_table",
        "alive",
        "key",
        "raw",
        "total",
    )

    def __init__(self, table: NodeTable, key: Hashable) -> None:
        self._table = table
        self.key = key
        self.alive = True
        self._structure = -1
        self._position = -1
        self._node_position = -1
        self._skip: frozenset[str] = frozenset()
        self._node_filters: tuple[FilterPlugin, ...] = ()
        self._pod_filters: tuple[FilterPlugin, ...] = ()
        #: Which nodes pass the filters that depend on the node alone, and which pass all declared filters; None: all.
        self._node_ok: Mask | None = None
        self._ok: Mask | None = None
        self._score_structure = -1
        self._score_position = -1
        self._skip_score: frozenset[str] = frozenset()
        self._score_node_position = -1
        self._summed: tuple[ScorePlugin, ...] = ()
        self._summed_singly = False
        self._raw_by_node: tuple[ScorePlugin, ...] = ()
        self._raw_by_pods: tuple[ScorePlugin, ...] = ()
        #: Raw scores of declared scorers that normalise, by name; a number where all nodes score the same.
        self.raw: dict[str, Ints | int] = {}
        #: Weighted sum of the other declared scorers.
        self.total: Ints = np.zeros(0, dtype=np.int64)

    def drop(self) -> None:
        """Give the memory back."""
        self.alive = False
        self._node_ok = self._ok = None
        self._structure = self._score_structure = -1
        self.raw = {}
        self.total = np.zeros(0, dtype=np.int64)

    # Filters

    def passing(self, profile: Profile, state: CycleState, pod: Pod) -> Mask | None:
        """Which rows pass the declared filters (None: all); brought up to date. Do not write it."""
        self._refresh_filters(profile, state, pod)
        return self._ok

    def _refresh_filters(self, profile: Profile, state: CycleState, pod: Pod) -> None:
        table = self._table
        if self._structure != table.structure or self._skip != state.skip_filter & profile.declared:
            self._all_filters(profile, state, pod)
            return
        changed = table.changes.since(self._position, len(table) >> 2)
        if changed == []:
            return
        node_changed = table.node_changes.since(self._node_position, len(table) >> 2)
        if changed is None or node_changed is None:
            self._all_filters(profile, state, pod)
            return
        if node_changed:
            self._node_ok = self._some(self._node_filters, state, pod, node_changed, self._node_ok, None)
        self._ok = self._some(self._pod_filters, state, pod, changed, self._ok, self._node_ok)
        self._mark()

    def _all_filters(self, profile: Profile, state: CycleState, pod: Pod) -> None:
        self._skip = profile.declared & state.skip_filter
        self._node_filters, self._pod_filters = profile.declared_filters(self._skip)
        nodes = Nodes(self._table)
        self._node_ok = self._ask_all(self._node_filters, state, pod, nodes, None)
        self._ok = self._ask_all(self._pod_filters, state, pod, nodes, self._node_ok)
        self._mark()

    @staticmethod
    def _ask_all(
        filters: Sequence[FilterPlugin], state: CycleState, pod: Pod, nodes: Nodes, base: Mask | None
    ) -> Mask | None:
        """Which rows pass some filters, of those that ``base`` allows. None for all rows, here and there."""
        result = base
        for plugin in filters:
            verdicts = ask_filter(plugin, state, pod, nodes)
            if verdicts is not None:
                passed = verdicts.codes == 0
                result = passed if result is None else result & passed
        return result

    def _some(
        self,
        filters: Sequence[FilterPlugin],
        state: CycleState,
        pod: Pod,
        rows: list[int],
        known: Mask | None,
        base: Mask | None,
    ) -> Mask | None:
        """Ask some filters about some rows again; the answer is ``known`` with these rows brought up to date."""
        if len(rows) <= _FEW and all(plugin.filter is not None for plugin in filters):
            passed = [
                (base is None or bool(base[row])) and self._passes(filters, state, pod, self._table.nodes[row])
                for row in rows
            ]
        else:
            asked = self._ask_all(filters, state, pod, Nodes(self._table, np.array(rows)), None)
            passed = [True] * len(rows) if asked is None else asked.tolist()
            if base is not None:
                passed = (base[rows] & passed).tolist()
        if known is None:
            if all(passed):
                return None
            known = np.ones(len(self._table), dtype=np.bool_)
        elif known is base:
            known = known.copy()
        known[rows] = passed
        return known

    @staticmethod
    def _passes(filters: Sequence[FilterPlugin], state: CycleState, pod: Pod, node: NodeInfo) -> bool:
        for plugin in filters:
            if ask_single(plugin, state, pod, node) is not SUCCESS:
                return False
        return True

    def _mark(self) -> None:
        table = self._table
        self._structure = table.structure
        self._position = table.changes.position
        self._node_position = table.node_changes.position

    # Scores

    def refresh_scores(self, profile: Profile, state: CycleState, pod: Pod) -> None:
        """Bring ``raw`` and ``total`` up to date."""
        table = self._table
        if self._score_structure != table.structure or self._skip_score != state.skip_score & profile.declared:
            self._all_scores(profile, state, pod)
            return
        changed = table.changes.since(self._score_position, len(table) >> 2)
        if changed == []:
            return
        node_changed = table.node_changes.since(self._score_node_position, len(table) >> 2)
        if changed is None or node_changed is None:
            self._all_scores(profile, state, pod)
            return
        self._patch_raw(self._raw_by_pods, state, pod, changed)
        if node_changed:
            self._patch_raw(self._raw_by_node, state, pod, node_changed)
        self._patch_total(state, pod, changed)
        self._mark_scores()

    def _all_scores(self, profile: Profile, state: CycleState, pod: Pod) -> None:
        self._skip_score = profile.declared & state.skip_score
        self._summed, self._raw_by_node, self._raw_by_pods, self._summed_singly = profile.declared_scorers(
            self._skip_score
        )
        nodes = Nodes(self._table)
        self.raw = {}
        for plugin in self._raw_by_node:
            self.raw[plugin.name] = ask_score(plugin, state, pod, nodes)
        for plugin in self._raw_by_pods:
            self.raw[plugin.name] = ask_score(plugin, state, pod, nodes)
        total: Ints | None = None
        for plugin in self._summed:
            scores = ask_score(plugin, state, pod, nodes)
            if isinstance(scores, int):
                scores = np.full(len(nodes), scores, dtype=np.int64)
            if plugin.weight != 1:
                scores = scores * plugin.weight
            if total is None:
                total = scores if plugin.trusted and scores.flags.owndata else scores.copy()
            else:
                total += scores
        self.total = total if total is not None else np.zeros(len(nodes), dtype=np.int64)
        self._mark_scores()

    def _mark_scores(self) -> None:
        table = self._table
        self._score_structure = table.structure
        self._score_position = table.changes.position
        self._score_node_position = table.node_changes.position

    def _patch_raw(self, plugins: Sequence[ScorePlugin], state: CycleState, pod: Pod, rows: list[int]) -> None:
        if not plugins:
            return
        nodes = Nodes(self._table, np.array(rows))
        for plugin in plugins:
            scores, known = ask_score(plugin, state, pod, nodes), self.raw[plugin.name]
            if isinstance(known, int):
                if isinstance(scores, int) and scores == known:
                    continue
                known = self.raw[plugin.name] = np.full(len(self._table), known, dtype=np.int64)
            elif not known.flags.writeable or known.base is not None:
                known = self.raw[plugin.name] = known.copy()
            known[rows] = scores

    def _patch_total(self, state: CycleState, pod: Pod, rows: list[int]) -> None:
        scorers = self._summed
        if len(rows) <= _FEW and self._summed_singly:
            for row in rows:
                node, total = self._table.nodes[row], 0
                for plugin in scorers:
                    total += plugin.weight * ask_single_score(plugin, state, pod, node)
                self.total[row] = total
            return
        nodes = Nodes(self._table, np.array(rows))
        self.total[rows] = 0
        for plugin in scorers:
            self.total[rows] += ask_score(plugin, state, pod, nodes) * plugin.weight


class FindingsCache:
    """The findings of one profile, shared by templates with equal signatures.

    Bounded in bytes, because every entry is a few bytes a node; and what plugins keep for a template goes when the
    template has not been seen for long.
    """

    def __init__(self, profile: Profile, *, budget_bytes: int = 128 << 20, templates: int = 8192) -> None:
        self._table = profile.handle.table
        self._budget = budget_bytes
        self._capacity = templates
        self._kept: OrderedDict[Hashable, Findings] = OrderedDict()
        self._templates: OrderedDict[PodTemplate, Findings] = OrderedDict()
        self._signers = tuple(profile.signer(name) for name in sorted(profile.declared))

    def of(self, template: PodTemplate) -> Findings:
        """The findings for a template, empty if there are none yet."""
        found = self._templates.get(template)
        if found is not None and found.alive:
            self._templates.move_to_end(template)
            self._kept.move_to_end(found.key)
            return found
        key = tuple([sign(template) for sign in self._signers])
        found = self._kept.get(key)
        if found is None:
            self._evict()
            found = self._kept[key] = Findings(self._table, key)
        else:
            self._kept.move_to_end(key)
        self._templates[template] = found
        if len(self._templates) > self._capacity:
            oldest, _ = self._templates.popitem(last=False)
            oldest.cache.clear()
        return found

    def _evict(self) -> None:
        capacity = max(16, self._budget // (24 * (len(self._table) + 64)))
        while len(self._kept) >= capacity:
            _, oldest = self._kept.popitem(last=False)
            oldest.drop()


def ask_filter(plugin: FilterPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
    """A filter's verdicts for some nodes, whichever form it has."""
    if plugin.filter_nodes is None:
        return Verdicts.of([ask_single(plugin, state, pod, node) for node in nodes])
    try:
        verdicts = plugin.filter_nodes(state, pod, nodes)
        if verdicts is None:
            return None
        if type(verdicts) is not Verdicts or len(verdicts.codes) != len(nodes):
            raise BadAnswerError(f"filter_nodes returned {_shape(verdicts)}; return None or Verdicts, one a node")
        if verdicts.may_fail:
            _raise_error(plugin, verdicts)
    except Exception as error:
        raise failure(f'running "{plugin.name}" filter plugin', plugin.name, error) from error
    return verdicts


def _raise_error(plugin: FilterPlugin, verdicts: Verdicts) -> None:
    """An Error about any node ends the attempt."""
    for code in np.unique(verdicts.codes[verdicts.codes != 0]).tolist():
        status = verdicts.status(code)
        if not status.is_rejected:
            raise PluginFailure(filter_error(plugin.name, status))


def filter_error(plugin: str, status: Status) -> Status:
    """A filter's Error as kube-scheduler words it."""
    return Status.error(f'running "{plugin}" filter plugin: {status.message}').by(plugin)


def ask_single(plugin: FilterPlugin, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
    """A per-node filter's verdict; an Error ends the attempt."""
    try:
        answer = plugin.filter(state, pod, node)  # type: ignore[misc]  # asked only where the plugin has this form
        if answer is None:
            return SUCCESS
        status = as_status(answer)
    except Exception as error:
        raise failure(f'running "{plugin.name}" filter plugin', plugin.name, error) from error
    if status.is_success:
        return SUCCESS
    if not status.is_rejected:
        raise PluginFailure(filter_error(plugin.name, status))
    return status


def ask_score(plugin: ScorePlugin, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
    """A scorer's raw scores for some nodes, whichever form it has."""
    try:
        if plugin.score_nodes is None:
            call: Callable[..., Any] = plugin.score  # type: ignore[assignment]  # it has one of the two forms
            return np.fromiter((as_score(call(state, pod, node)) for node in nodes), dtype=np.int64, count=len(nodes))
        return checked_scores(plugin.score_nodes(state, pod, nodes), len(nodes))
    except Exception as error:
        raise failure(f'running Score plugin "{plugin.name}"', plugin.name, error) from error


def ask_single_score(plugin: ScorePlugin, state: CycleState, pod: Pod, node: NodeInfo) -> int:
    """A per-node scorer's score."""
    try:
        return as_score(plugin.score(state, pod, node))  # type: ignore[misc]  # asked only where the plugin has this form
    except Exception as error:
        raise failure(f'running Score plugin "{plugin.name}"', plugin.name, error) from error


def _shape(answer: object) -> str:
    size = f" of {len(answer)}" if isinstance(answer, Sized) else ""
    return f"{type(answer).__name__}{size}"
