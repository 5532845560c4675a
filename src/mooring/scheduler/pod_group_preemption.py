"""Preemption for a PodGroup of `scheduling.k8s.io` that cannot be scheduled, as DefaultPreemption of 1.37 does.

All victims of a lower priority than the group are removed from the whole cluster, and the group is scheduled. Then the
victims are put back one by one, those that violate a budget first and the most important first, as long as all pods of
the group still fit on their nodes. The others are evicted; the pods of the group are nominated to their nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final

import msgspec

from mooring.api.pod import Pod
from mooring.api.policy import PodDisruptionBudget
from mooring.api.scheduling import NativePodGroup
from mooring.columns.node_info import NodeInfo, PodInfo
from mooring.framework.device_allocations import claim_statuses
from mooring.framework.preemption import Budgets
from mooring.framework.preemption.evaluator import is_being_emptied
from mooring.framework.preemption.victims import PodVictims, Victim
from mooring.framework.status import Code, Status
from mooring.plugins.node_name import NodeName
from mooring.scheduler import binding
from mooring.scheduler.attempt_results import AssumedPod
from mooring.scheduler.cache import Cache
from mooring.scheduler.extenders import Steps
from mooring.scheduler.plugin_runner import PluginRunner

_PREFIX: Final = "pod group preemption: "
#: The plugin at podGroupPostFilter that preempts.
PLUGIN: Final = "DefaultPreemption"
#: Schedules the group and undoes it; returns the status, and the pods with their nodes.
Simulate = Callable[[], Steps[tuple[Status, list[AssumedPod]]]]


class GroupPreemption(msgspec.Struct, frozen=True):
    """The outcome of preemption for a group."""

    status: Status
    #: Uid of a pod -> the node that it is nominated to; empty clears the nomination.
    nominations: Mapping[str, str] = {}
    #: The uids of the pods to evict, the most important first.
    victims: tuple[str, ...] = ()
    #: How many of the victims are groups, or pods of groups, and how many evictions violate a budget.
    groups: int = 0
    violations: int = 0
    #: Whether victims were searched.
    searched: bool = True


def preempt_for_group(
    runner: PluginRunner,
    cache: Cache,
    group: NativePodGroup,
    pods: Iterable[Pod],
    nominated: Mapping[str, str],
    simulate: Simulate,
) -> Steps[GroupPreemption]:
    """Find the victims of a group. ``nominated`` are the nominations of its pods, by uid."""
    if any(not pod.may_preempt for pod in pods):
        return _refused(Status.unschedulable("not eligible due to preemptionPolicy=Never."))
    victims, table = PodVictims(runner.handle), cache.table
    rows = (table.row_of.get(name) for name in set(nominated.values()) if name)
    nodes = [table.nodes[row] for row in rows if row is not None]
    if any(is_being_emptied(node, group.priority, table.evicting, victims) for node in nodes):
        status = Status(Code.SUCCESS, (f"{_PREFIX}ongoing preemption on nominated nodes",)).by(PLUGIN)
        return GroupPreemption(status, dict(nominated))
    placed = (info for info in tuple(table.pods.values()) if info.node is not None)
    potential = [each for each in victims.of(placed) if each.priority < group.priority]
    if runner.restricts_evictions:
        first = next(iter(pods))
        potential = [each for each in potential if all(runner.may_evict(first, info.pod) for info in each.pods)]
    if not potential:
        return _refused(Status.unresolvable("No preemption victims found for incoming preemptor"))
    search = _Search(runner, cache)
    try:
        for victim in potential:
            search.remove(victim)
        status, assumed = yield from simulate()
        if not status.is_success:
            return _refused(status)
        return search.reprieve(potential, assumed)
    finally:
        search.restore()


def _refused(status: Status) -> GroupPreemption:
    text = f"{_PREFIX}{status.message}" if status.message else ""
    return GroupPreemption(Status(status.code, (text,) if text else ()).by(PLUGIN))


class _Search:
    """The victims that are removed from the table, and the attempts to put them back."""

    def __init__(self, runner: PluginRunner, cache: Cache) -> None:
        self._runner = runner
        self._cache = cache
        self._table = cache.table
        #: Uid -> pod and node of the pods that are not in the table.
        self._removed: dict[str, tuple[Pod, str]] = {}

    def remove(self, victim: Victim) -> None:
        """Remove the pods of a victim from their nodes."""
        for info in victim.pods:
            if info.node is not None:
                self._removed[info.pod.uid] = info.pod, info.node.name
                self._table.remove_pod(info.pod.uid)

    def restore(self) -> None:
        """Put all removed pods back."""
        for pod, node in self._removed.values():
            self._table.add_pod(pod, node)
        self._removed.clear()

    def reprieve(self, potential: list[Victim], assumed: list[AssumedPod]) -> GroupPreemption:
        """Put victims back as long as the pods of the group fit; return the others."""
        budgets = Budgets(
            self._runner.handle.lister(PodDisruptionBudget).list(),
            stops_at_violation=self._runner.handle.release.stops_at_violated_budget,
        )
        potential = sorted(potential, key=lambda victim: victim.importance)
        counts = budgets.violations(victim.pods for victim in potential)
        local = all(self._is_local(each) for each in assumed)
        by_node: dict[str, list[AssumedPod]] = {}
        for each in assumed:
            by_node.setdefault(each.node_name, []).append(each)
        lost: list[Victim] = []
        violations = 0
        for victim, count in sorted(zip(potential, counts, strict=True), key=lambda pair: not pair[1]):
            names = dict.fromkeys(self._removed[info.pod.uid][1] for info in victim.pods)
            affected = [each for name in names for each in by_node.get(name, ())] if local else assumed
            if not self._put_back(victim, affected):
                lost.append(victim)
                violations += count
        lost.sort(key=lambda victim: victim.importance)
        pods = [info.pod for victim in lost for info in victim.pods]
        text = f"{_PREFIX}found a placement for podgroup, preempting {len(pods)} victims"
        return GroupPreemption(
            Status(Code.SUCCESS, (text,)).by(PLUGIN),
            {each.pod.uid: each.node_name for each in assumed},
            tuple(pod.uid for pod in pods if not pod.is_terminating),
            sum(victim.in_group for victim in lost),
            violations,
        )

    def _is_local(self, assumed: AssumedPod) -> bool:
        """Whether only the pods on its own node matter for a pod."""
        skip = assumed.state.skip_filter
        filters = (each for each in self._runner.profile.filters if each.name not in skip)
        return all(each.depends is not None or type(each.plugin) is NodeName for each in filters)

    def _put_back(self, victim: Victim, assumed: list[AssumedPod]) -> bool:
        """Put a victim back if the pods, assumed one after another, still fit on their nodes."""
        table, runner = self._table, self._runner
        back = [self._removed.pop(info.pod.uid) for info in victim.pods]
        infos = [table.add_pod(pod, node) for pod, node in back]
        self._notify(infos, assumed, added=True)
        tried: list[AssumedPod] = []
        fits = True
        try:
            for each in assumed:
                node = table.nodes[table.row_of[each.node_name]]
                if not runner.filter_node(each.state, each.queued.pod, node).is_success:
                    fits = False
                    break
                self._cache.assume(each.queued.pod, each.node_name, claim_statuses(each.state, each.node_name))
                binding.reserve(runner.profile, each.state, each.pod, each.node_name)
                tried.append(each)
        finally:
            for each in reversed(tried):
                binding.unreserve(runner.profile, each.state, each.pod, each.node_name)
                self._cache.forget(each.pod)
            if not fits:
                homes = {info.pod.uid: info.node for info in infos}
                for pod, node_name in back:
                    self._removed[pod.uid] = pod, node_name
                    table.remove_pod(pod.uid)
                self._notify(infos, assumed, added=False, homes=homes)
        return fits

    def _notify(
        self,
        infos: list[PodInfo],
        assumed: list[AssumedPod],
        *,
        added: bool,
        homes: Mapping[str, NodeInfo | None] | None = None,
    ) -> None:
        """Update the states of the pods of the group, which PreFilter has computed without the victim."""
        notify = self._runner.add_pod if added else self._runner.remove_pod
        for info in infos:
            node = info.node if homes is None else homes[info.pod.uid]
            if node is not None:
                for each in assumed:
                    notify(each.state, each.queued.pod, info, node)
