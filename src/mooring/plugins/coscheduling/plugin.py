"""Coscheduling: pods of a group wait for each other at Permit until enough of them have a node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.meta import parse_time
from mooring.api.pod import Pod
from mooring.api.quantity import QuantityError, QuantityLike, format_quantity, parse_quantity
from mooring.api.resources import CPU, PODS, check_amounts
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Lister,
    Nodes,
    NodeStatuses,
    PermitWait,
    Plugin,
    PodInfo,
    PostFilterResult,
    QueuedPod,
    Status,
)
from mooring.plugins.coscheduling.group_state import Expiring, Members
from mooring.plugins.coscheduling.pod_group import LABEL, PodGroup, group_key

#: The Permit timeout if neither the group nor the arguments set one.
_WAIT_SECONDS: Final = 60
#: How long a passed resource check is cached if pods do not wait.
_PERMITTED_SECONDS: Final = 3


class CoschedulingArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The Permit timeout, and the backoff of a failed group."""

    permit_waiting_time_seconds: int = 60
    pod_group_backoff_seconds: int = 0
    #: If at most this share of a group lacks a node, the group is not rejected when one of its pods fails.
    pod_group_reject_percentage: int = 10


class Coscheduling(Plugin[CoschedulingArgs]):
    """Places the pods of a PodGroup together or not at all."""

    groups = Lister(PodGroup, events=ActionType.ADD | ActionType.UPDATE)

    def setup(self) -> None:
        """Count the existing pods, and check the existing groups."""
        self._members = Members(self.handle.lister(Pod))
        for group in self.groups.list():
            self._check(None, group)
        self.groups.listen(self._check)
        #: Groups that passed the resource check recently; groups in backoff.
        self._permitted = Expiring(self.handle.clock)
        self._backed_off = Expiring(self.handle.clock)
        #: When a group last failed: other groups then go first.
        self._failed_at: dict[str, float] = {}

    def _check(self, _: PodGroup | None, group: PodGroup | None, /) -> None:
        """Report a group with invalid amounts to its author."""
        try:
            check_amounts("spec.minResources", group.spec.min_resources if group is not None else None)
        except QuantityError as error:
            if group is not None:
                note = f"{error}; its pods are not scheduled"
                self.handle.events.record(group, type="Warning", reason="Invalid", action="Scheduling", note=note)

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for new pods, which may complete a group; the lister registers for changed groups."""
        return [ClusterEvent("Pod", ActionType.ADD)]

    def members(self, key: str) -> list[Pod]:
        """Return the pods of a group (``namespace/name``)."""
        return list(self._members.of(key))

    def _group(self, pod: Pod) -> PodGroup | None:
        name = pod.labels.get(LABEL)
        return self.groups.get(name, pod.namespace) if name else None

    # Queue order

    def less(self, a: QueuedPod, b: QueuedPod) -> bool:
        """Sort by priority, then the age of the group (or its last failure), then the name."""
        first, second = a.pod.priority, b.pod.priority
        if first != second:
            return first > second
        since, other = self._since(a), self._since(b)
        return since < other if since != other else a.pod.key < b.pod.key

    def _since(self, queued: QueuedPod) -> float:
        key = group_key(queued.pod)
        if key:
            failed = self._failed_at.get(key)
            if failed is not None:
                return failed
            group = self._group(queued.pod)
            if group is not None:
                created = group.metadata.creation_timestamp
                return parse_time(created) if created else 0.0
        first = queued.initial_attempt_timestamp
        return queued.timestamp if first is None else first

    # PreFilter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Reject pods whose group cannot be complete, or failed recently."""
        group = self._group(pod)
        if group is None:
            return None
        key = group_key(pod)
        if key in self._backed_off:
            return Status.unresolvable(f"podGroup {key} failed recently")
        count = self._members.count(key)
        if count < group.min_member:
            return Status.unresolvable(
                f"pre-filter pod {pod.name} cannot find enough sibling pods, "
                f"current pods number: {count}, minMember of group: {group.min_member}"
            )
        if count - self._members.gated(key) < group.min_member:
            text = f"pre-filter pod {pod.name} cannot proceed due to gated pods in the same PodGroup"
            return Status.unresolvable(text)
        if group.spec.min_resources is None or key in self._permitted:
            return None
        return self._room(group, key, nodes)

    def _room(self, group: PodGroup, key: str, nodes: Nodes) -> Status | None:
        placed = self.handle.table.pods
        own = (placed[pod.uid] for pod in self._members.of(key) if pod.uid in placed)
        try:
            missing = gap(nodes, group.spec.min_resources or {}, group.min_member, own)
        except QuantityError as error:
            return Status.unresolvable(f"PodGroup {key}: minResources: {error}")
        if missing:
            amounts = ", ".join(f"{name} {amount}" for name, amount in sorted(missing.items()))
            return Status.unresolvable(f"resource gap: {amounts}")
        self._permitted.add(key, self.args.permit_waiting_time_seconds or _PERMITTED_SECONDS)
        return None

    # Failure of a group

    def post_filter(
        self, state: CycleState, pod: Pod, statuses: NodeStatuses
    ) -> tuple[PostFilterResult | None, Status]:
        """Reject the group if too many of its pods lack a node; always unschedulable, since nothing is preempted."""
        group = self._group(pod)
        if group is None:
            return None, Status.unschedulable("can not find pod group")
        key = group_key(pod)
        lacking = group.min_member - self._members.assigned(key)
        if lacking <= 0 or lacking / group.min_member <= self.args.pod_group_reject_percentage / 100:
            return None, Status.unschedulable()
        self._reject_waiting(key, "optimistic rejection in PostFilter")
        if self.args.pod_group_backoff_seconds and self._members.count(key) >= group.min_member:
            self._backed_off.add(key, self.args.pod_group_backoff_seconds)
        self._failed(key)
        text = f"PodGroup {key} gets rejected due to Pod {pod.name} is unschedulable even after PostFilter"
        return None, Status.unschedulable(text)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Do nothing: pods are counted at Permit."""

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Reject the waiting pods of the group, since one pod lost its node."""
        if self._group(pod) is None:
            return
        key = group_key(pod)
        self._members.unassign(key, pod.uid)
        self._reject_waiting(key, "rejection in Unreserve")
        self._failed(key)

    def _reject_waiting(self, key: str, reason: str) -> None:
        for waiting in self.handle.waiting_pods:
            if group_key(waiting.pod) == key:
                waiting.reject(self.name, reason)

    def _failed(self, key: str) -> None:
        self._permitted.discard(key)
        self._failed_at[key] = self.handle.clock()

    # Permit

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | PermitWait | None:
        """Wait for the other pods; the last required one allows all of them."""
        key = group_key(pod)
        if not key:
            return None
        group = self._group(pod)
        if group is None:
            return Status.unschedulable("PodGroup not found")
        assigned = self._members.assign(key, pod.uid)
        if assigned >= group.min_member:
            self._failed_at.pop(key, None)
            for waiting in self.handle.waiting_pods:
                if group_key(waiting.pod) == key:
                    waiting.allow(self.name)
            return None
        if assigned == 1:  # the first: the others may have been rejected before; activate them
            state.pods_to_activate |= {other.key for other in self._members.of(key) if other.uid != pod.uid}
        return PermitWait(self._wait_seconds(group))

    def _wait_seconds(self, group: PodGroup) -> int:
        own, given = group.spec.schedule_timeout_seconds, self.args.permit_waiting_time_seconds
        if own is None:
            return given or _WAIT_SECONDS
        return own or given


