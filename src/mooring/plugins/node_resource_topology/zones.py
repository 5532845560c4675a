"""NodeResourceTopology objects, and the NUMA zones read from them."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from typing import Annotated, Final

import msgspec

from mooring.api.quantity import QuantityError, QuantityLike, parse_quantity
from mooring.api.resources import check_amounts
from mooring.framework import CustomResource, Meta


class Attribute:
    """An attribute of a node or a zone."""

    name: str
    value: str


class Cost:
    """The cost of access to another zone."""

    name: str
    value: int


class ResourceInfo:
    """The amounts of a resource in a zone."""

    name: str
    capacity: QuantityLike
    allocatable: QuantityLike
    available: Annotated[QuantityLike, Meta(description="The available amount.")]


class ReportedZone:
    """A part of a node; those of type Node are NUMA zones, called node-0, node-1 and so on."""

    name: Annotated[str, Meta(examples=["node-0"])]
    type: Annotated[str, Meta(examples=["Node"])]
    parent: str = ""
    costs: tuple[Cost, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    resources: tuple[ResourceInfo, ...] = ()


class NodeResourceTopology(
    CustomResource, group="topology.node.k8s.io", version="v1alpha2", scope="Cluster", short_names=("node-res-topo",)
):
    """The NUMA zones of the node of the same name, with their available resources."""

    topology_policies: Annotated[
        tuple[str, ...], Meta(description="The kubelet's policy and scope. Deprecated: use attributes.")
    ] = ()
    zones: tuple[ReportedZone, ...] = ()
    attributes: Annotated[
        tuple[Attribute, ...],
        Meta(description="topologyManagerPolicy, topologyManagerScope, topologyManagerMaxNUMANodes, and others."),
    ] = ()


#: Billionths, by resource.
Nanos = dict[str, int]

UNIT: Final = 10**9

_MOST_ZONES: Final = 64

_MOST_NUMA_NODES: Final = 1024

_DEFAULT_NUMA_NODES: Final = 8

_NAME: Final = re.compile(r"node-\+?([0-9]+)")

_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}")

_POLICIES: Final = frozenset({"none", "best-effort", "restricted", "single-numa-node"})

_SCOPES: Final = frozenset({"container", "pod"})
#: Deprecated policy names, which include the scope.
_LEGACY: Final = {
    f"{policy}{scope}Level": (kubelet, scope.lower())
    for policy, kubelet in (
        ("SingleNUMANode", "single-numa-node"),
        ("BestEffort", "best-effort"),
        ("Restricted", "restricted"),
    )
    for scope in ("Pod", "Container")
}


class Zone(msgspec.Struct, frozen=True):
    """A NUMA zone."""

    number: int
    #: Free amounts by resource.
    left: Nanos
    #: The cost of reaching a zone, by its number.
    costs: dict[int, int]


class Topology(msgspec.Struct, frozen=True):
    """A node's zones, in the order in which they are listed, and the kubelet's settings."""

    zones: tuple[Zone, ...]
    #: Whether a container (or the pod) must fit into one zone.
    single: bool = False
    pod_scope: bool = False
    most_zones: int = _DEFAULT_NUMA_NODES

    @property
    def settings(self) -> tuple[bool, bool, int]:
        """The kubelet's settings."""
        return self.single, self.pod_scope, self.most_zones

    @property
    def content(self) -> Hashable:
        """The complete topology, for comparison."""
        zones = ((zone.number, tuple(zone.left.items()), tuple(zone.costs.items())) for zone in self.zones)
        return (self.settings, *zones)

    def without(self, taken: Mapping[str, int]) -> Topology:
        """Return the topology with amounts subtracted from every zone, since the pods' zones are unknown."""
        zones = tuple(
            msgspec.structs.replace(
                zone, left={name: max(0, left - taken.get(name, 0)) for name, left in zone.left.items()}
            )
            for zone in self.zones
        )
        return msgspec.structs.replace(self, zones=zones)


def read(item: NodeResourceTopology) -> Topology:
    """Parse an agent's report. Invalid entries are ignored."""
    policy, scope, most = "none", "container", _DEFAULT_NUMA_NODES
    if item.topology_policies:
        policy, scope = _LEGACY.get(item.topology_policies[0], (policy, scope))
    for attribute in item.attributes:
        value = attribute.value
        if attribute.name == "topologyManagerPolicy" and value in _POLICIES:
            policy = value
        elif attribute.name == "topologyManagerScope" and value in _SCOPES:
            scope = value
        elif attribute.name == "topologyManagerMaxNUMANodes" and _NUMBER.fullmatch(value) and int(value) > 1:
            most = min(int(value), _MOST_NUMA_NODES)
    return Topology(_zones(item), policy == "single-numa-node", scope == "pod", most)


def _zones(item: NodeResourceTopology) -> tuple[Zone, ...]:
    found = [
        (number, zone) for zone in item.zones if zone.type == "Node" and (number := _number(zone.name)) is not None
    ]
    # If a number occurs twice, the costs of the last one apply to both.
    costs = {number: _costs(zone) for number, zone in found}
    return tuple(Zone(number, _left(zone), costs[number]) for number, zone in found)


def _number(name: str) -> int | None:
    match = _NAME.fullmatch(name)
    if match is None or len(match[1]) > 18 or int(match[1]) > _MOST_ZONES:
        return None
    return int(match[1])


def _costs(zone: ReportedZone) -> dict[int, int]:
    numbered = ((_number(cost.name), cost.value) for cost in zone.costs)
    return {number: value for number, value in numbered if number is not None}


def _left(zone: ReportedZone) -> Nanos:
    left: Nanos = {}
    for resource in zone.resources:
        try:
            left[resource.name] = nanos(resource.available)
        except QuantityError:
            continue
    return left


def invalid_amount(item: NodeResourceTopology) -> str:
    """Return what is wrong with the first amount that cannot be parsed; empty if there is none."""
    for index, zone in enumerate(item.zones):
        for resource in zone.resources:
            try:
                check_amounts(f"zones[{index}].resources", {resource.name: resource.available})
            except QuantityError as error:
                return str(error)
    return ""


def nanos(quantity: QuantityLike) -> int:
    """Return a quantity in billionths."""
    parsed = parse_quantity(quantity)
    return int(parsed.unscaled * 10 ** (parsed.scale + 9))


def whole(amount: int) -> int:
    """Return billionths as whole units, rounded up."""
    return -(-amount // UNIT)
