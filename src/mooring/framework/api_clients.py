"""The interfaces through which plugins reach the API server: Binder, VolumeWriter, ClaimWriter and ApiReader."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import field

from mooring.api.devices import ResourceClaim
from mooring.api.meta import KubeObject, NamespacedObject, ObjectMeta, ObjectReference
from mooring.api.pod import Pod
from mooring.framework.status import Status


class Binding(NamespacedObject, kw_only=True):
    """The object that is posted to a pod's ``binding`` subresource; ``Binding.of(pod, node_name)`` creates one.

    Attributes:
        target: The node.
        api_version: ``v1``.
        kind: ``Binding``.
    """

    api_version: str = field(default_factory=lambda: "v1")
    kind: str = field(default_factory=lambda: "Binding")
    target: ObjectReference = ObjectReference()

    @classmethod
    def of(cls, pod: Pod, node_name: str, annotations: Mapping[str, str] | None = None) -> Binding:
        """Return the binding of a pod (identified by uid) to a node. The server adds the annotations to the pod."""
        named, namespace = pod.metadata, pod.namespace
        return cls(
            metadata=ObjectMeta(
                namespace=namespace,
                name=named.name,
                uid=named.uid,
                annotations=dict(annotations) if annotations else {},
            ),
            target=ObjectReference(kind="Node", name=node_name),
        )


class Binder(Protocol):
    """Writes bindings. None (returned or awaited) is success; an exception or an error Status is failure."""

    def bind(self, binding: Binding) -> Status | Awaitable[Status | None] | None:
        """Write a binding."""


class NoBinder:
    """A binder for runs without a cluster: every binding succeeds immediately."""

    def bind(self, binding: Binding) -> None:
        """Do nothing."""


class ObjectPatch(msgspec.Struct, frozen=True):
    """A JSON merge patch of one object; it contains the resource version that it is based on."""

    kind: type[KubeObject]
    name: str
    namespace: str
    body: dict[str, Any]


class VolumeWriter(Protocol):
    """Writes to the API server for VolumeBinding's PreBind, which waits until the volumes are bound."""

    async def patch(self, patch: ObjectPatch) -> KubeObject:
        """Write a change and return the resulting object. Raises if the server rejects it."""

    async def pause(self, seconds: float) -> None:
        """Sleep."""

    def exists(self, pod: Pod) -> bool:
        """Whether the pod still exists."""


class ClaimWriteError(Exception):
    """The API server rejected a write of a claim, or cannot be reached."""


class ClaimConflictError(ClaimWriteError):
    """The claim has changed since the version that a write is based on."""


class ClaimWriter(Protocol):
    """Writes resource claims for DynamicResources.

    A method returns when the outcome is certain. It raises ClaimWriteError if nothing was written.
    """

    @property
    def shares_allocations(self) -> bool:
        """Whether a pod may use an allocation that is being written for another pod."""

    @property
    def patient(self) -> bool:
        """Whether nothing else waits while devices are searched, as for one case: then a search may take long."""

    async def until_written(
        self, claim: ResourceClaim, outcome: asyncio.Future[ResourceClaim | None]
    ) -> ResourceClaim | None:
        """Wait for the write of another pod, and return its outcome."""

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        """Read the newest version of a claim."""

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create a claim and return it."""

    async def update(self, claim: ResourceClaim) -> ResourceClaim:
        """Write the finalizers of a claim, which must not have changed, and return the new version."""

    async def update_status(self, claim: ResourceClaim, before: ResourceClaim) -> ResourceClaim:
        """Write the status of a claim, which must not have changed since ``before``, and return the new version."""

    async def unreserve(self, claim: ResourceClaim, uid: str) -> ResourceClaim:
        """Remove a pod from the reservations of a claim, and return the new version."""

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete a claim."""

    async def patch_pod_status(self, pod: Pod, patch: dict[str, Any], *, merge: bool = False) -> None:
        """Write to the status of a pod, by strategic merge or, with ``merge``, by a JSON merge patch."""

    async def pause(self, seconds: float) -> None:
        """Sleep."""

    def start(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Run a write in the background. A failure is logged as a failure to ``what``."""

    def waited(self, profile: str, claims: Sequence[ResourceClaim], status: str, seconds: float) -> None:
        """Record how long a pod waited for the binding conditions of its claims, for metrics.

        ``status`` is success, failure, timeout or error.
        """


class ApiReader(Protocol):
    """Reads from the API server with the scheduler's credentials, within its rate limit."""

    async def get(self, path: str) -> Any:
        """Return the decoded JSON at a path such as ``/apis/metrics.k8s.io/v1beta1/nodes``; raise on failure."""
