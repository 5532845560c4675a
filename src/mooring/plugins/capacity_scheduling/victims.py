"""Victims: borrowers if the pod's namespace reclaims its guarantee, otherwise less important pods of the namespace."""

from __future__ import annotations

import msgspec

from mooring.api.pod import Pod
from mooring.framework import Code, CycleState, Handle, NodeInfo, NodeStatuses, PodInfo, StateKey, Status, WhatIfNode
from mooring.framework.preemption import Budgets, Candidate, by_importance, no_victims
from mooring.plugins.capacity_scheduling.elastic_quota import Amounts
from mooring.plugins.capacity_scheduling.quotas import Snapshot

_BEING_EMPTIED = "not eligible due to a terminating pod on the nominated node."
_QUOTA_EXCEEDED = Status.unschedulable("global quota max exceeded")


class Asked(msgspec.Struct, frozen=True):
    """The request of a pod: alone, and with the nominated pods before it."""

    alone: Amounts
    #: With those of its namespace, and with those of all namespaces.
    in_namespace: Amounts
    in_all: Amounts


class QuotaRules:
    """Selects victims by the quotas in the cycle state."""

    def __init__(self, handle: Handle, snapshot: StateKey[Snapshot], asked: StateKey[Asked]) -> None:
        self._handle = handle
        self._snapshot = snapshot
        self._asked = asked

    def refusal(self, state: CycleState, pod: Pod, statuses: NodeStatuses) -> str:
        """Reject a preemptor that waits for its victims."""
        if not pod.may_preempt:
            return "not eligible due to preemptionPolicy=Never."
        quotas, asked = state.get(self._snapshot), state.get(self._asked)
        if quotas is None or asked is None:
            return "not eligible due to failed to read from cycleState"
        name = pod.status.nominated_node_name
        row = self._handle.table.row_of.get(name) if name else None
        if row is None or statuses.of_row(row).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        may_go = _MayGo(quotas, asked, pod, waiting=True)
        leaving = (info for info in self._handle.table.nodes[row].pods if info.pod.is_terminating)
        return _BEING_EMPTIED if any(map(may_go, leaving)) else ""

    def select(self, state: CycleState, pod: Pod, node: NodeInfo, budgets: Budgets) -> Candidate | Status:
        """Return the victims on one node: all pods that may be evicted, except those that can be reprieved."""
        return _Trial(self._handle, state.clone(), pod, node, self._snapshot, self._asked).run(budgets)


class _MayGo:
    """A predicate: whether a pod may be evicted under the hypothetical quotas."""

    def __init__(self, quotas: Snapshot, asked: Asked, pod: Pod, *, waiting: bool = False) -> None:
        self._quotas = quotas
        self._pod = pod
        own = quotas.get(pod.namespace)
        self._own = own is not None
        #: Whether the pod's namespace exceeds its guarantee: then victims must be its own pods.
        self._borrows = own is not None and own.over_min_with(asked.in_namespace)
        #: Whether to wait for terminating pods: those of the pod's own namespace count regardless of the guarantee.
        self._waiting = waiting

    def __call__(self, info: PodInfo) -> bool:
        quota, lower = self._quotas.get(info.namespace), info.priority < self._pod.priority
        if not self._own:
            return quota is None and lower
        if quota is None:
            return False
        if info.namespace == self._pod.namespace:
            return lower and (self._borrows or self._waiting)
        return not self._borrows and quota.over_min


class _Trial:
    """One node with pods removed hypothetically."""

    def __init__(
        self,
        handle: Handle,
        state: CycleState,
        pod: Pod,
        node: NodeInfo,
        snapshot: StateKey[Snapshot],
        asked: StateKey[Asked],
    ) -> None:
        self._runner = handle.runner
        self._state = state
        self._pod = pod
        self._node = WhatIfNode(node)
        self._quotas = state.read(snapshot)
        self._asked = state.read(asked)

    def run(self, budgets: Budgets) -> Candidate | Status:
        """Return the victims, most important first, or the status if evictions do not help."""
        node, pod = self._node, self._pod
        may_go = _MayGo(self._quotas, self._asked, pod)
        potential = []
        # The least important first: each removal changes the use of the borrower.
        ordered = sorted(node.pods, key=by_importance)
        for info in reversed(ordered):
            if may_go(info) and self._runner.may_evict(pod, info.pod):
                potential.append(info)
                self._remove(info)
        if not potential:
            return Status.unresolvable(f"No victims found on node {node.name} for preemptor pod {pod.name}")
        status = self._runner.filter_what_if(self._state, pod, node)
        if not status.is_success:
            return status
        if self._exceeds(self._asked.alone, self._asked.alone):
            return _QUOTA_EXCEEDED
        potential.sort(key=by_importance)
        violating, fine = budgets.split(potential)
        lost: list[PodInfo] = []
        violations = 0
        for info in (*violating, *fine):
            fits = self._fits_with(info)
            exceeds = self._exceeds(self._asked.in_namespace, self._asked.in_all)
            if not fits and exceeds:  # upstream removes it a second time
                return Status.error(f"no corresponding pod {info.name} in pods of node {node.name}")
            if exceeds:
                self._remove(info)
            if exceeds or not fits:
                lost.append(info)
                violations += info in violating and not fits
        if not lost:
            return no_victims(node.name)
        return Candidate(node.row, tuple(sorted(lost, key=by_importance)), violations)

    def _fits_with(self, info: PodInfo) -> bool:
        """Add a pod back if the preemptor still fits."""
        self._node.add_pod(info)
        self._runner.add_pod(self._state, self._pod, info, self._node)
        if self._runner.filter_what_if(self._state, self._pod, self._node).is_success:
            return True
        self._remove(info)
        return False

    def _remove(self, info: PodInfo) -> None:
        self._node.remove_pod(info)
        self._runner.remove_pod(self._state, self._pod, info, self._node)

    def _exceeds(self, in_namespace: Amounts, in_all: Amounts) -> bool:
        """Return whether quotas forbid a request in the hypothetical state."""
        quota = self._quotas.get(self._pod.namespace)
        if quota is None:
            return False
        return quota.over_max_with(in_namespace) or self._quotas.over_all_with(in_all)
