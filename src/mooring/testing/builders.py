"""Builders of Kubernetes objects for tests: the base class, nodes and small objects.

A builder holds a frozen object; each method returns a new builder with a changed copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, Self, TypeVar

import msgspec

from mooring.api.affinity import NodeSelectorRequirement, NodeSelectorTerm, Taint
from mooring.api.core import Namespace, ReplicationController, ReplicationControllerSpec, Service, ServiceSpec
from mooring.api.meta import Condition, KubeObject, LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference
from mooring.api.node import ContainerImage, Node
from mooring.api.policy import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PriorityClass,
)
from mooring.api.quantity import QuantityLike
from mooring.api.workloads import ReplicaSet, ReplicaSetSpec, StatefulSet, StatefulSetSpec

T = TypeVar("T", bound=KubeObject)

#: Deletion timestamp of terminating objects.
LONG_AGO = "2026-01-01T00:00:00Z"

#: Labels as a mapping (``{"app": "web"}``), a selector, or None for no selector.
SelectorLike = Mapping[str, str] | LabelSelector | None
#: ``("zone", "In", "a", "b")``: key, operator, values.
Expression = tuple[str, ...]


class Builder(Generic[T]):
    """The base class of builders, which hold a frozen object. Methods return new builders, so builders are reusable."""

    __slots__ = ("_object",)

    def __init__(self, item: T) -> None:
        self._object = item

    def obj(self) -> T:
        """Return the object, with a uid made of kind, namespace and name unless one was set."""
        item = self._object
        if item.metadata.uid:
            return item
        place = f"{item.metadata.namespace}-" if item.metadata.namespace else ""
        return self._with_meta(uid=f"{item.kind.lower()}-{place}{item.name}")._object

    def named(self, name: str) -> Self:
        """Set the name."""
        return self._with_meta(name=name)

    def uid(self, uid: str) -> Self:
        """Set the uid."""
        return self._with_meta(uid=uid)

    def label(self, labels: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Add labels, by keyword or as a mapping (for names with a slash)."""
        return self._with_meta(labels={**self._object.labels, **(labels or {}), **more})

    def annotation(self, annotations: Mapping[str, str] | None = None, /, **more: str) -> Self:
        """Add annotations."""
        return self._with_meta(annotations={**self._object.annotations, **(annotations or {}), **more})

    def owner(self, kind: str, name: str, *, api_version: str = "apps/v1", uid: str = "") -> Self:
        """Add a controller owner reference."""
        owner = OwnerReference(
            api_version=api_version, kind=kind, name=name, uid=uid or f"{kind}-{name}", controller=True
        )
        return self._with_meta(owner_references=(*self._object.metadata.owner_references, owner))

    def created(self, time: str) -> Self:
        """Set the creation timestamp."""
        return self._with_meta(creation_timestamp=time)

    def terminating(self, time: str = LONG_AGO) -> Self:
        """Set the deletion timestamp."""
        return self._with_meta(deletion_timestamp=time)

    def _with(self, **changes: object) -> Self:
        return type(self)(msgspec.structs.replace(self._object, **changes))

    def _with_meta(self, **changes: object) -> Self:
        return self._with(metadata=msgspec.structs.replace(self._object.metadata, **changes))


def amounts_of(given: Mapping[str, QuantityLike] | None, more: Mapping[str, QuantityLike]) -> dict[str, QuantityLike]:
    """Return resource amounts from keywords (``ephemeral_storage``) and a mapping (``{"nvidia.com/gpu": 1}``)."""
    return {**(given or {}), **{name.replace("_", "-"): amount for name, amount in more.items()}}


def selector(labels: Mapping[str, str] | None = None, *expressions: Expression) -> LabelSelector:
    """Return a label selector: ``selector({"app": "web"}, ("tier", "In", "a", "b"))``. An empty one matches all."""
    return LabelSelector(
        match_labels=dict(labels or {}),
        match_expressions=tuple(
            LabelSelectorRequirement(key=key, operator=operator, values=tuple(values))
            for key, operator, *values in expressions
        ),
    )


def as_selector(given: SelectorLike) -> LabelSelector | None:
    """Convert to a label selector."""
    return given if given is None or isinstance(given, LabelSelector) else selector(given)


def node_term(expressions: Iterable[Expression], fields: Iterable[Expression] = ()) -> NodeSelectorTerm:
    """Return a node selector term of ``(key, operator, *values)`` tuples."""
    return NodeSelectorTerm(match_expressions=_requirements(expressions), match_fields=_requirements(fields))


