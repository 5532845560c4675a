"""DynamicResources: allocates devices for the resource claims of pods, and for extended resources of classes."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Sequence
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api.devices import (
    AllocationResult,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceSlice,
)
from mooring.api.node_selectors import compile_node_selector
from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup, native_group_key
from mooring.framework import (
    ActionType,
    ClusterEvent,
    CycleState,
    Lister,
    Nodes,
    Rule,
    Status,
)
from mooring.framework.api_clients import ClaimWriter
from mooring.framework.device_allocations import ALLOCATION_SCORES, CLAIM_STATUSES, DEVICE_REJECTIONS, ClaimStatuses
from mooring.framework.normalize import default_normalize
from mooring.framework.status import SKIP, SKIP_TEMPLATE
from mooring.plugins.dynamic_resources.allocation import allocation_result
from mooring.plugins.dynamic_resources.claim_binder import ClaimBinder, ClaimBindingError, PodBinding
from mooring.plugins.dynamic_resources.claim_plan import allocated_score
from mooring.plugins.dynamic_resources.claim_release import ClaimRelease
from mooring.plugins.dynamic_resources.device_choice import DeviceChoice, NodeScores
from mooring.plugins.dynamic_resources.device_filter import UNPREPARED, DeviceFilter, rows_of
from mooring.plugins.dynamic_resources.device_rejections import RejectedDevices
from mooring.plugins.dynamic_resources.device_state import (
    NodePlan,
)
from mooring.plugins.dynamic_resources.extended_resources import (
    device_resources,
    special_claim,
)
from mooring.plugins.dynamic_resources.node_demands import NodeDemands
from mooring.plugins.dynamic_resources.pod_claims import (
    ClaimsNotReadyError,
    claims_of,
    group_name,
    users_of,
)
from mooring.plugins.dynamic_resources.pod_devices import DEVICES, PodDevices
from mooring.plugins.dynamic_resources.queueing_hints import DeviceHints

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

_GROUP: Final = "resource.k8s.io"
#: The gate of claims that belong to groups of pods.
_GROUP_CLAIMS: Final = "DRAWorkloadResourceClaims"
_NOTHING_TO_FREE: Final = Status.unschedulable("no new claims to deallocate")
_STILL: Final = Status.unschedulable("still not schedulable")
#: Since 1.37, PostFilter only says what it did.
_SILENT: Final = Status.unschedulable()
_NO_ALLOCATION: Final = Status.error("claim allocation not found for node")


class DynamicResources(DeviceFilter):
    """Finds nodes with devices for a pod's claims, allocates the devices and reserves the claims."""

    template_part = "constraints"
    zero_if_skipped = True

    permissions = (
        Rule((_GROUP,), ("resourceclaims",), ("create", "delete", "get", "patch")),
        # The API server requires permission for the binding if a write changes the allocation or a reservation.
        Rule((_GROUP,), ("resourceclaims/binding", "resourceclaims/status"), ("patch", "update")),
    )

    #: Whether a pod uses an allocation that is being written for another pod, instead of being rejected until then.
    joins_allocations = True
    claims = Lister(ResourceClaim, events=ActionType(0))
    slices = Lister(ResourceSlice, events=ActionType(0))
    classes = Lister(DeviceClass, events=ActionType(0))
    taint_rules = Lister(DeviceTaintRule, events=ActionType(0), gate="DRADeviceTaintRules")
    # Claims of groups need groups, and these need GangScheduling.
    groups = Lister(NativePodGroup, events=ActionType(0), gate=_GROUP_CLAIMS, permitted_by="GangScheduling")

    def setup(self) -> None:
        """Read the claims and devices."""
        self._read_devices()
        self._binder = ClaimBinder(self.handle, self._tracker)
        self._release = ClaimRelease(self.handle, self._tracker, self._binder)
        self._has_groups = self.handle.release.enabled("GenericWorkload")
        #: Whether the group of a pod can own and use claims.
        self._of_groups = self.handle.release.enabled(_GROUP_CLAIMS)
        self._has_lists = self.handle.release.enabled("DRAPrioritizedList")

    # The queue

    def pre_enqueue(self, pod: Pod) -> Status | None:
        """Hold a pod back until its claims exist."""
        if not pod.spec.resource_claims:
            return None
        try:
            claims_of(pod, self._tracker, of_groups=self._of_groups)
        except ClaimsNotReadyError as error:
            return Status.unresolvable(str(error))
        return None

    def events_to_register(self) -> list[ClusterEvent]:
        """Register for events that may create claims, free devices, or add some."""
        return DeviceHints(self._state, self.handle.release).events()

    # PreFilter

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Find the pod's claims; skip pods without any."""
        resources = self.handle.template(pod).kept(self, lambda: device_resources(pod))
        if not pod.spec.resource_claims and not resources:
            return SKIP_TEMPLATE
        state.write(DEVICES, PodDevices([], None))
        try:
            claims = claims_of(pod, self._tracker, of_groups=self._of_groups)
            users = self._users(pod)
        except ClaimsNotReadyError as error:
            return Status.unresolvable(str(error))
        claims = [self._joined(claim, pod) for claim in claims]
        found = PodDevices(claims, self._special_claim(pod, resources))
        if not found.claims:
            return SKIP
        found.resources = resources if found.special is not None else ()
        found.users = users
        if (status := self._check(found)) is None:
            state.write(DEVICES, found)
            if found.to_allocate:
                found.plan_of = partial(self._plan_on, found, pod)
                state.write(DEVICE_REJECTIONS, RejectedDevices(self._index, self._tracker.usage.view, found.plan_of))
            if self._node_allocatable is not None:
                self._prepare_demands(self._node_allocatable, state, found, pod)
            scorers = self.handle.allocation_scorers if found.to_allocate else ()
            if scorers:
                found.choice = DeviceChoice(pod, scorers, self._tracker.usage.view)
                state.write(ALLOCATION_SCORES, NodeScores(partial(self.allocation_scores, found, pod)))
        return status

    def _prepare_demands(self, demands: NodeDemands, state: CycleState, found: PodDevices, pod: Pod) -> None:
        """Find the allocated claims whose devices take resources of nodes, and those that other pods use."""
        group = group_name(pod) if self._of_groups else None
        demands.prepare(found, pod, group, self._tracker.is_in_flight)

        def of_node(node_name: str) -> ClaimStatuses:
            return self._claim_statuses(demands, found, pod, node_name)

        state.write(CLAIM_STATUSES, of_node)

    def _joined(self, claim: ResourceClaim, pod: Pod) -> ResourceClaim:
        """Return a claim with the allocation in flight for another pod, if the pod can use it; pods of a group can."""
        writer = self.handle.claims
        joins = self.joins_allocations and writer is not None and writer.shares_allocations
        if joins or self._tracker.is_for_group(claim.uid, self._group_key(pod)):
            return self._tracker.with_allocation_in_flight(claim)
        return claim

    def _group_key(self, pod: Pod) -> str | None:
        return native_group_key(pod) if self._has_groups else None

    def _users(self, pod: Pod) -> tuple[ResourceClaimConsumerReference, ...]:
        """Return who uses each claim, if that can be the pod's group; otherwise it is the pod."""
        name = group_name(pod) if self._of_groups else None
        if name is None:
            return ()
        group = self.groups.get(name, pod.namespace)
        if group is None:
            raise ClaimsNotReadyError(f"pod group state not found for pod group podGroup:{pod.namespace}/{name}")
        return users_of(pod, group)

    def _special_claim(self, pod: Pod, resources: tuple[str, ...]) -> ResourceClaim | None:
        if not any(self._extended.get(name) is not None for name in resources):
            return None
        known = self._tracker.extended_claim(pod.uid)
        return known if known is not None else special_claim(pod, self._new_uid())

    def _check(self, found: PodDevices) -> Status | None:
        """Check the claims and compile the node selectors of allocated ones."""
        for place, claim in enumerate(found.claims):
            allocation = claim.status.allocation
            if allocation is None:
                status = self._check_unallocated(claim, is_special=place == found.special)
                if status is not None:
                    return status
            elif allocation.node_selector is not None:
                matcher = compile_node_selector(allocation.node_selector)
                if matcher.error is not None:
                    return Status.error(matcher.error)
                found.matchers[place] = matcher
        return None

    def _check_unallocated(self, claim: ResourceClaim, *, is_special: bool) -> Status | None:
        if self._tracker.is_in_flight(claim.uid):
            return Status.unresolvable(f"resource claim {claim.key} is in the process of being allocated")
        if is_special:
            return None
        for request in claim.spec.devices.requests:
            if request.exactly is not None:
                named = [(request.exactly.device_class_name, request.name)]
            elif request.first_available and not self._has_lists:
                problem = "has subrequests, but the DRAPrioritizedList feature is disabled"
                return Status.unresolvable(f"resource claim {claim.key}, request {request.name}: {problem}")
            elif request.first_available:
                named = [(each.device_class_name, f"{request.name}/{each.name}") for each in request.first_available]
            else:
                return Status.unresolvable(f"resource claim {claim.key}, request {request.name}: unknown request type")
            for class_name, where in named:
                if not class_name:
                    return Status.error(f"request {where}: unsupported request type")
                if self._state.classes.get(class_name) is None:
                    return Status.unresolvable(f"request {where}: device class {class_name} does not exist")
        return None

    # Score

    def score_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """Score by the chosen alternatives of prioritized lists."""
        found = state.get(DEVICES)
        if found is None or not (found.claims and found.to_allocate and found.filtered and self._has_lists):
            return 0
        earlier = sum(allocated_score(claim) for claim in found.claims if claim.status.allocation is not None)
        rows = rows_of(nodes)
        self._index.refresh()
        scores = np.zeros(len(nodes), dtype=np.int64)
        _, served = self._check_resources(found, nodes, rows)
        for names, mask in served.items():
            if names or found.has_user_claims:
                signatures = self._index.column[rows[mask]]
                scores[mask] = self._plan(found, pod, names).plan.scores(signatures) + earlier
        return scores if scores.any() else 0

    def allocation_scores(self, found: PodDevices, pod: Pod, scorer: str, nodes: Nodes) -> Ints:
        """Return the scores that a plugin gives to the chosen allocations."""
        scores = np.zeros(len(nodes), dtype=np.int64)
        rows = rows_of(nodes)
        self._index.refresh()
        _, served = self._check_resources(found, nodes, rows)
        for names, mask in served.items():
            if found.choice is not None and (names or found.has_user_claims):
                plan = self._plan(found, pod, names).plan
                scores[mask] = found.choice.scores(plan, self._index, rows[mask], scorer)
        return scores

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Ints) -> Ints | int:
        """Scale the scores to 0..100."""
        return default_normalize(scores)

    # PostFilter

    def post_filter(self, state: CycleState, pod: Pod, statuses: object) -> Status:
        """Deallocate a claim that keeps the pod from being scheduled and that no other pod uses."""
        found = state.get(DEVICES)
        reports = self.handle.release.reports_no_deallocation
        if found is None and self.name not in state.skip_filter:
            return UNPREPARED
        if found is None or not found.claims:
            return _NOTHING_TO_FREE if reports else _SILENT
        return self._release.for_pod(found, pod) or (_STILL if reports else _SILENT)

    def post_filter_group(
        self, group: NativePodGroup, attempts: Sequence[tuple[Pod, CycleState]], *, is_active: bool
    ) -> Status:
        """Free claims that keep a group from being scheduled. ``is_active`` is whether pods of it have nodes."""
        tried = [
            (pod, state.get(DEVICES))
            for pod, state in attempts
            if state.get(DEVICES) is not None or self.name in state.skip_filter
        ]
        return self._release.for_group(group, tried, is_active=is_active)

    # Reserve and PreBind

    def allocations(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[NodePlan, dict[int, AllocationResult]] | None:
        """Return what Filter found for a node, by the place of the claim; None if there is nothing to allocate."""
        found = state.get(DEVICES)
        row = self.handle.table.row_of.get(node_name)
        if found is None or row is None or not found.filtered or not found.to_allocate:
            return None
        self._index.refresh()
        plan = self._plan_on(found, pod, row)
        if plan is None:
            return None
        chosen = self._chosen(found, plan, node_name)
        if chosen is None:
            return None
        pools, solution = chosen
        results = (
            allocation_result(claim, part, pools.pools, node_name, self._new_uid)
            for claim, part in zip(plan.plan.claims, solution, strict=True)
        )
        return plan, dict(zip(found.to_allocate, results, strict=True))

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Put the allocation in flight: other pods cannot get the devices any more."""
        found = state.get(DEVICES)
        if found is None:
            return None if self.name in state.skip_filter else UNPREPARED
        if not found.claims:
            return None
        group = group_name(pod) if self._of_groups else None
        binding = found.binding = PodBinding(list(found.claims), found.special, found.users, group)
        if self._node_allocatable is not None:
            binding.statuses = pod.status.node_allocatable_resource_claim_statuses
            binding.clears_statuses = found.has_old_statuses and bool(binding.statuses)
        if not found.to_allocate:
            return None
        chosen = self.allocations(state, pod, node_name)
        if chosen is None:
            only_special = all(place == found.special for place in found.to_allocate)
            return None if only_special else _NO_ALLOCATION
        plan, binding.allocations = chosen
        if found.special is not None:
            binding.node_claim = plan.claims[found.to_allocate.index(found.special)]
            binding.mappings = plan.mappings
        for place, allocation in binding.allocations.items():
            self._tracker.start(found.claims[place].uid, allocation, self._group_key(pod))
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Give the devices back, and remove the reservations of the pod."""
        found = state.get(DEVICES)
        if found is not None and found.binding is not None:
            self._binder.unreserve(self.handle.claims, pod, found.binding)

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Return whether there are claims to bind."""
        found = state.get(DEVICES)
        if found is None:
            return SKIP if self.name in state.skip_filter else UNPREPARED
        return None if found.claims else SKIP

    def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | Awaitable[Status | None] | None:
        """Write the allocation and the reservation; without a cluster the allocation stays in flight."""
        found = state.get(DEVICES)
        writer = self.handle.claims
        if found is None or found.binding is None or writer is None:
            return None
        return self._pre_bind(writer, pod, node_name, found.binding)

    async def _pre_bind(self, writer: ClaimWriter, pod: Pod, node_name: str, binding: PodBinding) -> Status | None:
        try:
            await self._binder.bind(writer, pod, node_name, binding, self._binding_timeout)
        except ClaimBindingError as error:
            return Status.error(str(error))
        return None

    def _new_uid(self) -> str:
        return str(uuid.UUID(int=self.handle.random.getrandbits(128), version=4))