Ints = npt.NDArray[np.int64]

#: Quantities have at most nine decimals.
_NANO = 9


def gap(nodes: Nodes, wanted: Mapping[str, QuantityLike], members: int, group: Iterable[PodInfo]) -> dict[str, str]:
    """Return the missing resources of a group; empty if there are enough.

    Nodes are counted until there is enough of a resource; an overcommitted node counts negatively. Requests of the
    group's own pods count as free.
    """
    pods = [info for info in group if info.node is not None]
    missing: dict[str, str] = {}
    for name, quantity in {**wanted, PODS: members}.items():
        left = nodes.free(name).copy()
        for info in pods:
            assert info.node is not None
            left[info.node.row] += 1 if name == PODS else info.template.requests.get(name, 0)
        # Thousandths for cpu, units for the rest, and exact fractions.
        parsed = parse_quantity(quantity)
        scale = _NANO - (3 if name == CPU else 0)
        target = parsed.unscaled * 10 ** (parsed.scale + _NANO)
        total = np.cumsum(left)
        if not len(total) or int(total.max()) * 10**scale < target:
            short = target - (int(total[-1]) if len(total) else 0) * 10**scale
            missing[name] = _text(name, short, scale)
    return missing


def _text(name: str, short: int, scale: int) -> str:
    amount = -(-short // 10**scale)
    return format_quantity(amount, binary=name not in (CPU, PODS), milli=name == CPU)
