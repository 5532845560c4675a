"""CapacityScheduling: the plugin. Namespaces may use what others leave idle, until the others want it back."""

from __future__ import annotations

from mooring.api.pod import Pod
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Lister,
    NodeInfo,
    Nodes,
    NodeStatuses,
    Plugin,
    PodInfo,
    PostFilterResult,
    Rule,
    StateKey,
    Status,
)
from mooring.framework.preemption import AskExtenders, Evaluator
from mooring.plugins.capacity_scheduling.elastic_quota import Amounts, ElasticQuota, add, request_of
from mooring.plugins.capacity_scheduling.quotas import Quotas, Snapshot
from mooring.plugins.capacity_scheduling.victims import Asked, QuotaRules

SNAPSHOT: StateKey[Snapshot] = StateKey("CapacityScheduling/quotas")
ASKED: StateKey[Asked] = StateKey("CapacityScheduling/asked")


class CapacityScheduling(Plugin):
    """Keeps namespaces within their ElasticQuota, and takes back what others have borrowed."""

    quotas = Lister(ElasticQuota)
    permissions = (Rule(("",), ("pods",), ("delete",)),)

    def setup(self) -> None:
        """Begin with the pods and quotas that are there."""
        self._quotas = Quotas(self.quotas, self.handle.lister(Pod))
        self._evaluator = Evaluator(self.handle, rules=QuotaRules(self.handle, SNAPSHOT, ASKED))

    def events_to_register(self) -> list[ClusterEvent]:
        """A pod that goes frees what it used; changed quotas wake pods, too, which the lister tells of."""
        return [ClusterEvent("Pod", ActionType.DELETE)]

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Turn down a pod that its namespace may not have, or that nobody's idle guarantee has room for."""
        snapshot, request = self._quotas.snapshot(), request_of(pod)
        state.write(SNAPSHOT, snapshot)
        quota = snapshot.get(pod.namespace)
        if quota is None:
            state.write(ASKED, Asked(request, {}, {}))
            return None
        asked = self._asked(pod, request)
        state.write(ASKED, asked)
        rejected = f"Pod {pod.namespace}/{pod.name} is rejected in PreFilter because"
        if quota.over_max_with(asked.in_namespace):
            return Status.unschedulable(f"{rejected} ElasticQuota {pod.namespace} is more than Max")
        if snapshot.over_all_with(asked.in_all):
            return Status.unschedulable(f"{rejected} total ElasticQuota used is more than min")
        return None

    def _asked(self, pod: Pod, request: Amounts) -> Asked:
        """What the pod asks for, with the pods that room is kept for before it."""
        in_namespace, in_all = dict(request), dict(request)
        nominator, known = self.handle.nominator, self.handle.table.row_of
        for name in nominator.nodes():
            if name not in known:
                continue
            for info in nominator.on_node(name):
                quota = self._quotas.by_namespace.get(info.namespace)
                if info.pod.uid == pod.uid or quota is None:
                    continue
                if info.namespace != pod.namespace:
                    if not quota.over_min:
                        add(in_all, request_of(info.pod))
                elif info.priority >= pod.priority:
                    add(in_namespace, request_of(info.pod))
                    add(in_all, request_of(info.pod))
        return Asked(request, in_namespace, in_all)

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
        """A pod is on a node, in thought."""
        state.read(SNAPSHOT).add(added.pod)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        """A pod is gone, in thought."""
        state.read(SNAPSHOT).remove(removed.pod)

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult, Status] | AskExtenders:
        """Take back what was lent, or push out less important pods of the same namespace."""
        return self._evaluator.preempt(state, pod, statuses)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Charge the pod."""
        self._quotas.add(pod)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Charge it no longer."""
        self._quotas.remove(pod)
