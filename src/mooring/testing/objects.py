"""Small objects for tests: namespaces, services, budgets, priority classes, owners of pods."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.api.core import Namespace, ReplicationController, ReplicationControllerSpec, Service, ServiceSpec
from mooring.api.meta import ObjectMeta
from mooring.api.policy import (
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    PriorityClass,
)
from mooring.api.workloads import ReplicaSet, ReplicaSetSpec, StatefulSet, StatefulSetSpec
from mooring.testing.builder import Builder, SelectorLike, as_selector


def make_namespace(name: str) -> Builder[Namespace]:
    """Begin a namespace; it has the label with its name, as the API server gives it."""
    return Builder(Namespace(metadata=ObjectMeta(name=name, labels={"kubernetes.io/metadata.name": name})))


def make_service(name: str, selector: Mapping[str, str] | None, namespace: str = "default") -> Builder[Service]:
    """Begin a service."""
    spec = ServiceSpec(selector=dict(selector) if selector is not None else None)
    return Builder(Service(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec))


def make_replication_controller(
    name: str, selector: Mapping[str, str] | None, namespace: str = "default"
) -> Builder[ReplicationController]:
    """Begin a replication controller."""
    spec = ReplicationControllerSpec(selector=dict(selector) if selector is not None else None)
    return Builder(ReplicationController(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec))


def make_replica_set(name: str, selector: SelectorLike, namespace: str = "default") -> Builder[ReplicaSet]:
    """Begin a replica set."""
    spec = ReplicaSetSpec(selector=as_selector(selector))
    return Builder(ReplicaSet(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec))


def make_stateful_set(name: str, selector: SelectorLike, namespace: str = "default") -> Builder[StatefulSet]:
    """Begin a stateful set."""
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
    """Begin a budget that allows so many more disruptions; ``disrupted`` pods are on their way out already."""
    status = PodDisruptionBudgetStatus(
        disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")
    )
    spec = PodDisruptionBudgetSpec(selector=as_selector(selector))
    return Builder(PodDisruptionBudget(metadata=ObjectMeta(name=name, namespace=namespace), spec=spec, status=status))


def make_priority_class(name: str, value: int) -> Builder[PriorityClass]:
    """Begin a priority class."""
    return Builder(PriorityClass(metadata=ObjectMeta(name=name), value=value))
