"""NodeResourcesBalancedAllocation: prefers nodes whose resources the pod brings closer to equal use."""

from __future__ import annotations

from collections.abc import Hashable

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.resources import is_scalar, is_tracked
from mooring.framework import CycleState, NodeInfo, Nodes, Plugin, PodTemplate, StateKey, Status, depends_on
from mooring.plugins.balance import NEUTRAL, BalanceColumns, Plan
from mooring.plugins.resource_scoring import ResourceSpec

Ints = npt.NDArray[np.int64]

_PLAN: StateKey[Plan] = StateKey("PreScoreNodeResourcesBalancedAllocation")


class NodeResourcesBalancedAllocation(Plugin):
    """Rates by how much the pod evens out the use of a node's resources: 75 is no change, 100 the greatest gain."""

    class Args(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
        """The resources that are to be used evenly."""

        resources: tuple[ResourceSpec, ...] = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))

    args: Args

    def setup(self) -> None:
        """Prepare the columns; a resource that the scheduler does not count has no say."""
        self._resources = [spec.name for spec in self.args.resources if is_tracked(spec.name)]
        self._everything = tuple(range(len(self._resources)))
        self._columns = BalanceColumns(self.handle.table, self._resources)

    @depends_on("template")
    def pre_score(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Skip pods that ask for nothing that counts."""
        plan = self._plan(pod)
        if plan is None:
            return Status.skip(template=True)
        state.write(_PLAN, plan)
        return None

    def signature(self, template: PodTemplate) -> Hashable:
        """Only the amounts matter."""
        return template.resource_key

    @depends_on("node", "pods")
    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """50 + (50 + balance with the pod - balance without it) / 2."""
        plan, rows, columns = self._planned(state, pod), nodes.rows, self._columns
        if plan is None:
            return 0
        if columns.few(rows):
            return np.array([self._score_row(plan, row) for row in rows.tolist()], dtype=np.int64)
        columns.refresh()
        some = rows if columns.sparse(rows) else None
        indexes = self._everything if len(plan) == len(self._everything) else tuple([index for index, _ in plan])
        offset = columns.offset(indexes)
        scores = columns.balances(plan, some)
        scores += offset if some is None else offset[some]
        scores >>= 1
        return scores if rows is None or some is not None else scores[rows]

    @depends_on("node", "pods")
    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """The same for one node."""
        plan = self._planned(state, pod)
        return 0 if plan is None else self._score_row(plan, node.row)

    def _score_row(self, plan: Plan, row: int) -> int:
        after, before = self._columns.balance_at(plan, row)
        return (NEUTRAL + after - before) >> 1

    def _planned(self, state: CycleState, pod: Pod) -> Plan | None:
        plan = state.get(_PLAN)
        return self._plan(pod) if plan is None else plan

    def _plan(self, pod: Pod) -> Plan | None:
        """What counts for a pod (not the extended resources that it does not ask for); None if it asks for nothing."""
        template = self.handle.template(pod)
        return template.kept(self, lambda: (self._make_plan(template),))[0]

    def _make_plan(self, template: PodTemplate) -> Plan | None:
        asked = template.requests
        if not any(asked.get(spec.name, 0) for spec in self.args.resources):
            return None
        return tuple(
            (index, asked.get(name, 0))
            for index, name in enumerate(self._resources)
            if asked.get(name, 0) or not is_scalar(name)
        )
