"""Nodes for tests: ``make_node("n").capacity(cpu="4", memory="8Gi").label(zone="a").obj()``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import msgspec

from mooring.api.affinity import Taint
from mooring.api.meta import Condition, ObjectMeta
from mooring.api.node import ContainerImage, Node
from mooring.api.quantity import QuantityLike
from mooring.testing.builder import Builder, amounts_of


class NodeBuilder(Builder[Node]):
    """Builds a node."""

    __slots__ = ()

    def capacity(self, amounts: Mapping[str, QuantityLike] | None = None, /, **more: QuantityLike) -> Self:
        """What the node has, all of it allocatable; without ``pods`` it takes 110 of them."""
        given = {"pods": 110, **amounts_of(amounts, more)}
        status = msgspec.structs.replace(self._object.status, capacity=given, allocatable=given)
        return self._with(status=status)

    def allocatable(self, amounts: Mapping[str, QuantityLike] | None = None, /, **more: QuantityLike) -> Self:
        """What pods can have, exactly as given."""
        status = msgspec.structs.replace(self._object.status, allocatable=amounts_of(amounts, more))
        return self._with(status=status)

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        """Add a taint."""
        taints = (*self._object.taints, Taint(key=key, value=value, effect=effect))
        return self._with(spec=msgspec.structs.replace(self._object.spec, taints=taints))

    def image(self, *names: str, size: int = 0) -> Self:
        """Add an image, under all its names."""
        images = (*self._object.status.images, ContainerImage(names=names, size_bytes=size))
        return self._with(status=msgspec.structs.replace(self._object.status, images=images))

    def unschedulable(self) -> Self:
        """Cordon the node."""
        return self._with(spec=msgspec.structs.replace(self._object.spec, unschedulable=True))

    def features(self, *names: str) -> Self:
        """The features the node declares."""
        return self._with(status=msgspec.structs.replace(self._object.status, declared_features=names))

    def condition(self, kind: str, status: str, reason: str = "") -> Self:
        """Add a condition."""
        conditions = (*self._object.status.conditions, Condition(type=kind, status=status, reason=reason))
        return self._with(status=msgspec.structs.replace(self._object.status, conditions=conditions))

    def zone(self, zone: str, region: str = "") -> Self:
        """Say where it is, by the usual labels."""
        labels = {"topology.kubernetes.io/zone": zone}
        if region:
            labels["topology.kubernetes.io/region"] = region
        return self.label(labels)


def make_node(name: str) -> NodeBuilder:
    """Begin a node; it has the hostname label, room for 110 pods, and nothing else."""
    node = Node(metadata=ObjectMeta(name=name, labels={"kubernetes.io/hostname": name}))
    return NodeBuilder(node).capacity()
