"""Changes to volumes and claims that a placed pod needs, and who writes them."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod


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
