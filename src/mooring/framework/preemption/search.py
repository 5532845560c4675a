"""The search for victims: on many nodes at once if the plugins support it, otherwise node by node.

``search_together`` requires that every active Filter plugin has ``what_if`` or depends on the node alone.
``search_one`` clones the state, removes pods and adds them back, as kube-scheduler does.

"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.checkpoints import checkpoint
from mooring.columns.node_info import NodeInfo, PodInfo, WhatIfNode
from mooring.columns.nodes import Nodes
from mooring.framework.handle import Handle
from mooring.framework.node_statuses import NodeStatuses, Rejections
from mooring.framework.plugin import Plugin, dependence
from mooring.framework.preemption.budgets import Budgets
from mooring.framework.preemption.candidate import PRIORITY_OFFSET, Candidate, by_importance
from mooring.framework.preemption.victims import PodVictims, Victim
from mooring.framework.state import CycleState
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts
from mooring.framework.what_if import Victims, WhatIf

Rows = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
#: Tells the PreFilter plugins that a pod is added to a node, or removed from it.
MovePod = Callable[[CycleState, Pod, PodInfo, NodeInfo], None]

NO_VICTIMS = Status.unresolvable("No preemption victims found for incoming pod")


def can_search_together(plugins: Sequence[object]) -> bool:
    """Whether all active Filter plugins can evaluate many nodes with pods removed."""
    return all(_is_modelled(plugin) for plugin in plugins)


def _is_modelled(plugin: object) -> bool:
    if hasattr(plugin, "what_if"):
        return True
    columns = getattr(plugin, "filter_nodes", None)
    return columns is not None and dependence(columns) == "node"


def search_one(
    handle: Handle, state: CycleState, pod: Pod, node: NodeInfo, budgets: Budgets, victims: PodVictims
) -> Candidate | Status:
    """Return the victims on one node, found by simulation; or why there are none."""
    runner = handle.runner
    potential = [each for each in victims.of(node.pods) if each.priority < pod.priority]
    potential.sort(key=lambda each: each.importance)
    if runner.restricts_evictions:
        potential = [each for each in potential if all(runner.may_evict(pod, info.pod) for info in each.pods)]
    if not potential:
        return NO_VICTIMS
    state, what_if = state.clone(), WhatIfNode(node)

    def move(victim: Victim, on_node: Callable[[PodInfo], None], in_plugins: MovePod) -> None:
        for info in victim.pods:
            home = what_if if info.node is node else info.node
            if info.node is node:
                on_node(info)
            if home is not None:
                in_plugins(state, pod, info, home)

    def remove(victim: Victim) -> None:
        move(victim, what_if.remove_pod, runner.remove_pod)

    def reprieved(victim: Victim) -> bool:
        move(victim, what_if.add_pod, runner.add_pod)
        if runner.filter_what_if(state, pod, what_if).is_success:
            return True
        remove(victim)
        return False

    for victim in potential:
        remove(victim)
    status = runner.filter_what_if(state, pod, what_if)
    if not status.is_success:
        return status
    counts = budgets.violations(victim.pods for victim in potential)
    violations, lost = 0, []
    for victim, count in sorted(zip(potential, counts, strict=True), key=lambda pair: not pair[1]):
        if not reprieved(victim):
            lost.append(victim)
            violations += count
    if not lost:
        return no_victims(node.name)
    lost.sort(key=lambda each: each.importance)
    groups = sum(victim.in_group for victim in lost)
    return Candidate(node.row, tuple(info for victim in lost for info in victim.pods), violations, groups)


def no_victims(node_name: str) -> Status:
    """Return the error for a node where no eviction is needed: the pod was rejected for another reason."""
    return Status.error(f'expected at least one victim pod on node "{node_name}"')


class Harvest(msgspec.Struct, frozen=True):
    """The result of a search over many nodes: the number of candidates, and the best one or all."""

    count: int = 0
    #: Whether some candidate violates no budget.
    harmless: bool = False
    #: The best one first; the others only if requested.
    candidates: tuple[Candidate, ...] = ()


def search_together(
    handle: Handle,
    state: CycleState,
    pod: Pod,
    rows: Rows,
    budgets: Budgets,
    statuses: NodeStatuses,
    *,
    every: bool = False,
) -> Harvest:
    """Find the victims on many nodes; nodes where preemption does not help get a status in ``statuses``.

    With ``every``, the result contains all candidates, not only the best.
    """
    rows, index = _potential_victims(handle, pod, rows, statuses)
    if not len(rows):
        return Harvest()
    nodes = Nodes(handle.table, rows)
    violating = budgets.violating(Victims(nodes, index))
    if violating.any():
        # Pods that violate a budget are reprieved first; in both groups the most important first.
        order = np.argsort(np.where(index < 0, 2, np.where(violating, 0, 1)), axis=1, kind="stable")
        index = np.take_along_axis(index, order, axis=1)
        violating = np.take_along_axis(violating, order, axis=1)
    victims = Victims(nodes, index)
    models = _models(handle, state, pod, victims)
    values = [model.values - model.effects.sum(axis=2) for _, model in models]
    helped = _record_failures(models, values, rows, statuses)
    if not helped.any():
        return Harvest()
    lost = _reprieve(models, values, victims, helped)
    return _harvest(handle, rows, index, lost, violating, helped, statuses, every=every)


def _potential_victims(handle: Handle, pod: Pod, rows: Rows, statuses: NodeStatuses) -> tuple[Rows, Ints]:
    """Return the rows that have pods of lower priority, and these pods (most important first) as a matrix."""
    table, columns = handle.table, handle.table.pod_columns
    count = len(columns)
    place = np.full(len(table), -1, dtype=np.int64)
    place[rows] = np.arange(len(rows))
    places = place[columns.rows[:count]]
    chosen = np.flatnonzero((places >= 0) & (columns.priorities[:count] < pod.priority))
    runner = handle.runner
    if runner.restricts_evictions:
        allowed = (runner.may_evict(pod, columns.infos[number].pod) for number in chosen.tolist())
        chosen = chosen[np.fromiter(allowed, dtype=np.bool_, count=len(chosen))]
    per_row = np.bincount(places[chosen], minlength=len(rows))
    without = per_row == 0
    if without.any():
        alone = rows[without]
        statuses.add(Rejections("", alone, np.ones(len(alone), dtype=np.int8), lambda _code: NO_VICTIMS))
    if not len(chosen):
        return rows[:0], np.zeros((0, 0), dtype=np.int64)
    chosen = chosen[np.lexsort((columns.starts[chosen], -columns.priorities[chosen], places[chosen]))]
    owners = places[chosen]
    first = np.concatenate(([0], np.cumsum(per_row)[:-1]))
    index = np.full((len(rows), int(per_row.max())), -1, dtype=np.int64)
    index[owners, np.arange(len(chosen)) - first[owners]] = chosen
    return rows[~without], index[~without]


def _models(handle: Handle, state: CycleState, pod: Pod, victims: Victims) -> list[tuple[str, WhatIf]]:
    models = []
    for plugin in handle.runner.filter_plugins(state):
        if not isinstance(plugin, Plugin):
            continue
        what_if = getattr(plugin, "what_if", None)
        if what_if is not None:
            models.append((plugin.name, what_if(state, pod, victims)))
            continue
        verdicts = plugin.filter_nodes(state, pod, victims.nodes)
        if verdicts is not None:
            models.append((plugin.name, WhatIf.constant(verdicts, victims)))
    return models


def _record_failures(models: list[tuple[str, WhatIf]], values: list[Ints], rows: Rows, statuses: NodeStatuses) -> Mask:
    """Return which nodes fit the pod with all victims removed; record the statuses of the others."""
    helped = np.ones(len(rows), dtype=np.bool_)
    for (name, model), value in zip(models, values, strict=True):
        verdicts = model.verdicts(value)
        if verdicts is None:
            continue
        rejected = helped & (verdicts.codes != 0)
        if rejected.any():
            status_of = functools.partial(_worded, name, verdicts)
            statuses.add(Rejections(name, rows[rejected], verdicts.codes[rejected], status_of))
            helped &= ~rejected
    return helped


def _worded(plugin: str, verdicts: Verdicts, code: int) -> Status:
    """Return a status; an Error with kube-scheduler's wording."""
    status = verdicts.status(code)
    if status.is_rejected:
        return status
    return Status.error(f'running "{plugin}" filter plugin: {status.message}')


