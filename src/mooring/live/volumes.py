"""Writes what a pod's volumes need (claimRef, selected node) to the API server, for VolumeBinding's PreBind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.framework.api_clients import ObjectPatch
from mooring.kube import Client


class ApiVolumeWriter:
    """Patches volumes and claims. A patch names the version it is based on, so a lost race is a Conflict."""

    def __init__(self, client: Client, pod: Callable[[str], Pod | None]) -> None:
        self._client = client
        self._pod = pod

    async def patch(self, patch: ObjectPatch) -> KubeObject:
        """Write a change; the answer is the object as it is then."""
        return await self._client.patch(patch.kind, patch.name, patch.body, namespace=patch.namespace, idempotent=False)

    async def pause(self, seconds: float) -> None:
        """Let some time pass."""
        await asyncio.sleep(seconds)

    def exists(self, pod: Pod) -> bool:
        """Whether the pod is still there, and still this one."""
        known = self._pod(pod.key)
        return known is not None and known.uid == pod.uid