def _requirements(expressions: Iterable[Expression]) -> tuple[NodeSelectorRequirement, ...]:
    return tuple(
        NodeSelectorRequirement(key=key, operator=operator, values=tuple(values))
        for key, operator, *values in expressions
    )


class NodeBuilder(Builder[Node]):
    """A builder of nodes."""

    __slots__ = ()

    def capacity(self, amounts: Mapping[str, QuantityLike] | None = None, /, **more: QuantityLike) -> Self:
        """Set capacity and allocatable; ``pods`` defaults to 110."""
        given = {"pods": 110, **amounts_of(amounts, more)}
        status = msgspec.structs.replace(self._object.status, capacity=given, allocatable=given)
        return self._with(status=status)

    def allocatable(self, amounts: Mapping[str, QuantityLike] | None = None, /, **more: QuantityLike) -> Self:
        """Set allocatable, exactly as given."""
        status = msgspec.structs.replace(self._object.status, allocatable=amounts_of(amounts, more))
        return self._with(status=status)

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        """Add a taint."""
        taints = (*self._object.taints, Taint(key=key, value=value, effect=effect))
        return self._with(spec=msgspec.structs.replace(self._object.spec, taints=taints))

    def image(self, *names: str, size: int = 0) -> Self:
        """Add an image with all its names."""
        images = (*self._object.status.images, ContainerImage(names=names, size_bytes=size))
        return self._with(status=msgspec.structs.replace(self._object.status, images=images))

    def unschedulable(self) -> Self:
        """Cordon the node."""
        return self._with(spec=msgspec.structs.replace(self._object.spec, unschedulable=True))

    def features(self, *names: str) -> Self:
        """Set the declared features."""
        return self._with(status=msgspec.structs.replace(self._object.status, declared_features=names))

    def condition(self, kind: str, status: str, reason: str = "") -> Self:
        """Add a condition."""
        conditions = (*self._object.status.conditions, Condition(type=kind, status=status, reason=reason))
        return self._with(status=msgspec.structs.replace(self._object.status, conditions=conditions))

    def zone(self, zone: str, region: str = "") -> Self:
        """Set the well-known zone and region labels."""
        labels = {"topology.kubernetes.io/zone": zone}
        if region:
            labels["topology.kubernetes.io/region"] = region
        return self.label(labels)


def make_node(name: str) -> NodeBuilder:
    """Start a node with the hostname label and an allocatable of 110 pods."""
    node = Node(metadata=ObjectMeta(name=name, labels={"kubernetes.io/hostname": name}))
    return NodeBuilder(node).capacity()


def make_namespace(name: str) -> Builder[Namespace]:
    """Start a namespace with the label that the API server sets."""
    return Builder(Namespace(metadata=ObjectMeta(name=name, labels={"kubernetes.io/metadata.name": name})))


def make_service(name: str, selector: Mapping[str, str] | None, namespace: str = "default") -> Builder[Service]:
    """Start a service."""
    spec = ServiceSpec(selector=dict(selector) if selector is not None else None)
    return Builder(Service(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec))


def make_replication_controller(
    name: str, selector: Mapping[str, str] | None, namespace: str = "default"
) -> Builder[ReplicationController]:
    """Start a replication controller."""
    spec = ReplicationControllerSpec(selector=dict(selector) if selector is not None else None)
    return Builder(ReplicationController(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec))


def make_replica_set(name: str, selector: SelectorLike, namespace: str = "default") -> Builder[ReplicaSet]:
    """Start a replica set."""
    spec = ReplicaSetSpec(selector=as_selector(selector))
    return Builder(ReplicaSet(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec))


def make_stateful_set(name: str, selector: SelectorLike, namespace: str = "default") -> Builder[StatefulSet]:
    """Start a stateful set."""
    spec = StatefulSetSpec(selector=as_selector(selector))
    return Builder(StatefulSet(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec))


def make_pdb(
    name: str,
    selector: SelectorLike,
    namespace: str = "default",
    *,
    allowed: int = 0,
    disrupted: tuple[str, ...] = (),
) -> Builder[PodDisruptionBudget]:
    """Start a PodDisruptionBudget; ``allowed`` is disruptionsAllowed, ``disrupted`` are the disrupted pods."""
    status = PodDisruptionBudgetStatus(disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, LONG_AGO))
    spec = PodDisruptionBudgetSpec(selector=as_selector(selector))
    return Builder(PodDisruptionBudget(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec, status=status))


def make_priority_class(name: str, value: int) -> Builder[PriorityClass]:
    """Start a priority class."""
    return Builder(PriorityClass(metadata=ObjectMeta(name=name), value=value))
