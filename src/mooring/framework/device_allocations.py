"""Device allocations: the devices that a pod would get on a node, for plugins that score them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import NodeAllocatableResourceClaimStatus
from mooring.framework.state import CycleState, StateKey

if TYPE_CHECKING:
    from mooring.columns.nodes import Nodes


#: What the devices of each claim take from the resources of the node.
ClaimStatuses = tuple[NodeAllocatableResourceClaimStatus, ...]


class NodeDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device that a node can use.

    It has no name, because one allocation stands for all nodes whose devices are equal.

    Attributes:
        driver: The driver.
        attributes: The attributes, with the names and values of the ResourceSlice.
        pool: The number of the device's pool on the node.
        counter_sets: The counters that the device shares with other devices of its pool: it is a partition.
    """

    driver: str = ""
    attributes: Mapping[str, str | int | bool] = {}
    pool: int = 0
    counter_sets: tuple[str, ...] = ()

    def attribute(self, name: str) -> str | int | bool | None:
        """Return the value of an attribute, or None. The domain may be omitted if it is the driver."""
        found = self.attributes.get(name)
        if found is not None:
            return found
        domain, slash, plain = name.partition("/")
        return self.attributes.get(plain if slash and domain == self.driver else f"{self.driver}/{name}")


class DeviceAllocation(msgspec.Struct, frozen=True, kw_only=True, eq=False, weakref=True):
    """The devices of a node, and those of them that a pod would get.

    Attributes:
        devices: All devices that the node can use.
        chosen: The places of the pod's devices in ``devices``.
        free_before: Whether each device is free now. A partition is not if other partitions use its counters.
        free_after: Whether each device is free once the pod has its devices.
    """

    devices: tuple[NodeDevice, ...]
    chosen: tuple[int, ...]
    free_before: tuple[bool, ...]
    free_after: tuple[bool, ...]

    @property
    def chosen_devices(self) -> tuple[NodeDevice, ...]:
        """The devices that the pod would get."""
        return tuple(self.devices[place] for place in self.chosen)


class AllocationScorer(NamedTuple):
    """A plugin that scores allocations."""

    name: str
    weight: int
    call: Callable[..., Any]


class AllocationScores(Protocol):
    """The scores of the allocations that were chosen on nodes."""

    def of(self, plugin: str, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Return the score that a plugin gives to the allocation on each node."""


class DeviceRejection(msgspec.Struct, frozen=True, gc=False):
    """Devices of a node that a request of a claim cannot get for the same reason."""

    node: str
    claim: str
    request: str
    reason: str
    count: int
    #: The names of the first few devices: driver/pool/name.
    devices: tuple[str, ...]


class DeviceRejections(Protocol):
    """Why devices of nodes were not allocated, for explanations."""

    def on(self, rows: npt.NDArray[np.intp]) -> Sequence[DeviceRejection]:
        """Return the reasons on a few of some nodes, limited in number."""


#: Written for pods that need devices.
DEVICE_REJECTIONS: Final[StateKey[DeviceRejections]] = StateKey("DynamicResources/rejections")
#: Written for pods that need devices, if a plugin scores allocations.
ALLOCATION_SCORES: Final[StateKey[AllocationScores]] = StateKey("DynamicResources/scores")
#: Written if devices can take resources of nodes: returns what those on a node take, for the status of the pod.
CLAIM_STATUSES: Final[StateKey[Callable[[str], ClaimStatuses]]] = StateKey("DynamicResources/statuses")


def claim_statuses(state: CycleState, node_name: str) -> ClaimStatuses:
    """Return what the devices that a pod would get take from the resources of a node."""
    found = state.get(CLAIM_STATUSES)
    return () if found is None else found(node_name)
