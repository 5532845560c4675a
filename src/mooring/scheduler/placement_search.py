"""Placement search: tries the pods of a PodGroup in all placements at once, for example in every rack.

kube-scheduler tries one placement after another: it places the pods, rolls them back and continues with the next.
Placements are disjoint, so here the first pod is placed in all of them, then the second, and so on: each step is one
maximum per placement over the columns of all nodes. This is possible if nothing but the requests of the pods placed
before matters for the next one; ``search`` returns None otherwise, and the placements are tried one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup
from mooring.checkpoints import checkpoint
from mooring.columns.nodes import Nodes
from mooring.columns.templates import PodTemplate
from mooring.framework.placements import PlacementProgress, Placements, ProposedPlacements
from mooring.framework.plugin_errors import contain
from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS, Code, Status
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.gang_scheduling import GangScheduling
from mooring.plugins.image_locality import ImageLocality
from mooring.plugins.node_name import NodeName
from mooring.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from mooring.plugins.volume_binding import VolumeBinding
from mooring.scheduler.answers import checked_scores, failure, feasible_answer, placements_answer, scores_in_range
from mooring.scheduler.plugin_calls import call_filter, call_score
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.profile import Bound, FilterPlugin, ScorePlugin

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

#: Plugins to which only the requests of other pods on a node matter.
_BY_AMOUNTS: Final = (NodeResourcesFit, NodeResourcesBalancedAllocation)
#: Plugins whose Score and Reserve do nothing for pods that their Filter skips.
_CLAIMS: Final = (VolumeBinding, DynamicResources)
_NOT_FEASIBLE: Final = np.iinfo(np.int64).min


def generate_placements(runner: PluginRunner, group: NativePodGroup, scheduled: Sequence[Pod]) -> Placements | Status:
    """Return the placements of a group, or why there are none."""
    generator = runner.profile.placement_generator
    if generator is None:
        return Placements.whole(runner.table)
    try:
        found = generator.call(group, scheduled, Nodes(runner.table))
        found = found if isinstance(found, Placements) else placements_answer(found, runner.table)
    except BaseException as error:
        contain(error)
        return failure(f'running PlacementGenerate plugin "{generator.name}"', generator.name, error).status
    if isinstance(found, Status):
        return found.by(generator.name)
    return found if len(found) else Status.unschedulable("no feasible placements found").by(generator.name)


def feasible_plugins(runner: PluginRunner, gangs: GangScheduling) -> tuple[Bound, ...]:
    """Return the plugins at PlacementFeasible. GangScheduling is the first, also if it is not enabled at Permit."""
    found = {bound.name: bound for bound in runner.profile.placement_feasible}
    own = found.pop(gangs.name, None) or Bound(gangs.name, gangs, gangs.placement_feasible)
    return (own, *found.values())


def placement_feasible(plugins: Sequence[Bound], group: NativePodGroup, progress: PlacementProgress) -> Status:
    """Ask plugins whether a group can be scheduled: Success, Wait, Unschedulable or Error."""
    verdict = SUCCESS
    for bound in plugins:
        try:
            status = feasible_answer(bound.call(group, progress))
        except BaseException as error:
            contain(error)
            status = failure("running PlacementFeasible plugin", bound.name, error).status
        if status.code is Code.WAIT:
            verdict = status.by(bound.name)
        elif not status.is_success:
            return status.by(bound.name)
    return verdict


def best_placement(runner: PluginRunner, proposed: ProposedPlacements) -> int | Status:
    """Return the index of the placement with the highest weighted sum of scores, or the error of a plugin."""
    placements = proposed.placements
    if len(placements) == 1:
        return 0
    totals = np.zeros(len(placements), dtype=np.int64)
    for scorer, weight in runner.profile.placement_scorers:
        try:
            scores = checked_scores(scorer.call(proposed), len(placements), "score_placements")
        except BaseException as error:
            contain(error)
            where = f'running PlacementScore plugins: plugin "{scorer.name}" failed with'
            return failure(where, scorer.name, error).status
        wrong = scores_in_range(scores)
        if wrong is not None:
            text = f'running PlacementScore plugins: plugin "{scorer.name}" failed with: {wrong}'
            return Status.error(text).by(scorer.name)
        totals += scores * weight
    return runner.selection.pick(totals, placements.rows[placements.starts])


class Trial:
    """The nodes that the pods of a group get in each placement.

    Attributes:
        nodes: The row of the node by pod and placement; -1 if the pod does not fit, or was not tried.
        feasible: The number of feasible nodes by pod and placement.
        placed: How many pods have a node, by placement.
        stopped: In which placements the group cannot be scheduled.
    """

    __slots__ = ("feasible", "nodes", "placed", "stopped")

    def __init__(self, pods: int, placements: int) -> None:
        self.nodes: Rows = np.full((pods, placements), -1, dtype=np.intp)
        self.feasible: npt.NDArray[np.int32] = np.zeros((pods, placements), dtype=np.int32)
        self.placed: Ints = np.zeros(placements, dtype=np.int64)
        self.stopped: Mask = np.zeros(placements, dtype=np.bool_)


def search(
    runner: PluginRunner, pods: Sequence[Pod], placements: Placements, *, scheduled: int, needed: int
) -> Trial | None:
    """Try the pods, in order, in all placements. Return None if that is not possible in columns.

    A placement is given up as soon as fewer than ``needed`` pods, with the ``scheduled`` ones, can have a node.
    """
    templates = [runner.table.templates.of(pod) for pod in pods]
    prepared = _prepared(runner, pods, templates, placements)
    return None if prepared is None else _Search(runner, placements, prepared).run(pods, templates, scheduled, needed)


class _Prepared:
    """What the search needs of one template: its state after PreFilter and PreScore, and scores that do not change."""

    __slots__ = ("constant", "state")

    def __init__(self) -> None:
        self.state = CycleState()
        #: The weighted scores that do not depend on other pods; None if there are none.
        self.constant: Ints | None = None


def _prepared(
    runner: PluginRunner, pods: Sequence[Pod], templates: Sequence[PodTemplate], placements: Placements
) -> dict[PodTemplate, _Prepared] | None:
    """Prepare all templates; return None if a plugin needs more than the columns."""
    if runner.handle.nominator or not runner.examines_all or not placements.disjoint:
        return None
    if any(type(bound.plugin) not in _CLAIMS for bound in runner.profile.reserve):
        return None
    found: dict[PodTemplate, _Prepared] = {}
    for pod, template in zip(pods, templates, strict=True):
        if template not in found:
            found[template] = _Prepared()
            if not _prepare(runner, pod, template, placements, found[template]):
                return None
    return found


def _prepare(
    runner: PluginRunner, pod: Pod, template: PodTemplate, placements: Placements, prepared: _Prepared
) -> bool:
    """Run PreFilter and PreScore for a template. Return False if a plugin needs more than the columns."""
    if template.host_ports or not template.affinity.is_empty:
        return False
    state, nodes = prepared.state, Nodes(runner.table)
    filtered = runner.pre_filter(state, pod)
    if not filtered.status.is_success or filtered.names is not None:
        return False
    for each in runner.profile.filters:
        if each.name in state.skip_filter or _is_columnar(each):
            continue
        if type(each.plugin) is not NodeName or call_filter(each, state, pod, nodes) is not None:
            return False
    runner.scoring.pre_score(state, pod, nodes)
    for scorer in runner.profile.scorers:
        if scorer.name in state.skip_score or _is_columnar(scorer):
            continue
        claims = type(scorer.plugin) in _CLAIMS and scorer.name in state.skip_filter
        if not claims and type(scorer.plugin) is not ImageLocality:
            return False
        scores = call_score(scorer, state, pod, nodes)
        if isinstance(scores, int):
            continue
        if scorer.normalize is not None:
            return False
        prepared.constant = scores * scorer.weight + (0 if prepared.constant is None else prepared.constant)
    # Normalized scores depend on which nodes of a placement are feasible, unless all of them have the same.
    return all(_is_same(raw[placements.rows], placements) for raw in runner.scoring.raw_scores(state, pod, template))


def _is_columnar(each: FilterPlugin | ScorePlugin) -> bool:
    return each.depends == "node" or (each.depends == "pods" and type(each.plugin) in _BY_AMOUNTS)


def _is_same(values: Ints, placements: Placements) -> bool:
    starts = placements.starts
    return bool((np.minimum.reduceat(values, starts) == np.maximum.reduceat(values, starts)).all())


class _Search:
    """The search for one group."""

    def __init__(self, runner: PluginRunner, placements: Placements, prepared: dict[PodTemplate, _Prepared]) -> None:
        self._runner = runner
        self._table = runner.table
        self._prepared = prepared
        rows, starts = placements.rows, placements.starts
        self._sizes: Rows = np.diff(np.append(starts, len(rows)))
        owner = np.repeat(np.arange(len(placements)), self._sizes)
        # Of several best nodes of a placement the first is taken, in the fixed order or from a random node on.
        order, first = runner.selection.order(rows), np.zeros(len(placements), dtype=np.intp)
        if order is not None:
            rows = rows[order[np.argsort(owner[order], kind="stable")]]
        else:
            first = (runner.selection.random_place() * self._sizes).astype(np.intp)
        self._rows: Rows = rows
        self._starts, self._first = starts, first
        sizes = self._sizes[owner]
        self._lead: Ints = sizes - (np.arange(len(rows)) - starts[owner] - first[owner]) % sizes
        #: How many pods of each template are supposed on each row.
        self._supposed: dict[PodTemplate, Ints] = {}

    def run(self, pods: Sequence[Pod], templates: Sequence[PodTemplate], scheduled: int, needed: int) -> Trial:
        trial = Trial(len(pods), len(self._starts))
        try:
            for number, (pod, template) in enumerate(zip(pods, templates, strict=True)):
                checkpoint()
                remaining = len(pods) - number
                trial.stopped |= scheduled + trial.placed + remaining < needed
                if trial.stopped.all():
                    break
                best, trial.feasible[number] = self._best(pod, template)
                best[trial.stopped] = -1
                trial.nodes[number] = best
                found = best >= 0
                trial.placed += found
                self._suppose(template, best[found])
            trial.stopped |= scheduled + trial.placed < needed
        finally:
            self._undo()
        return trial

    def _best(self, pod: Pod, template: PodTemplate) -> tuple[Rows, Ints]:
        """Return the row of the best feasible node in each placement, or -1, and the number of feasible nodes."""
        runner, rows, starts, prepared = self._runner, self._rows, self._starts, self._prepared[template]
        state = prepared.state
        passing = runner.filtering.declared(state, pod, template)
        total = runner.scoring.declared_sum(state, pod, template)
        size = len(rows)
        keys = total[rows]
        if prepared.constant is not None:
            keys += prepared.constant[rows]
        keys *= size + 1
        keys += self._lead
        if passing is None:
            feasible = self._sizes
        else:
            fits = passing[rows]
            keys[~fits] = _NOT_FEASIBLE
            feasible = np.add.reduceat(fits, starts, dtype=np.int64)
        highest = np.maximum.reduceat(keys, starts)
        places = (self._sizes - highest % (size + 1) + self._first) % self._sizes
        best = rows[starts + places]
        best[highest == _NOT_FEASIBLE] = -1
        return best, feasible

    def _suppose(self, template: PodTemplate, rows: Rows) -> None:
        counts = self._supposed.get(template)
        if counts is None:
            counts = self._supposed[template] = np.zeros(len(self._table), dtype=np.int64)
        counts[rows] += 1
        self._table.suppose(template, rows, 1)

    def _undo(self) -> None:
        for template, counts in self._supposed.items():
            rows = np.flatnonzero(counts)
            self._table.suppose(template, rows, -counts[rows])
