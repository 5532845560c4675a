"""A look at one attempt: everything the plugins say about placing a pod, as data."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.pod import Pod
from mooring.columns.nodes import Nodes
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.state import CycleState
from mooring.framework.status import Code, PostFilterResult, Status
from mooring.scheduler.answers import PluginFailure
from mooring.scheduler.cycle import Cycle, absent_status

#: Scores that say nothing yet: DynamicResources gives 0 to every node until it knows claims.
_UNSCORED = frozenset({"DynamicResources"})
#: Plugins that look for victims on many nodes: what breaks there comes in any order, so only that it broke is shown.
_SEARCHERS = frozenset({"DefaultPreemption", "CapacityScheduling"})
#: A reason of Coscheduling's; what follows it lists amounts.
_GAP = "resource gap"


class Look(msgspec.Struct, frozen=True):
    """What an attempt came to."""

    state: CycleState
    #: For people and programs.
    shown: dict[str, Any]
    #: What PostFilter did, if it was asked.
    outcome: PostFilterResult | None = None

    @property
    def best(self) -> str | None:
        """The node with the highest total, if any will do."""
        totals: dict[str, int] = self.shown.get("totals", {})
        return max(totals, key=totals.__getitem__) if totals else None

    def passes(self, node_name: str) -> bool:
        """Whether all Filter plugins agree to a node."""
        verdict = self.shown["filter"].get(node_name)
        return verdict is not None and verdict["code"] == Code.SUCCESS.title


def look(cycle: Cycle, pod: Pod) -> Look:
    """Everything the plugins say about placing a pod; nothing is reserved."""
    state = CycleState()
    try:
        return _look(cycle, state, pod)
    except PluginFailure as broken:
        return Look(state, {"preFilter": show(broken.status), "filter": {}})


def _look(cycle: Cycle, state: CycleState, pod: Pod) -> Look:
    before = cycle.pre_filter(state, pod)
    shown: dict[str, Any] = {"preFilter": show(before.status), "filter": {}}
    if not before.status.is_success:
        statuses = NodeStatuses(cycle.table, before.status)
        return _unplaced(cycle, state, pod, statuses, shown)
    if before.names is not None:
        shown["preFilterNodes"] = sorted(before.names)
    among = cycle.rows_of(before.names)
    statuses, feasible = cycle.filtering.diagnose(state, pod, among, absent_status(before))
    looked_at = range(len(cycle.table)) if among is None else among.tolist()
    verdicts = {row: status for status, rows in statuses.groups() for row in rows.tolist()}
    passing = set(feasible.tolist())
    for row in looked_at:
        shown["filter"][cycle.table.nodes[row].name] = show(Status() if row in passing else verdicts[row])
    if not passing:
        return _unplaced(cycle, state, pod, statuses, shown)
    cycle.scoring.pre_score(state, pod, Nodes(cycle.table, feasible))
    scores = cycle.scoring.by_plugin(state, pod, feasible)
    names = [cycle.table.nodes[row].name for row in feasible.tolist()]
    shown["scores"] = {
        name: {plugin: int(values[place]) for plugin, values in scores.items() if plugin not in _UNSCORED}
        for place, name in enumerate(names)
    }
    shown["totals"] = {name: sum(int(values[place]) for values in scores.values()) for place, name in enumerate(names)}
    return Look(state, shown)


def _unplaced(cycle: Cycle, state: CycleState, pod: Pod, statuses: NodeStatuses, shown: dict[str, Any]) -> Look:
    outcome, status = cycle.post_filter(state, pod, statuses)
    preemption: dict[str, Any] = {"status": show(status or Status.unschedulable())}
    if status is not None and status.is_success:
        preemption["status"] = show(Status())
        preemption["nominatedNode"] = outcome.nominated_node
        pods = [cycle.table.pods[uid].pod for uid in outcome.victims]
        if pods:
            preemption["victims"] = sorted(victim.key for victim in pods)
    elif status is not None and status.code is Code.ERROR and status.plugin in _SEARCHERS:
        preemption["status"]["reasons"] = []
    shown["preemption"] = preemption
    return Look(state, shown, outcome)


def show(status: Status) -> dict[str, Any]:
    """A verdict as data."""
    reasons = [_GAP if reason.startswith(_GAP) else reason for reason in status.reasons]
    shown: dict[str, Any] = {"code": status.code.title, "reasons": sorted(reasons)}
    if status.plugin and not status.is_success:
        shown["plugin"] = status.plugin
    return shown