def _reprieve(models: list[tuple[str, WhatIf]], values: list[Ints], victims: Victims, helped: Mask) -> Mask:
    """Add victims back one by one, on all nodes in parallel, where the pod still fits; return the rest as [C, V]."""
    lost = np.zeros(victims.index.shape, dtype=np.bool_)
    for number in range(victims.index.shape[1]):
        checkpoint()
        tried = helped & victims.present[:, number]
        if not tried.any():
            continue
        trial = [value + model.effects[:, :, number] for (_, model), value in zip(models, values, strict=True)]
        fits = tried.copy()
        for (_, model), value in zip(models, trial, strict=True):
            verdicts = model.verdicts(value)
            if verdicts is not None:
                fits &= verdicts.codes == 0
        values = [np.where(fits, after, before) for after, before in zip(trial, values, strict=True)]
        lost[:, number] = tried & ~fits
    return lost


def _harvest(
    handle: Handle,
    rows: Rows,
    index: Ints,
    lost: Mask,
    violating: Mask,
    helped: Mask,
    statuses: NodeStatuses,
    *,
    every: bool,
) -> Harvest:
    """Compare the candidates by kube-scheduler's rules and name the victims on the best one."""
    counts = lost.sum(axis=1)
    for place in np.flatnonzero(helped & (counts == 0)).tolist():
        name = handle.table.nodes[int(rows[place])].name
        statuses.set(int(rows[place]), no_victims(name))
    places = np.flatnonzero(helped & (counts > 0))
    if not len(places):
        return Harvest()
    lost, index = lost[places], index[places]
    columns = handle.table.pod_columns
    priorities = columns.priorities[index]
    top = np.where(lost, priorities, _LOWEST).max(axis=1)
    starts = np.where(lost & (priorities == top[:, None]), columns.starts[index], np.inf).min(axis=1)
    starts = np.where(np.isinf(starts), handle.clock(), starts)
    sums = ((priorities + PRIORITY_OFFSET) * lost).sum(axis=1)
    violations = (lost & violating[places]).sum(axis=1)
    order = np.lexsort((-starts, counts[places], sums, top, violations))
    candidates = []
    for place in order.tolist() if every else order[:1].tolist():
        victims = [columns.infos[number] for number in index[place][lost[place]].tolist()]
        sorted_victims = tuple(sorted(victims, key=by_importance))
        candidates.append(Candidate(int(rows[places[place]]), sorted_victims, int(violations[place])))
    return Harvest(len(places), bool((violations == 0).any()), tuple(candidates))


_LOWEST = np.iinfo(np.int64).min
