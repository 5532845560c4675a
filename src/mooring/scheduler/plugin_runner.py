"""PluginRunner: runs the plugins of one profile at the extension points of the scheduling cycle."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.checkpoints import checkpoint
from mooring.columns.node_info import NodeInfo, PodInfo, WhatIfNode
from mooring.columns.nodes import Nodes
from mooring.columns.templates import PodTemplate
from mooring.config.model import TieBreak
from mooring.framework.device_allocations import AllocationScorer
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.plugin_errors import contain
from mooring.framework.preemption.candidate import AskExtenders, Candidate
from mooring.framework.state import CycleState, StateKey
from mooring.framework.status import (
    NO_NOMINATION,
    SKIP_TEMPLATE,
    SKIP_THIS_VERSION,
    SUCCESS,
    Code,
    PostFilterResult,
    Status,
)
from mooring.observe.attempt_trace import Trace
from mooring.scheduler.answer_cache import TemplateAnswerCache
from mooring.scheduler.answers import PluginFailure, failure, post_filter_answer, pre_filter_answer
from mooring.scheduler.filtering import Filtering
from mooring.scheduler.profile import Profile
from mooring.scheduler.sampling import Sampler, nodes_to_find
from mooring.scheduler.scoring import Scoring, Selection
from mooring.scheduler.template_calls import TemplateCalls

Rows = npt.NDArray[np.intp]


class PreFiltered(msgspec.Struct, frozen=True):
    """The outcome of PreFilter."""

    status: Status
    #: The names of the remaining nodes; None for all.
    names: frozenset[str] | None = None
    narrowed_by: tuple[str, ...] = ()

    @property
    def absent_status(self) -> Status | None:
        """The status of nodes that PreFilter excluded; None if it excluded none."""
        if self.names is None:
            return None
        return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.narrowed_by))}]")


class Filtered(msgspec.Struct, frozen=True):
    """The outcome of Filter."""

    #: The feasible rows; None for all.
    rows: Rows | None
    #: How many nodes were examined, and which (None for all).
    examined: int
    examined_rows: Rows | None


class PluginRunner:
    """A runner of the plugins of one profile. The table may change between two attempts, but not within one."""

    def __init__(
        self, profile: Profile, sampler: Sampler, percentage: int | None = None, tie_break: TieBreak = "random"
    ) -> None:
        self.profile = profile
        self.handle = profile.handle
        self.table = profile.handle.table
        self._sampler = sampler
        self._percentage = percentage
        #: Selects a node by its total.
        self.selection = Selection(self.table, profile.handle.random, tie_break)
        self.clear_cached_answers()
        #: Where an attempt records its timings; None if they are not needed.
        self.trace: Trace | None = None

    def activate(self) -> None:
        """Become the handle's runner."""
        self.handle.runner = self

    def clear_cached_answers(self) -> None:
        """Drop all cached answers, because a plugin was disabled or enabled."""
        answers = TemplateAnswerCache(self.profile)
        self.filtering = Filtering(self.profile, self._sampler, answers)
        self.scoring = Scoring(self.profile, answers)
        self._pre_filter = TemplateCalls(self.profile.pre_filter, self.profile)

    # PreFilter

    def pre_filter(self, state: CycleState, pod: Pod) -> PreFiltered:
        """Run the PreFilter plugins. Raises PluginFailure."""
        calls = self._pre_filter.of(pod, self.table.templates.of(pod), state)
        state.skip_filter |= calls.skipped
        if not calls.plugins:
            return _ALL_NODES
        nodes = Nodes(self.table)
        rejected: Status | None = None
        names: frozenset[str] | None = None
        narrowed: list[str] = []
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
                status, result = (answer, None) if type(answer) is Status else pre_filter_answer(answer)
            except BaseException as error:
                contain(error)
                raise failure(f'running PreFilter plugin "{bound.name}"', bound.name, error) from error
            if status.code is Code.SKIP:
                state.skip_filter.add(bound.name)
                if status is SKIP_THIS_VERSION:
                    calls.cache_version(bound)
                elif before is not None or (status is SKIP_TEMPLATE and bound.name in calls.skippers):
                    constant_answers.append(bound.name)
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
                    return PreFiltered(_no_nodes_left(narrowed))
        if constant_answers:
            calls.cache(constant_answers, skipped, entries)
        return PreFiltered(rejected or SUCCESS, names, tuple(narrowed)) if rejected or narrowed else _ALL_NODES

    # Filter

    def filter(
        self, state: CycleState, pod: Pod, template: PodTemplate, among: Rows | None, *, sample: bool = False
    ) -> Filtered:
        """Run the Filter plugins on some rows (None for all). Raises PluginFailure.

        With ``sample``, examine no more nodes than kube-scheduler would.
        """
        wanted = self._wanted(len(self.table.nodes) if among is None else len(among), sample=sample)
        rows, examined = self.filtering.feasible(state, pod, template, among, wanted)
        if wanted is None and not self.profile.per_node:
            return Filtered(rows, examined, among)
        examined_rows = among
        if sample and rows is not None and len(rows) == wanted:
            order = self._sampler.rotated() if among is None else among
            examined_rows = np.sort(order[:examined])
        self._sampler.advance(examined)
        return Filtered(rows, examined, examined_rows)

    def _wanted(self, total: int, *, sample: bool) -> int | None:
        """Return how many feasible nodes are enough; None for all of them."""
        if not self.profile.scorers and not sample:
            return 1
        percentage = self._percentage or 0
        sample = sample or self.profile.per_node
        if percentage == 0 and not sample:
            return None
        wanted = nodes_to_find(total, percentage)
        return None if wanted >= total and not self.profile.per_node else wanted

    @property
    def examines_all(self) -> bool:
        """Whether attempts examine and score all nodes."""
        return bool(self.profile.scorers) and not self._percentage and not self.profile.per_node

    def filter_node(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """Run the Filter plugins on one node, nominated pods included. Raises PluginFailure."""
        return self.filtering.verdict(state, pod, node)

    def rows_of(self, names: frozenset[str] | None) -> Rows | None:
        """Return the rows of some nodes, in order; None for all."""
        if names is None:
            return None
        rows = (self.table.row_of.get(name) for name in names)
        return np.array(sorted(row for row in rows if row is not None), dtype=np.intp)

    # PostFilter

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> Generator[Sequence[Candidate], Sequence[Candidate] | Status, tuple[PostFilterResult, Status | None]]:
        """Run the PostFilter plugins until one succeeds, returns UnschedulableAndUnresolvable, or fails.

        Candidates that extenders have to approve are yielded; the approved candidates are sent back.
        """
        reasons: list[str] = []
        first, rejected = "", PostFilterResult()
        for bound in self.profile.post_filter:
            checkpoint()
            try:
                answer = bound.call(state, pod, statuses)
                if isinstance(answer, AskExtenders):
                    answer = answer.then((yield answer.candidates))
                result, status = post_filter_answer(answer)
            except BaseException as error:
                contain(error)
                broken = failure(f'running PostFilter plugin "{bound.name}"', bound.name, error)
                return rejected, broken.status
            if status.is_success or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return result, status.by(bound.name)
            if not status.is_rejected:
                return rejected, Status.error(*status.reasons).by(bound.name)
            if result.nominated_node is not None:
                rejected = result
            reasons += status.reasons
            first = first or bound.name
        if not self.profile.post_filter:
            return NO_NOMINATION, None
        return rejected, Status.unschedulable(*reasons).by(first)

    # The handle's runner, for plugins that evaluate hypothetical placements, such as preemption

    def filter_what_if(self, state: CycleState, pod: Pod, node: WhatIfNode) -> Status:
        """Run the Filter plugins on a node with other pods on it, nominated pods included."""
        try:
            return self.filtering.filter_what_if(state, pod, node)
        except PluginFailure as broken:
            return broken.status

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
        """Notify the PreFilter plugins that a pod was added to a node."""
        self.filtering.add_pod(state, pod, added, node)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        """Notify the PreFilter plugins that a pod was removed from a node."""
        self.filtering.remove_pod(state, pod, removed, node)

    def filter_plugins(self, state: CycleState) -> tuple[object, ...]:
        """Return the Filter plugins that run in this attempt, in order."""
        return tuple(f.plugin for f in self.profile.filters if f.name not in state.skip_filter)

    @property
    def restricts_evictions(self) -> bool:
        """Whether a plugin defines ``may_evict``."""
        return bool(self.profile.may_evict)

    def may_evict(self, pod: Pod, victim: Pod) -> bool:
        """Return whether all plugins that define ``may_evict`` allow the eviction of a pod for another."""
        return all(bound.call(pod, victim) for bound in self.profile.may_evict)

    @property
    def allocation_scorers(self) -> tuple[AllocationScorer, ...]:
        """The plugins that define ``score_allocation``."""
        return self.profile.allocation_scorers


_ALL_NODES = PreFiltered(SUCCESS)


def _no_nodes_left(narrowed: list[str]) -> Status:
    if len(narrowed) == 1:
        return Status.unresolvable(f"node(s) didn't satisfy plugin {narrowed[0]}")
    return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowed))}] simultaneously")
