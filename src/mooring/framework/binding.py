"""Bindings: the object that puts a pod on a node, and who writes it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from msgspec import field

from mooring.api.meta import NamespacedObject, ObjectMeta, ObjectReference
from mooring.api.pod import Pod
from mooring.framework.status import Status


class Binding(NamespacedObject, kw_only=True):
    """What is posted to a pod's ``binding`` subresource."""

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Binding")
    target: ObjectReference = ObjectReference()

    @classmethod
    def of(cls, pod: Pod, node_name: str) -> Binding:
        """The binding of a pod (this very one, by uid) to a node."""
        return cls(
            metadata=ObjectMeta(namespace=pod.namespace, name=pod.name, uid=pod.uid),
            target=ObjectReference(kind="Node", name=node_name),
        )


class Binder(Protocol):
    """Writes bindings. None (now, or awaited) is success; raising or an error Status means that nothing was bound."""

    def bind(self, binding: Binding) -> Status | Awaitable[Status | None] | None:
        """Write one."""


class NoBinder:
    """A binder for runs without a cluster: everything is bound at once."""

    def bind(self, binding: Binding) -> None:
        """Do nothing."""
