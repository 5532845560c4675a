"""DeviceFilter: the nodes on which the claims of a pod are available, or can be allocated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.devices import (
    ResourceClaim,
    ResourceClaimSpec,
)
from mooring.api.pod import Pod
from mooring.framework import (
    CycleState,
    NodeInfo,
    Nodes,
    Plugin,
    PodInfo,
    Status,
    Verdicts,
    Victims,
    WhatIf,
)
from mooring.framework.device_allocations import ClaimStatuses
from mooring.framework.status import Code
from mooring.plugins.dynamic_resources.allocator import Solution
from mooring.plugins.dynamic_resources.allocator_features import allocator_features
from mooring.plugins.dynamic_resources.binding_conditions import DeviceBindingError, is_ready, is_timed_out
from mooring.plugins.dynamic_resources.device_index import NodePools
from mooring.plugins.dynamic_resources.device_release import CANNOT_ALLOCATE, DEVICE_RELEASE
from mooring.plugins.dynamic_resources.device_state import (
    FAILED,
    FOUND,
    INVALID_POOLS,
    NOTHING,
    TIMED_OUT,
    UNKNOWN,
    NodePlan,
    Outcome,
    device_state,
    new_budget,
)
from mooring.plugins.dynamic_resources.extended_resources import (
    requests_and_mappings,
)
from mooring.plugins.dynamic_resources.node_allocatable import GATE, DemandGroup, Rejections, resources_of
from mooring.plugins.dynamic_resources.node_demands import NodeDemands
from mooring.plugins.dynamic_resources.pod_devices import DEVICES, PodDevices
from mooring.plugins.dynamic_resources.pools import SKIPS_NODE_OPERATIONS

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]

UNPREPARED: Final = Status.error("not found")
_CANNOT_ALLOCATE: Final = Status.unresolvable("cannot allocate all claims")
_INVALID_POOLS: Final = Status.unresolvable("invalid resource pools were encountered")
_UNAVAILABLE: Final = Status.unresolvable("resourceclaim not available on the node")
_LEFT_OVER: Final = Status.unresolvable("cannot schedule extended resource claim")
_CANNOT_FIT: Final = Status.unresolvable("cannot fit resource")

#: The codes of verdicts. Others follow; an error is that of one node.
_STATUSES: Final = (_CANNOT_ALLOCATE, _INVALID_POOLS, _UNAVAILABLE, _LEFT_OVER, _CANNOT_FIT)
_CODE_OF_KIND: Final = {FOUND: 0, NOTHING: CANNOT_ALLOCATE, INVALID_POOLS: 2}
_UNAVAILABLE_CODE, _LEFT_OVER_CODE, _CANNOT_FIT_CODE, _FIRST_OTHER = 3, 4, 5, 6


class DynamicResourcesArgs(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Timeouts of the search on a node, and of the preparation of devices, as durations such as ``10s``."""

    filter_timeout: str = "10s"
    binding_timeout: str = "10m0s"


