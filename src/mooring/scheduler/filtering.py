"""Filtering: finds the feasible nodes, and the reasons why the others are not feasible.

Hot path. Answers of declared filters are cached per template; the other filters run on columns. Plugins that evaluate
single nodes run last, on the remaining nodes in sampling order, until enough are found. If no node is feasible,
``diagnose`` runs the plugins in their configured order and attributes each node to the first plugin that rejected it,
as kube-scheduler does.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.checkpoints import checkpoint
from mooring.columns.node_info import NodeInfo, PodInfo, WhatIfNode
from mooring.columns.nodes import Nodes, WhatIfNodes
from mooring.columns.templates import PodTemplate
from mooring.framework.node_statuses import NodeStatuses, Rejections
from mooring.framework.plugin_errors import contain
from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS, Status
from mooring.framework.verdicts import Verdicts
from mooring.scheduler.answer_cache import TemplateAnswerCache
from mooring.scheduler.answers import FilterError, PluginFailure, as_status, failure
from mooring.scheduler.plugin_calls import call_filter, call_single_filter
from mooring.scheduler.profile import FilterPlugin, Profile
from mooring.scheduler.sampling import Sampler

Rows = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]


class Filtering:
    """The Filter plugins of a profile."""

    def __init__(self, profile: Profile, sampler: Sampler, answers: TemplateAnswerCache) -> None:
        self.profile = profile
        self.table = profile.handle.table
        self.nominator = profile.handle.nominator
        self._sampler = sampler
        self._answers = answers
        self._columns = tuple(f for f in profile.filters if f.depends is None and not f.per_node)
        self._in_bulk = tuple(f for f in profile.filters if not f.per_node)
        self._singles = tuple(f for f in profile.filters if f.per_node)

    def feasible(
        self, state: CycleState, pod: Pod, template: PodTemplate, among: Rows | None, wanted: int | None
    ) -> tuple[Rows | None, int]:
        """Return the feasible rows (None for all), and how many nodes were examined.

        ``among`` limits the search to the rows that PreFilter left; ``wanted`` ends it when that many are found.
        """
        try:
            ok = self._column_mask(state, pod, template, among)
        except FilterError:
            ok = self._mask_among(self.profile.filters, state, pod, among)
        if self.nominator:
            ok = self._without_crowded(state, pod, self._as_mask(ok))
        if wanted is None and ok is None and not self._singles and self.table.share is None:
            return None, len(self.table.nodes)
        if self.table.share is not None:  # nodes of other members only if no own node is feasible
            own = self._as_mask(ok) & self.table.share.mask(self.table)
            found = self._find(state, pod, template, own, among, wanted)
            if found[0] is None or len(found[0]):
                return found
        return self._find(state, pod, template, ok, among, wanted)

    def _find(
        self,
        state: CycleState,
        pod: Pod,
        template: PodTemplate,
        ok: Mask | None,
        among: Rows | None,
        wanted: int | None,
    ) -> tuple[Rows | None, int]:
        """Return the feasible rows among those that pass the filters on columns, and how many nodes were examined."""
        singles = [f for f in self._singles if f.name not in state.skip_filter] if self._singles else []
        if wanted is None and not singles:
            rows = None if ok is None else self._answers.of(template).passing_rows(ok)
            return rows, len(self.table.nodes)
        return self._search(state, pod, self._as_mask(ok), singles, among, wanted)

    def declared(self, state: CycleState, pod: Pod, template: PodTemplate) -> Mask | None:
        """Return which rows pass the declared filters (None: all). Do not modify it: it is cached."""
        return self._answers.of(template).passing(self.profile, state, pod)

    def _as_mask(self, ok: Mask | None) -> Mask:
        return np.ones(len(self.table), dtype=np.bool_) if ok is None else ok

    def _column_mask(self, state: CycleState, pod: Pod, template: PodTemplate, among: Rows | None) -> Mask | None:
        """Return which rows pass all filters that work on columns (None: all). Do not modify it: it may be cached."""
        if among is not None:
            return self._mask_among(self._in_bulk, state, pod, among)
        answers = self._answers.for_next(template)
        ok = answers.passing(self.profile, state, pod)
        nodes, skip = Nodes(self.table), state.skip_filter
        found: list[Verdicts] = []
        for plugin in self._columns:
            if plugin.name in skip:
                continue
            verdicts = call_filter(plugin, state, pod, nodes)
            if verdicts is not None:
                found.append(verdicts)
        return answers.passing_also(found) if found else ok

    def _mask_among(self, filters: tuple[FilterPlugin, ...], state: CycleState, pod: Pod, among: Rows | None) -> Mask:
        """Return which rows pass some filters, run in order."""
        ok = np.zeros(len(self.table), dtype=np.bool_)
        ok[self._pass_in_order(filters, state, pod, among)] = True
        return ok

    def _pass_in_order(
        self,
        filters: tuple[FilterPlugin, ...],
        state: CycleState,
        pod: Pod,
        among: Rows | None,
        statuses: NodeStatuses | None = None,
        *,
        keep_errors: bool = False,
    ) -> Rows:
        """Return the rows that pass some filters. Each filter runs on the rows that those before it have left.

        So the Error of a filter counts only for nodes that all filters before it pass: it raises PluginFailure, or with
        ``keep_errors`` rejects its node. ``statuses`` gets the rejections.
        """
        rows = np.arange(len(self.table)) if among is None else among
        nodes = Nodes(self.table, rows)
        for plugin in filters:
            if not len(rows):
                break
            if plugin.name in state.skip_filter:
                continue
            verdicts = call_filter(plugin, state, pod, nodes, keep_errors=keep_errors)
            if verdicts is None:
                continue
            rejected = verdicts.codes != 0
            if rejected.any():
                if statuses is not None:
                    statuses.add(Rejections(plugin.name, rows[rejected], verdicts.codes[rejected], verdicts.status))
                rows = rows[~rejected]
                nodes = Nodes(self.table, rows)
        return rows

    def _without_crowded(self, state: CycleState, pod: Pod, ok: Mask) -> Mask:
        """Exclude the rows that are not feasible with the pods nominated to them."""
        ok = ok.copy()
        for row in self._with_nominated(pod):
            if ok[row] and not self._nominated_verdict(state, pod, self.table.nodes[row]).is_success:
                ok[row] = False
        return ok

    def _search(
        self,
        state: CycleState,
        pod: Pod,
        ok: Mask,
        singles: list[FilterPlugin],
        among: Rows | None,
        wanted: int | None,
    ) -> tuple[Rows | None, int]:
        order = self._sampler.rotated() if among is None else among
        places = np.flatnonzero(ok[order])
        limit = len(order) if wanted is None else wanted
        if not singles:
            found = places[:limit]
            examined = int(found[-1]) + 1 if len(places) > limit else len(order)
            return order[found], examined
        nodes = self.table.nodes
        chosen: list[int] = []
        in_bulk = [f for f in singles if f.filter_nodes is not None]
        singles = [f for f in singles if f.filter_nodes is None]
        start = 0
        while start < len(places):  # few of many nodes are needed: do not evaluate all of them
            size = min(_CHUNK, limit - len(chosen)) if in_bulk else _CHUNK
            chunk = self._passing(in_bulk, state, pod, order, places[start : start + size])
            start += size
            for place, row in zip(chunk.tolist(), order[chunk].tolist(), strict=True):
                node = nodes[row]
                checkpoint()
                for plugin in singles:
                    if call_single_filter(plugin, state, pod, node) is not SUCCESS:
                        break
                else:
                    chosen.append(row)
                    if len(chosen) >= limit:
                        return np.array(chosen, dtype=np.intp), place + 1
        return np.array(chosen, dtype=np.intp), len(order)

    def _passing(self, in_bulk: list[FilterPlugin], state: CycleState, pod: Pod, order: Rows, places: Rows) -> Rows:
        """Return the places whose nodes pass the filters that take several nodes at a time."""
        for plugin in in_bulk:
            verdicts = call_filter(plugin, state, pod, Nodes(self.table, order[places]))
            if verdicts is not None:
                places = places[verdicts.codes == 0]
            if not len(places):
                break
        return places

    # Nominated pods

    def _with_nominated(self, pod: Pod) -> list[int]:
        if not self.nominator:
            return []
        rows = []
        for name in self.nominator.nodes():
            row = self.table.row_of.get(name)
            if row is not None and self._rivals(pod, name):
                rows.append(row)
        return rows

    def _rivals(self, pod: Pod, node_name: str) -> list[PodInfo]:
        """Return the pods nominated to a node with the same or a higher priority."""
        return [
            info
            for info in self.nominator.on_node(node_name)
            if info.pod.uid != pod.uid and info.pod.priority >= pod.priority
        ]

    def _nominated_verdict(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """Run the filters on a node with the pods nominated to it."""
        checkpoint()
        what_if = self._copy(node)
        clone = state.clone()
        for rival in self._rivals(pod, node.name):
            what_if.add_pod(rival)
            self.add_pod(clone, pod, rival, what_if)
        return self._verdict(clone, pod, what_if)

    @staticmethod
    def _copy(node: NodeInfo) -> WhatIfNode:
        copy = WhatIfNode(node)
        if isinstance(node, WhatIfNode):
            for info in node.removed.values():
                copy.remove_pod(info)
            for info in node.added.values():
                copy.add_pod(info)
        return copy

    # One node, real or hypothetical

    def verdict(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """Run the filters on one node, nominated pods included."""
        if self.nominator and self._rivals(pod, node.name):
            status = self._nominated_verdict(state, pod, node)
            if not status.is_success:
                return status
        return self._verdict(state, pod, node)

    def filter_what_if(self, state: CycleState, pod: Pod, node: WhatIfNode) -> Status:
        """Run the filters on a hypothetical node, nominated pods included."""
        checkpoint()
        return self.verdict(state, pod, node)

    def _verdict(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        nodes = WhatIfNodes(node) if isinstance(node, WhatIfNode) else Nodes(self.table, np.array([node.row]))
        for plugin in self.profile.filters:
            if plugin.name in state.skip_filter:
                continue
            status = self._filter_one(plugin, state, pod, node, nodes)
            if not status.is_success:
                return status.by(plugin.name)
        return SUCCESS

    def _filter_one(self, plugin: FilterPlugin, state: CycleState, pod: Pod, node: NodeInfo, nodes: Nodes) -> Status:
        if plugin.filter_nodes is None:
            return call_single_filter(plugin, state, pod, node)
        verdicts = call_filter(plugin, state, pod, nodes)
        if verdicts is None or not verdicts.codes[0]:
            return SUCCESS
        return verdicts.status(int(verdicts.codes[0]))

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
        """Notify the PreFilter plugins that a pod was added to a node."""
        self._extension("add_pod", "AddPod", state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        """Notify the PreFilter plugins that a pod was removed from a node."""
        self._extension("remove_pod", "RemovePod", state, pod, removed, node)

    def _extension(self, method: str, title: str, state: CycleState, pod: Pod, other: PodInfo, node: NodeInfo) -> None:
        for bound in self.profile.pre_filter:
            call = self.profile.extension(bound.plugin, method)
            if call is None or bound.name in state.skip_filter:
                continue
            where = f'running {title} on PreFilter plugin "{bound.name}"'
            try:
                status = as_status(call(state, pod, other, node))
            except BaseException as error:
                contain(error)
                raise failure(where, bound.name, error) from error
            if not status.is_success:
                raise PluginFailure(Status.error(f"{where}: {status.message}").by(bound.name))

    # Attribution

    def diagnose(
        self, state: CycleState, pod: Pod, among: Rows | None, absent: Status | None, *, keep_errors: bool = False
    ) -> tuple[NodeStatuses, Rows]:
        """Return the status of each node, from the first plugin in order that rejected it, and the feasible rows.

        With ``keep_errors``, an Error is the status of its node; otherwise it raises PluginFailure.
        """
        statuses = NodeStatuses(self.table, absent) if absent is not None else NodeStatuses(self.table)
        rows = self._pass_in_order(self.profile.filters, state, pod, among, statuses, keep_errors=keep_errors)
        rows = self._diagnose_nominated(statuses, state, pod, among, rows)
        return statuses, rows

    def _diagnose_nominated(
        self, statuses: NodeStatuses, state: CycleState, pod: Pod, among: Rows | None, passing: Rows
    ) -> Rows:
        crowded = self._with_nominated(pod)
        if among is not None:
            inside = set(among.tolist())
            crowded = [row for row in crowded if row in inside]
        refused = []
        for row in crowded:
            status = self._nominated_verdict(state, pod, self.table.nodes[row])
            if not status.is_success:
                statuses.set(row, status)
                refused.append(row)
        return passing[~np.isin(passing, refused)] if refused else passing


#: How many nodes are evaluated before the limit is checked.
_CHUNK = 512
