"""NodeDemands: what a pod needs of each node, with the devices that it has or would get there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.framework import NodeInfo, Nodes, Status
from mooring.plugins.dynamic_resources.allocation import device_result
from mooring.plugins.dynamic_resources.allocator import Solution
from mooring.plugins.dynamic_resources.device_index import DeviceIndex, NodePools
from mooring.plugins.dynamic_resources.node_allocatable import (
    NO_DEMAND,
    ClaimDevices,
    Demand,
    DemandGroup,
    NodeAllocatable,
    NodeAllocatableError,
    Rejections,
)
from mooring.plugins.dynamic_resources.pod_claims import claim_name
from mooring.plugins.dynamic_resources.pod_devices import PodDevices
from mooring.releases import Release

Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]
#: Returns the pools of a node, and the devices that were found for the claims to allocate.
Chosen = Callable[[str], tuple[NodePools, Solution] | None]


class NodeDemands:
    """Groups nodes by what a pod needs of them. Nodes with the same signature are evaluated once."""

    def __init__(self, index: DeviceIndex, release: Release) -> None:
        self._index = index
        self._devices = NodeAllocatable(index, release)

    def prepare(self, found: PodDevices, pod: Pod, group: str | None, is_in_flight: Callable[[str], bool]) -> None:
        """Find the allocated claims whose devices take resources of nodes, and those that other pods use.

        ``is_in_flight`` is whether an allocation (by the uid of the claim) is being written for another pod.
        """
        allocated = [place for place in range(len(found.claims)) if place not in found.to_allocate]
        found.has_old_statuses = bool(pod.status.node_allocatable_resource_claim_statuses)
        found.metered = tuple(place for place in allocated if self._devices.may_be_metered(found.claims[place]))
        for place in found.metered:
            claim = found.claims[place]
            is_reserved = bool(claim.status.reserved_for) and not claim.is_reserved_for(pod.uid, group)
            if (is_reserved or is_in_flight(claim.uid)) and self._devices.has_mapped_device(claim):
                reason = "has a mapped device and cannot be shared across pods"
                found.unshareable[place] = Status.unresolvable(f"node allocatable resource claim {claim.name} {reason}")

    def groups(
        self,
        found: PodDevices,
        pod: Pod,
        nodes: Nodes,
        mask: Mask,
        names: tuple[str, ...],
        chosen: Chosen | None,
        rejections: Rejections,
    ) -> list[DemandGroup]:
        """Return the demands on some nodes, on which classes provide the extended resources ``names``.

        Nodes whose devices cannot be evaluated are rejected.
        """
        merged: dict[Hashable, tuple[Demand, list[int]]] = {}
        for key, places in self._alike(found, nodes, np.flatnonzero(mask), by_signature=chosen is not None):
            demand = found.demands.get((names, key))
            if demand is None:
                try:
                    demand = self._demand(found, pod, nodes[places[0]], chosen)
                except NodeAllocatableError:
                    self._reject_each(found, pod, nodes, places, chosen, rejections)
                    continue
                found.demands[names, key] = demand
            if demand is not NO_DEMAND:
                merged.setdefault((demand.requests, id(demand.status)), (demand, []))[1].extend(places)
        return [(demand, np.array(places, dtype=np.intp)) for demand, places in merged.values()]

    def _alike(
        self, found: PodDevices, nodes: Nodes, places: Rows, *, by_signature: bool
    ) -> Iterator[tuple[Hashable, list[int]]]:
        """Yield the places of nodes on which the pod has or gets equal devices, with a key of these devices."""
        if not len(places):
            return
        signatures = np.zeros(len(places), dtype=np.int64)
        if by_signature:
            signatures = self._index.column[places if nodes.rows is None else nodes.rows[places]]
        order = np.argsort(signatures, kind="stable")
        for part in np.split(order, np.flatnonzero(np.diff(signatures[order])) + 1):
            signature, mine = int(signatures[part[0]]), places[part].tolist()
            if not found.metered:
                yield signature, mine
                continue
            by_devices: dict[Hashable, list[int]] = {}
            for place in mine:
                by_devices.setdefault(self._known_devices(found, nodes[place]), []).append(place)
            for devices, some in by_devices.items():
                yield (signature, devices), some

    def _known_devices(self, found: PodDevices, node: NodeInfo) -> Hashable:
        """Return a key of the devices of allocated claims as a node knows them."""
        return tuple(
            device if isinstance(device, str) else id(device)
            for place in found.metered
            for device in self._devices.on_node(found.claims[place], node).devices
        )

    def _demand(self, found: PodDevices, pod: Pod, node: NodeInfo, chosen: Chosen | None) -> Demand:
        """Return what the pod needs of a node. Raises NodeAllocatableError."""
        new = self._new_devices(found, node, chosen) if chosen is not None else {}
        claims = []
        for place, claim in enumerate(found.claims):
            if place in found.metered:
                claims.append(self._devices.on_node(claim, node))
            elif place in new:
                claims.append(new[place])
        if not any(each.is_metered for each in claims):
            return NO_DEMAND
        names = [entry.name for entry in pod.spec.resource_claims if claim_name(pod, entry) is not None]
        uids = {name: claim.uid for name, claim in zip(names, found.claims, strict=False)}
        return self._devices.demand(pod, uids, claims)

    @staticmethod
    def _new_devices(found: PodDevices, node: NodeInfo, chosen: Chosen) -> dict[int, ClaimDevices]:
        """Return the claims that would be allocated on a node, by their places."""
        search = chosen(node.name)
        if search is None:
            return {}
        pools, solution = search[0].pools, search[1]
        return {
            place: ClaimDevices(
                found.claims[place],
                [device_result(each, pools, str) for each in part.devices],
                [pools[each.position[0]].contents[each.position[1]].device for each in part.devices],
            )
            for place, part in zip(found.to_allocate, solution, strict=True)
        }

    def _reject_each(
        self,
        found: PodDevices,
        pod: Pod,
        nodes: Nodes,
        places: Iterable[int],
        chosen: Chosen | None,
        rejections: Rejections,
    ) -> None:
        """Reject nodes whose devices cannot be evaluated; the messages name the devices of each node."""
        for place in places:
            try:
                self._demand(found, pod, nodes[place], chosen)
            except NodeAllocatableError as error:
                rejections.add(np.array([place], dtype=np.intp), Status.error(str(error)))
