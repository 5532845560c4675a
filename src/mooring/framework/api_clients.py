"""The interfaces through which plugins reach the API server: Binder, VolumeWriter and ApiReader."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

import msgspec
from msgspec import field

from mooring.api.meta import KubeObject, NamespacedObject, ObjectMeta, ObjectReference
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


class ObjectPatch(msgspec.Struct, frozen=True):
    """A change of one object, as a JSON merge patch; it names the resource version that it is based on."""

    kind: type[KubeObject]
    name: str
    namespace: str
    body: dict[str, Any]


class VolumeWriter(Protocol):
    """Writes to the API server on behalf of VolumeBinding's PreBind, which waits until the volumes are bound."""

    async def patch(self, patch: ObjectPatch) -> KubeObject:
        """Write a change; the answer is the object as it is then. Raises if it was refused."""

    async def pause(self, seconds: float) -> None:
        """Let some time pass."""

    def exists(self, pod: Pod) -> bool:
        """Whether the pod is still there."""


class ApiReader(Protocol):
    """Reads from the API server with the scheduler's credentials, within its rate."""

    async def get(self, path: str) -> Any:
        """The decoded JSON at a path such as ``/apis/metrics.k8s.io/v1beta1/nodes``; raises where it cannot be had."""
