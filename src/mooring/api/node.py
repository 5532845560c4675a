"""Nodes: capacity, images, volumes and taints."""

from typing import Final

from msgspec import field, structs

from mooring.api.affinity import Taint
from mooring.api.meta import Condition, KubeObject, Model
from mooring.api.quantity import QuantityLike

#: The label with the name of the node, and those with its instance type.
HOSTNAME: Final = "kubernetes.io/hostname"
INSTANCE_TYPES: Final = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


class NodeSpec(Model, kw_only=True):
    """The specification of a node."""

    provider_id: str = ""
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class ContainerImage(Model, kw_only=True):
    """An image on the node, with all its names."""

    names: tuple[str, ...] = ()
    size_bytes: int = 0


class NodeFeatures(Model, kw_only=True):
    """The features of the node's container runtime."""

    supplemental_groups_policy: bool | None = None


class AttachedVolume(Model, kw_only=True):
    """A volume that is attached to the node."""

    name: str = ""
    device_path: str = ""


class NodeStatus(Model, kw_only=True):
    """The status of a node."""

    capacity: dict[str, QuantityLike] = field(default_factory=dict)
    allocatable: dict[str, QuantityLike] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[AttachedVolume, ...] = ()
    features: NodeFeatures | None = None
    declared_features: tuple[str, ...] = ()


class Node(KubeObject, kw_only=True, dict=True, gc=True):
    """A node object, as stored in the API server. Plugins read it as ``NodeInfo.node``.

    Attributes:
        spec: The specification: taints, whether the node is cordoned, and so on.
        status: The status: capacity, allocatable amounts, conditions, images.
        api_version: ``v1``.
        kind: ``Node``.
    """

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Node")
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def taints(self) -> tuple[Taint, ...]:
        """The node's taints."""
        return self.spec.taints

    @property
    def unschedulable(self) -> bool:
        """Whether the node is cordoned."""
        return self.spec.unschedulable

    @property
    def is_ready(self) -> bool:
        """Whether the Ready condition is True."""
        return any(condition.type == "Ready" and condition.status == "True" for condition in self.status.conditions)


def node_like(pattern: Node, name: str, *, uid: str = "") -> Node:
    """Return a new node like another one: under another name, not cordoned, and without taints of its condition."""
    labels = {**pattern.metadata.labels, HOSTNAME: name}
    metadata = structs.replace(pattern.metadata, name=name, uid=uid, labels=labels)
    taints = tuple(taint for taint in pattern.spec.taints if not taint.key.startswith("node.kubernetes.io/"))
    spec = structs.replace(pattern.spec, unschedulable=False, taints=taints)
    return structs.replace(pattern, metadata=metadata, spec=spec)
