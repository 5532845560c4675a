"""CapacityScheduling: the plugin. Namespaces may borrow unused capacity until its owner reclaims it."""

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
    """Enforces ElasticQuotas, and reclaims capacity that other namespaces borrowed."""

    quotas = Lister(ElasticQuota)
    permissions = (Rule(("",), ("pods",), ("delete",)),)

    def setup(self) -> None:
        """Count the existing pods and quotas."""
        self._quotas = Quotas(self.quotas, self.handle.lister(Pod), self._report_invalid)
        self._evaluator = Evaluator(self.handle, rules=QuotaRules(self.handle, SNAPSHOT, ASKED))

    def _report_invalid(self, quota: ElasticQuota, problem: str) -> None:
        self.handle.events.record(quota, type="Warning", reason="Invalid", action="Scheduling", note=problem)

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for deleted pods; the lister registers for changed quotas."""
        return [ClusterEvent("Pod", ActionType.DELETE)]

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Reject a pod that exceeds the namespace's maximum or the sum of all guarantees."""
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
        """Return the pod's request, with those of the nominated pods before it."""
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
        """Add a hypothetical pod."""
        state.read(SNAPSHOT).add(added.pod)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        """Remove a pod hypothetically."""
        state.read(SNAPSHOT).remove(removed.pod)

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult, Status] | AskExtenders:
        """Reclaim borrowed capacity, or preempt less important pods of the same namespace."""
        return self._evaluator.preempt(state, pod, statuses)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Charge the pod to its namespace."""
        self._quotas.add(pod)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Undo the charge."""
        self._quotas.remove(pod)