class DeviceFilter(Plugin[DynamicResourcesArgs]):
    """Requires that allocated claims are available, and that devices can be allocated for the others."""

    def _read_devices(self) -> None:
        """Read the devices and the settings of Filter."""
        release = self.handle.release
        self._state = device_state(self.handle)
        self._tracker = self._state.tracker
        self._index = self._state.index
        self._extended = self._state.extended
        has_timeout = release.enabled("DRASchedulerFilterTimeout")
        self._filter_timeout = _seconds(self.args.filter_timeout) if has_timeout else 0.0
        self._binding_timeout = _seconds(self.args.binding_timeout)
        self._has_binding_conditions = allocator_features(release).binding_conditions
        #: What devices take from the resources of nodes; None if the gate is off.
        self._node_allocatable = NodeDemands(self._index, release) if release.enabled(GATE) else None

    # Filter

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Require that allocated claims are available, and that devices can be allocated for the others."""
        found = state.get(DEVICES)
        if found is None:
            return Verdicts.reject(np.ones(len(nodes), dtype=np.bool_), UNPREPARED)
        if not found.claims:
            return None
        if found.left_over:
            return Verdicts(np.full(len(nodes), _LEFT_OVER_CODE, dtype=np.int8), lambda code: _STATUSES[code - 1])
        found.filtered = True
        codes, served, others = self._search(state, found, pod, nodes)
        if self._node_allocatable is not None:
            groups = self._demand_groups(self._node_allocatable, found, pod, nodes, codes, served, others)
            Rejections(codes, others, _FIRST_OTHER).compare(groups, nodes, nodes.requested)
        return self._verdicts(found, nodes, codes, others)

    def _search(
        self, state: CycleState, found: PodDevices, pod: Pod, nodes: Nodes
    ) -> tuple[npt.NDArray[np.int32], dict[tuple[str, ...], Mask], list[Status]]:
        """Search devices for the claims without an allocation.

        Return codes, the nodes on which classes provide the same resources, and the statuses of further codes.
        """
        rows, others = rows_of(nodes), list[Status]()
        codes, served = self._check_resources(found, nodes, rows)
        if found.unshareable:
            self._check_sharing(found, nodes, codes, Rejections(codes, others, _FIRST_OTHER))
            served = {names: mask & (codes == 0) for names, mask in served.items()}
        if found.to_allocate:
            self._allocate(found, pod, rows, codes, served, others)
            if (release := state.get(DEVICE_RELEASE)) is not None:
                release.retry(codes, rows)
        return codes, served, others

    def _verdicts(
        self, found: PodDevices, nodes: Nodes, codes: npt.NDArray[np.int32], others: list[Status]
    ) -> Verdicts | None:
        """Check the allocated claims on the remaining nodes, and return the verdicts."""
        if len(found.to_allocate) < len(found.claims):
            self._check_allocated(found, nodes, codes)
        if not codes.any():
            return None
        return Verdicts(
            codes,
            lambda code: others[code - _FIRST_OTHER] if code >= _FIRST_OTHER else _STATUSES[code - 1],
            may_fail=any(each.code is Code.ERROR for each in others),
        )

    def _check_sharing(
        self, found: PodDevices, nodes: Nodes, codes: npt.NDArray[np.int32], rejections: Rejections
    ) -> None:
        """Reject the nodes of claims that another pod uses and that cannot be shared."""
        for place, status in found.unshareable.items():
            unreachable = self._unreachable(found, place, nodes)
            rejected = codes == 0 if unreachable is None else (codes == 0) & ~unreachable
            if rejected.any():
                rejections.add(rejected, status)

    def _check_resources(
        self, found: PodDevices, nodes: Nodes, rows: Rows
    ) -> tuple[npt.NDArray[np.int32], dict[tuple[str, ...], Mask]]:
        """Return codes for the extended resources, and the nodes on which classes provide the same ones."""
        codes = np.zeros(len(nodes), dtype=np.int32)
        if found.special is None:
            return codes, {(): np.ones(len(nodes), dtype=np.bool_)}
        provided = [name for name in found.resources if self._extended.get(name) is not None]
        for name in found.resources:
            if name not in provided:
                lacking = np.flatnonzero(nodes.allocatable(name) == 0)
                table = self.handle.table.nodes
                missing = [p for p in lacking.tolist() if name not in table[rows[p]].node.status.allocatable]
                codes[missing] = _CANNOT_FIT_CODE
        served = {}
        for names, mask in _missing_resources(provided, nodes):
            served[names] = mask & (codes == 0)
        return codes, served

    def _check_allocated(self, found: PodDevices, nodes: Nodes, codes: npt.NDArray[np.int32]) -> None:
        """Reject the remaining nodes on which an allocated claim is not available."""
        passing = codes == 0
        for place, claim in enumerate(found.claims):
            if claim.status.allocation is None:
                continue
            lacking = passing
            if not self._must_be_dropped(claim):
                unreachable = self._unreachable(found, place, nodes)
                if unreachable is None:
                    continue
                lacking = passing & unreachable
            if lacking.any():
                found.unavailable.add(place)
                codes[lacking] = _UNAVAILABLE_CODE

    def _unreachable(self, found: PodDevices, place: int, nodes: Nodes) -> Mask | None:
        """Return the nodes that cannot use the devices of an allocated claim; None if all can."""
        matcher = found.matchers.get(place)
        unreachable = None if matcher is None else ~nodes.matches_any(matcher.terms)
        if self._needs_skipping(found.claims[place]):
            column = nodes.table.features.lookup(lambda each: SKIPS_NODE_OPERATIONS not in each, absent=True)
            unable = column.take(nodes.feature_codes)
            unreachable = unable if unreachable is None else unreachable | unable
        return unreachable

    def _needs_skipping(self, claim: ResourceClaim) -> bool:
        """Return whether the nodes of an allocated claim must be able to skip operations on devices."""
        allocation = claim.status.allocation
        if allocation is None or not self.handle.release.allocations_skip_operations:
            return False
        return any(each.skip_node_operations for each in allocation.devices.results)

    def _must_be_dropped(self, claim: ResourceClaim) -> bool:
        """Return whether the preparation of a claim's devices failed or took too long."""
        if not self._has_binding_conditions:
            return False
        try:
            return not is_ready(claim) and is_timed_out(claim, self.handle.clock(), self._binding_timeout)
        except DeviceBindingError:
            return True

    def _allocate(
        self,
        found: PodDevices,
        pod: Pod,
        rows: Rows,
        codes: npt.NDArray[np.int32],
        served: dict[tuple[str, ...], Mask],
        errors: list[Status],
    ) -> None:
        """Search devices, once for all nodes with the same signature."""
        self._index.refresh()
        writer = self.handle.claims
        budget = new_budget(self._filter_timeout, patient=writer is not None and writer.patient)
        for names, mask in served.items():
            if not names and not found.has_user_claims:
                continue  # device plugins provide everything
            plan = self._plan(found, pod, names)
            places = np.flatnonzero(mask)
            signatures = self._index.column[rows[places]]
            kinds = plan.plan.kinds(signatures)
            temporary: list[int] = []
            for signature in np.unique(signatures[kinds == UNKNOWN]).tolist():
                row = int(rows[places[int(np.argmax(signatures == signature))]])
                outcome = (
                    Outcome(TIMED_OUT)
                    if budget.out_of_time
                    else self._state.search(plan.plan, self._index.of_row(row), budget)
                )
                plan.plan.store(signature, outcome)
                if outcome.kind == TIMED_OUT and budget.out_of_time:
                    temporary.append(signature)
            kinds = plan.plan.kinds(signatures)
            for kind, code in _CODE_OF_KIND.items():
                if code:
                    codes[places[kinds == kind]] = code
            for place in places[kinds >= FAILED].tolist():
                codes[place] = _FIRST_OTHER + len(errors)
                errors.append(self._error(plan, int(rows[place])))
            for signature in temporary:
                plan.plan.forget(signature)

    def _plan(self, found: PodDevices, pod: Pod, names: tuple[str, ...]) -> NodePlan:
        """Return what is to be allocated on nodes where classes provide some extended resources."""
        known = found.plans.get(names)
        if known is None:
            classes = {name: each for name in names if (each := self._extended.get(name)) is not None}
            requests, mappings = requests_and_mappings(pod, classes, classes) if names else ((), ())
            claims = []
            for place in found.to_allocate:
                claim = found.claims[place]
                if place == found.special:
                    devices = msgspec.structs.replace(claim.spec.devices, requests=requests)
                    claim = msgspec.structs.replace(claim, spec=ResourceClaimSpec(devices=devices))
                claims.append(claim)
            plan = self._state.plan([claim.spec for claim in claims])
            known = found.plans[names] = NodePlan(plan, claims, requests, mappings)
        known.plan.grow(self._index.count)
        return known

    def _plan_on(self, found: PodDevices, pod: Pod, row: int) -> NodePlan | None:
        """Return what is to be allocated on a row; None if there is nothing."""
        nodes = Nodes(self.handle.table, np.array([row], dtype=np.intp))
        _, served = self._check_resources(found, nodes, rows_of(nodes))
        names = next((each for each, mask in served.items() if mask[0]), None)
        return None if names is None or not (names or found.has_user_claims) else self._plan(found, pod, names)

    def _error(self, plan: NodePlan, row: int) -> Status:
        node = self.handle.table.nodes[row].name
        pools = self._index.of_node(node)
        outcome = plan.plan.outcome(pools.signature)
        if outcome is None or outcome.error is None:
            return Status.error(f"node {node}: timed out trying to allocate devices")
        return Status.error(
            outcome.error.render(plan.claims, lambda place: "/".join(pools.pools[place[0]].ids[place[1]]))
        )

    def what_if(self, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Return a constant model, since victims free no devices; except for ClaimPreemption.

        Victims can free resources of the node that devices would take.
        """
        release = state.get(DEVICE_RELEASE)
        if release is None and self._node_allocatable is not None:
            return self._what_if(self._node_allocatable, state, pod, victims)
        verdicts = self.filter_nodes(state, pod, victims.nodes)
        return WhatIf.constant(verdicts, victims) if release is None else release.what_if(verdicts, victims)

    def _what_if(self, demands: NodeDemands, state: CycleState, pod: Pod, victims: Victims) -> WhatIf:
        """Return a model of the resources that the devices take from their nodes: a victim frees its requests."""
        found, nodes = state.get(DEVICES), victims.nodes
        if found is None or not found.claims or found.left_over:
            return WhatIf.constant(self.filter_nodes(state, pod, nodes), victims)
        found.filtered = True
        codes, served, others = self._search(state, found, pod, nodes)
        groups = self._demand_groups(demands, found, pod, nodes, codes, served, others)
        names = list(resources_of(groups))
        slots = self.handle.table.slots
        values = np.array([nodes.requested(name) for name in names], dtype=np.int64).reshape(len(names), len(nodes))
        nothing = np.zeros(victims.index.shape, dtype=np.int64)
        freed = [victims.amounts(slots[name]) if name in slots else nothing for name in names]
        effects = np.array(freed, dtype=np.int64).reshape(len(names), *victims.index.shape)

        def verdicts(taken: Ints) -> Verdicts | None:
            now, statuses = codes.copy(), list(others)
            Rejections(now, statuses, _FIRST_OTHER).compare(groups, nodes, lambda name: taken[names.index(name)])
            return self._verdicts(found, nodes, now, statuses)

        return WhatIf(values, effects, verdicts)

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> None:
        """Release the claims of a victim, for ClaimPreemption."""
        if (release := state.get(DEVICE_RELEASE)) is not None:
            release.gone.add(removed.pod.uid)

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> None:
        """Undo the release of a victim's claims."""
        if (release := state.get(DEVICE_RELEASE)) is not None:
            release.gone.discard(added.pod.uid)

    # Demands

    def _claim_statuses(self, demands: NodeDemands, found: PodDevices, pod: Pod, node_name: str) -> ClaimStatuses:
        """Return what the devices on a node take from its resources."""
        row = self.handle.table.row_of.get(node_name)
        if row is None or not found.filtered:
            return ()
        nodes = Nodes(self.handle.table, np.array([row], dtype=np.intp))
        codes, served = self._check_resources(found, nodes, rows_of(nodes))
        groups = self._demand_groups(demands, found, pod, nodes, codes, served, [])
        return next((demand.statuses for demand, _ in groups), ())

    def _demand_groups(
        self,
        demands: NodeDemands,
        found: PodDevices,
        pod: Pod,
        nodes: Nodes,
        codes: npt.NDArray[np.int32],
        served: dict[tuple[str, ...], Mask],
        errors: list[Status],
    ) -> list[DemandGroup]:
        """Return what the pod needs of the remaining nodes; a node whose devices cannot be evaluated is rejected."""
        groups: list[DemandGroup] = []
        self._index.refresh()
        for names, mask in served.items():
            if not names and not found.has_user_claims:
                continue
            plan = self._plan(found, pod, names) if found.to_allocate else None
            chosen = partial(self._chosen, found, plan) if plan is not None else None
            rejections = Rejections(codes, errors, _FIRST_OTHER)
            groups += demands.groups(found, pod, nodes, mask & (codes == 0), names, chosen, rejections)
        return groups

    def _chosen(self, found: PodDevices, plan: NodePlan, node_name: str) -> tuple[NodePools, Solution] | None:
        """Return the devices that Filter found on a node for the claims of a plan, with the pools of the node."""
        pools = self._index.of_node(node_name)
        outcome = plan.plan.outcome(pools.signature)
        if outcome is None or outcome.solution is None:
            return None
        if found.choice is not None:
            return pools, found.choice.of(plan.plan, pools, outcome).solution
        return pools, outcome.solution


def _missing_resources(names: list[str], nodes: Nodes) -> Iterator[tuple[tuple[str, ...], Mask]]:
    """Yield sets of resources with the nodes that lack exactly these. A pod can request any number of resources."""
    lacks = {name: nodes.allocatable(name) == 0 for name in names}
    offered = [mask for mask in lacks.values() if not mask.all()]
    if not offered:
        yield tuple(names), np.ones(len(nodes), dtype=np.bool_)
        return
    found, numbers = np.unique(np.packbits(np.stack(offered), axis=0), axis=1, return_inverse=True)
    for number in range(found.shape[1]):
        mask = numbers.reshape(-1) == number
        first = int(np.argmax(mask))
        yield tuple(name for name in names if lacks[name][first]), mask


def rows_of(nodes: Nodes) -> Rows:
    """Return the rows of a view of nodes."""
    return np.arange(len(nodes)) if nodes.rows is None else nodes.rows


_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION_PART: Final = re.compile(r"([0-9.]+)(h|ms|m|s|us|µs|ns)")


def _seconds(duration: str) -> float:
    """Return a duration of the configuration, which is valid, in seconds."""
    return sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(duration))
