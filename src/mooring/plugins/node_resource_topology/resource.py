"""NodeResourceTopology, the custom resource in which an agent on each node tells of its NUMA zones."""

from __future__ import annotations

from typing import Annotated

from mooring.api.quantity import QuantityLike
from mooring.framework import CustomResource, Meta


class Attribute:
    """Something said of a node or a zone."""

    name: str
    value: str


class Cost:
    """What it costs to reach another zone."""

    name: str
    value: int


class ResourceInfo:
    """How much of a resource a zone has."""

    name: str
    capacity: QuantityLike
    allocatable: QuantityLike
    available: Annotated[QuantityLike, Meta(description="What is left.")]


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
    """The NUMA zones of the node of the same name, and what they have left."""

    topology_policies: Annotated[
        tuple[str, ...], Meta(description="The kubelet's policy and scope in one word. Deprecated: use attributes.")
    ] = ()
    zones: tuple[ReportedZone, ...] = ()
    attributes: Annotated[
        tuple[Attribute, ...],
        Meta(description="topologyManagerPolicy, topologyManagerScope, topologyManagerMaxNUMANodes, and others."),
    ] = ()
