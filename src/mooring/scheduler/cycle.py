"""One scheduling cycle: from a pod to a node, or to the reasons why there is none."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from time import perf_counter
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.columns.node_info import NodeInfo, PodInfo, WhatIfNode
from mooring.columns.nodes import Nodes
from mooring.columns.templates import PodTemplate
from mooring.framework.node_statuses import NodeStatuses, fit_message
from mooring.framework.preemption.candidate import AskExtenders, Candidate
from mooring.framework.state import CycleState, StateKey
from mooring.framework.status import NO_NOMINATION, SKIP_TEMPLATE, SUCCESS, Code, PostFilterResult, Status
from mooring.observe.attempt_trace import Trace
from mooring.scheduler.answer_cache import TemplateAnswerCache
from mooring.scheduler.answers import PluginFailure, failure, post_filter_answer, pre_filter_answer
from mooring.scheduler.filtering import Filtering
from mooring.scheduler.profile import Profile
from mooring.scheduler.sampling import Sampler, nodes_to_find
from mooring.scheduler.scoring import Scoring, pick
from mooring.scheduler.template_calls import TemplateCalls

Rows = npt.NDArray[np.intp]

NO_NODES = "no nodes available to schedule pods"


class Placement(msgspec.Struct, frozen=True):
    """A node was found."""

    node_name: str
    state: CycleState
    evaluated: int
    feasible: int


class Unplaced(msgspec.Struct, frozen=True):
    """No node was found, or something broke."""

    #: What the pod's condition and event say.
    message: str
    status: Status
    state: CycleState
    statuses: NodeStatuses | None = None
    post_filter: Status | None = None
    result: PostFilterResult = PostFilterResult()
    #: Plugins that turned the pod down: their events wake it.
    rejectors: frozenset[str] = frozenset()
    #: Plugins that let the pod wait for something: when it comes, no back-off is sat out.
    pending: frozenset[str] = frozenset()


class PreFiltered(msgspec.Struct, frozen=True):
    """The outcome of PreFilter."""

    status: Status
    #: Names of the nodes that are left; None for all.
    names: frozenset[str] | None = None
    narrowed_by: tuple[str, ...] = ()


class Diagnosis(msgspec.Struct, frozen=True):
    """Why no node will do."""

    statuses: NodeStatuses
    #: What PreFilter said, if it was PreFilter that turned the pod down.
    text: str = ""
    rejectors: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()


class Found(msgspec.Struct, frozen=True):
    """What the Filter plugins left."""

    #: None for all rows.
    rows: Rows | None
    #: How many nodes were looked at, and which (None for all).
    examined: int
    looked_at: Rows | None


class Cycle:
    """Decides for one profile. Between two calls the table may change; within one it must not."""

    def __init__(self, profile: Profile, sampler: Sampler, percentage: int | None = None) -> None:
        self.profile = profile
        self.handle = profile.handle
        self.table = profile.handle.table
        self._sampler = sampler
        self._percentage = percentage
        self.forget()
        self.take_over()
        #: Where the moments of an attempt are noted, if somebody wants to know.
        self.trace: Trace | None = None

    def take_over(self) -> None:
        """Be the one whom the profile's plugins ask what the others think."""
        self.handle.runner = self

    def forget(self) -> None:
        """Forget every answer that was kept: some plugin may answer otherwise now."""
        findings = TemplateAnswerCache(self.profile)
        self.filtering = Filtering(self.profile, self._sampler, findings)
        self.scoring = Scoring(self.profile, findings)
        self._pre_filter = TemplateCalls(self.profile.pre_filter)

    # The decision

    def schedule(self, pod: Pod) -> Placement | Unplaced:
        """Find a node for a pod."""
        state = CycleState()
        if not len(self.table):
            return no_nodes(state)
        try:
            return self._schedule(state, pod)
        except PluginFailure as broken:
            return broken_off(broken, state)

    def _schedule(self, state: CycleState, pod: Pod) -> Placement | Unplaced:
        template, trace = self.table.template(pod), self.trace
        before = self.pre_filter(state, pod)
        if trace is not None:
            trace.pre_filtered = perf_counter()
        if not before.status.is_success:
            return self._unplaced(state, pod, before, None)
        node = self.nominated(state, pod)
        if node is not None:
            return Placement(node.name, state, 1, 1)
        found = self.find(state, pod, template, self.rows_of(before.names))
        rows = found.rows
        if trace is not None:
            trace.filtered = perf_counter()
        count = len(self.table) if rows is None else len(rows)
        if count == 0:
            return self._unplaced(state, pod, before, found.looked_at)
        if count == 1 or not self.profile.scorers:
            row = 0 if rows is None else int(rows[0])
        else:
            totals, same = self.scoring.totals(state, pod, template, rows, trace)
            place = pick(totals, self.handle.random)
            row = place if rows is None else int(rows[place])
            if trace is not None:
                trace.scored = perf_counter()
                if trace.ranks:
                    self.scoring.rank(trace, state, pod, template, rows, totals, same, place)
        return Placement(self.table.nodes[row].name, state, found.examined, count)

    def find(
        self, state: CycleState, pod: Pod, template: PodTemplate, among: Rows | None, *, sample: bool = False
    ) -> Found:
        """Run Filter on some rows (None for all); ``sample`` looks at no more nodes than kube-scheduler would."""
        wanted = self._wanted(len(self.table) if among is None else len(among), sample=sample)
        rows, examined = self.filtering.feasible(state, pod, template, among, wanted)
        if wanted is None and not self.profile.per_node:
            return Found(rows, examined, among)
        looked_at = among
        if sample and rows is not None and len(rows) == wanted:
            order = self._sampler.rotated() if among is None else among
            looked_at = np.sort(order[:examined])
        self._sampler.advance(examined)
        return Found(rows, examined, looked_at)

    def _wanted(self, total: int, *, sample: bool) -> int | None:
        """How many feasible nodes are enough; None for all of them."""
        if not self.profile.scorers and not sample:
            return 1
        percentage = self._percentage or 0
        sample = sample or self.profile.per_node
        if percentage == 0 and not sample:
            return None
        wanted = nodes_to_find(total, percentage)
        return None if wanted >= total and not self.profile.per_node else wanted

    def nominated(self, state: CycleState, pod: Pod) -> NodeInfo | None:
        """The node that room was made on, if the Filter plugins agree to it now, whatever PreFilter left."""
        name = pod.status.nominated_node_name or self.handle.nominator.node_of(pod.uid)
        row = self.table.row_of.get(name) if name else None
        if row is None:
            return None
        node = self.table.nodes[row]
        try:
            status = self.filtering.verdict(state, pod, node)
        except PluginFailure:
            return None  # as kube-scheduler: the other nodes are tried before anything is reported
        return node if status.is_success else None

    def rows_of(self, names: frozenset[str] | None) -> Rows | None:
        """The rows of some nodes, in order; None for all."""
        if names is None:
            return None
        known = (self.table.row_of.get(name) for name in names)
        return np.array(sorted(row for row in known if row is not None), dtype=np.intp)

    # PreFilter

    def pre_filter(self, state: CycleState, pod: Pod) -> PreFiltered:
        """Run PreFilter: skips, narrowing, rejections."""
        nodes = Nodes(self.table)
        rejected: Status | None = None
        names: frozenset[str] | None = None
        narrowed: list[str] = []
        settled: list[str] = []
        skipped: list[str] = []
        entries: dict[StateKey[Any], Any] = {}
        calls = self._pre_filter.of(self.table.template(pod), state)
        constant = calls.constant
        state.skip_filter |= calls.skipped
        for bound in calls.asked:
            before = len(state) if bound.name in constant else None
            try:
                answer = bound.call(state, pod, nodes)
                if answer is None:
                    if before is not None:
                        settled.append(bound.name)
                        entries |= state.written_since(before)
                    continue
                status, result = pre_filter_answer(answer)
            except Exception as error:
                raise failure(f'running PreFilter plugin "{bound.name}"', bound.name, error) from error
            if status.code is Code.SKIP:
                state.skip_filter.add(bound.name)
                if status is SKIP_TEMPLATE or before is not None:
                    settled.append(bound.name)
                    skipped.append(bound.name)
                    if before is not None:
                        entries |= state.written_since(before)
                continue
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PreFiltered(status.by(bound.name))
            if status.code is Code.UNSCHEDULABLE:
                rejected = status.by(bound.name)
                continue
            if not status.is_success:
                text = f'running PreFilter plugin "{bound.name}": {status.message}'
                raise PluginFailure(Status.error(text).by(bound.name))
            if result is not None and result.node_names is not None:
                narrowed.append(bound.name)
                names = result.node_names if names is None else names & result.node_names
                if not names:
                    return PreFiltered(_nothing_left(narrowed))
        if settled and calls.lasting:
            calls.settle(settled, skipped, entries)
        return PreFiltered(rejected or SUCCESS, names, tuple(narrowed)) if rejected or narrowed else _ALL_NODES

    # No node

    def _unplaced(self, state: CycleState, pod: Pod, before: PreFiltered, among: Rows | None) -> Unplaced:
        diagnosis = self.diagnosis(state, pod, before, among)
        if self.trace is not None:
            self.trace.post_filter_started = perf_counter()
        return self.turned_down(state, diagnosis, *self.post_filter(state, pod, diagnosis.statuses))

    def diagnosis(self, state: CycleState, pod: Pod, before: PreFiltered, among: Rows | None) -> Diagnosis:
        """What PreFilter, or each Filter plugin, has against the nodes (of these rows; None for all)."""
        if not before.status.is_success:
            plugin = before.status.plugin
            rejectors = frozenset((plugin,)) if plugin else frozenset()
            return Diagnosis(NodeStatuses(self.table, before.status), before.status.message, rejectors)
        statuses, _ = self.filtering.diagnose(state, pod, among, absent_status(before))
        rejectors = statuses.plugins() | frozenset(before.narrowed_by)
        return Diagnosis(statuses, "", rejectors, statuses.plugins(pending=True))

    def turned_down(
        self, state: CycleState, diagnosis: Diagnosis, result: PostFilterResult, post: Status | None
    ) -> Unplaced:
        """The end of an attempt that found no node."""
        after = post.message if post is not None else ""
        message = fit_message(len(self.table), diagnosis.statuses, diagnosis.text, after)
        status, statuses = Status.unschedulable(message), diagnosis.statuses
        return Unplaced(message, status, state, statuses, post, result, diagnosis.rejectors, diagnosis.pending)

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult, Status | None]:
        """Run PostFilter where no extender has a say in it."""
        try:
            next(self.post_filtering(state, pod, statuses))
        except StopIteration as done:
            result: tuple[PostFilterResult, Status | None] = done.value
            return result
        raise RuntimeError("a PostFilter plugin wants to ask extenders, but none is interested in the pod")

    def post_filtering(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> Generator[AskExtenders, Sequence[Candidate] | Status, tuple[PostFilterResult, Status | None]]:
        """Run PostFilter until one succeeds, gives up for good, or breaks; what it asks extenders is handed out."""
        reasons: list[str] = []
        first, kept = "", PostFilterResult()
        for bound in self.profile.post_filter:
            try:
                answer = bound.call(state, pod, statuses)
                if isinstance(answer, AskExtenders):
                    answer = answer.then((yield answer))
                result, status = post_filter_answer(answer)
            except Exception as error:
                broken = failure(f'running PostFilter plugin "{bound.name}"', bound.name, error)
                return kept, broken.status
            if status.is_success or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return result, status.by(bound.name)
            if not status.is_rejected:
                return kept, Status.error(*status.reasons).by(bound.name)
            if result.nominated_node is not None:
                kept = result
            reasons += status.reasons
            first = first or bound.name
        if not self.profile.post_filter:
            return NO_NOMINATION, None
        return kept, Status.unschedulable(*reasons).by(first)

    # What DefaultPreemption and other plugins that try something are lent

    def filter_what_if(self, state: CycleState, pod: Pod, node: WhatIfNode) -> Status:
        """What the Filter plugins say of a node with other pods on it, nominated pods included."""
        try:
            return self.filtering.filter_what_if(state, pod, node)
        except PluginFailure as broken:
            return broken.status

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
        """Tell the PreFilter plugins that a pod was added to a node."""
        self.filtering.add_pod(state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        """Tell the PreFilter plugins that a pod was removed from a node."""
        self.filtering.remove_pod(state, pod, removed, node)

    def filter_plugins(self, state: CycleState) -> tuple[object, ...]:
        """The Filter plugins that are asked in this attempt, in order."""
        return tuple(f.plugin for f in self.profile.filters if f.name not in state.skip_filter)


_ALL_NODES = PreFiltered(SUCCESS)


def no_nodes(state: CycleState) -> Unplaced:
    """An attempt in a cluster without nodes."""
    return Unplaced(NO_NODES, Status.unschedulable(NO_NODES), state, result=NO_NOMINATION)


def broken_off(broken: PluginFailure, state: CycleState) -> Unplaced:
    """An attempt that something broken ended. As in kube-scheduler, the pod loses its claim on a node."""
    return Unplaced(broken.status.message, broken.status, state, result=NO_NOMINATION)


def absent_status(before: PreFiltered) -> Status | None:
    """The verdict on nodes that PreFilter left out."""
    if before.names is None:
        return None
    return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(before.narrowed_by))}]")


def _nothing_left(narrowed: list[str]) -> Status:
    if len(narrowed) == 1:
        return Status.unresolvable(f"node(s) didn't satisfy plugin {narrowed[0]}")
    return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowed))}] simultaneously")
