"""DynamicResources in batch sessions: devices are reserved within a session, and claims are written when pods bind."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

import msgspec

from mooring.api.devices import ResourceClaim, ResourceClaimConsumerReference
from mooring.api.pod import Pod
from mooring.framework.state import CycleState
from mooring.framework.status import Status
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.dynamic_resources.claim_binder import PodBinding
from mooring.plugins.dynamic_resources.pod_devices import DEVICES

_replace = msgspec.structs.replace


class DeviceReservation:
    """The devices that are reserved for a pod, from its placement in a session until it is bound."""

    __slots__ = ("_binding", "_node_name", "_plugin", "_pod")

    def __init__(self, plugin: SessionClaims, pod: Pod, node_name: str, binding: PodBinding) -> None:
        self._plugin = plugin
        self._pod = pod
        self._node_name = node_name
        self._binding = binding

    def pre_bind(self) -> Coroutine[Any, Any, Status | None] | None:
        """Write the allocations and the reservations of the claims; None without a cluster."""
        return self._plugin.write(self._pod, self._node_name, self._binding)

    def release(self) -> None:
        """Give the devices back, and remove the pod from the claims that were written."""
        self._plugin.release(self._pod, self._binding)

    def written_claims(self) -> list[ResourceClaim]:
        """Return the claims as PreBind would write them."""
        user = ResourceClaimConsumerReference(resource="pods", name=self._pod.name, uid=self._pod.uid)
        found = []
        for place, claim in enumerate(self._binding.claims):
            status = claim.status
            allocation = self._binding.allocations.get(place, status.allocation)
            users = status.reserved_for if claim.is_reserved_for(self._pod.uid) else (*status.reserved_for, user)
            found.append(_replace(claim, status=_replace(status, allocation=allocation, reserved_for=users)))
        return found


class SessionClaims(DynamicResources):
    """DynamicResources for sessions.

    Volcano's libraries provide no devices for extended resources, do not score devices, and never call PostFilter.
    """

    name = "DynamicResources"
    joins_allocations = False
    #: The reservations by the uid of the pod. All sessions share them.
    reservations: dict[str, DeviceReservation]

    def _special_claim(self, pod: Pod, resources: tuple[str, ...]) -> None:
        """Return no claim: devices are allocated only for the claims of a pod."""
        return

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Put the allocation in flight. A claim that changed since PreFilter is refused."""
        found = state.get(DEVICES)
        for claim in [found.claims[place] for place in found.to_allocate] if found is not None else ():
            current = self._tracker.get(claim.name, claim.namespace)
            if self._tracker.is_in_flight(claim.uid) or (current is not None and current.status.allocation is not None):
                return Status.unresolvable(f"resource claim {claim.key} was allocated for another pod in the meantime")
        status = super().reserve(state, pod, node_name)
        if found is not None and found.binding is not None:
            self.reservations[pod.uid] = DeviceReservation(self, pod, node_name, found.binding)
            found.binding = None
        return status

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Give the devices back."""
        reservation = self.reservations.pop(pod.uid, None)
        if reservation is not None:
            reservation.release()

    def write(self, pod: Pod, node_name: str, binding: PodBinding) -> Coroutine[Any, Any, Status | None] | None:
        """Write the claims of a pod; without a cluster the allocation stays in flight."""
        writer = self.handle.claims
        return None if writer is None else self._pre_bind(writer, pod, node_name, binding)

    def release(self, pod: Pod, binding: PodBinding) -> None:
        """Give up what was reserved, and remove the pod from claims that were written."""
        self._binder.unreserve(self.handle.claims, pod, binding)
