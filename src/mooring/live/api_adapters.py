"""Adapters that give plugins access to the API server: bind pods, patch volumes and claims, read objects."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.framework.api_clients import Binding, ObjectPatch
from mooring.framework.status import Status
from mooring.kube import Backoff, Client, Conflict, ConnectionFailed, KubeError, NotFound, ServerError, TooManyRequests
from mooring.logs import get_logger

log = get_logger("mooring.live")

#: The number of rejected reads of a pod after which a rejection is final: about twenty seconds.
_REFUSALS = 8
#: How often a bind is sent again.
_BIND_RETRIES = 3


class ApiBinder:
    """A binder that uses the ``binding`` subresource of pods."""

    def __init__(self, client: Client, *, retries: bool = False) -> None:
        """With ``retries``, a bind that a failing server did not carry out is sent again, as since 1.37."""
        self._client = client
        self._retries = retries
        #: How many binds the server has not answered yet.
        self.in_flight = 0

    async def bind(self, binding: Binding) -> Status | None:
        """Bind a pod. Return None if it is bound to this node.

        If the response is lost, the pod is read until that succeeds, however long the server is unavailable: the node's
        resources must not be given to another pod before the outcome is certain. The pod is also read after a conflict,
        because a proxy may have sent the request twice.
        """
        node = binding.target.name
        self.in_flight += 1
        try:
            await self._client.bind(binding, node, binding.metadata.annotations)
        except KubeError as error:
            return await self._bind_again(binding, node, error)
        else:
            return None
        finally:
            self.in_flight -= 1

    async def _bind_again(self, binding: Binding, node: str, error: KubeError) -> Status | None:
        """Find out what became of a failed bind, and send it again as long as it may be."""
        backoff = Backoff(first=0.01, factor=5.0, jitter=0.1, random=self._client.random)
        while True:
            if (error.outcome_unknown or isinstance(error, Conflict)) and await self._is_bound(binding, node):
                log.info(
                    "the pod is bound although the request failed",
                    pod=f"{binding.namespace}/{binding.name}",
                    error=str(error),
                )
                return None
            # The read has shown that the server did not carry out the request.
            if not (self._retries and isinstance(error, ServerError) and backoff.tries < _BIND_RETRIES):
                return Status.error(str(error))
            await asyncio.sleep(backoff.next())
            try:
                await self._client.bind(binding, node, binding.annotations)
            except KubeError as again:
                error = again
            else:
                return None

    async def _is_bound(self, binding: Binding, node: str) -> bool:
        backoff = Backoff(first=0.2, cap=5.0, random=self._client.random)
        while True:
            try:
                pod = await self._client.get(Pod, binding.name, namespace=binding.namespace)
            except NotFound:
                return False
            except KubeError as error:
                # A server that has just started may reject all requests for a moment.
                passing = error.outcome_unknown or isinstance(error, ConnectionFailed | TooManyRequests)
                if not passing and backoff.tries >= _REFUSALS:
                    return False  # reading is forbidden; the watch delivers the outcome
                await asyncio.sleep(backoff.next())
            else:
                return pod.uid == binding.uid and pod.node_name == node


class ApiVolumeWriter:
    """A writer of volumes and claims. A patch contains the version it is based on, so a lost race is a Conflict."""

    def __init__(self, client: Client, pod: Callable[[str], Pod | None]) -> None:
        self._client = client
        self._pod = pod

    async def patch(self, patch: ObjectPatch) -> KubeObject:
        """Patch an object and return its new version."""
        return await self._client.patch(patch.kind, patch.name, patch.body, namespace=patch.namespace, idempotent=False)

    async def pause(self, seconds: float) -> None:
        """Sleep."""
        await asyncio.sleep(seconds)

    def exists(self, pod: Pod) -> bool:
        """Return whether the pod still exists with the same uid."""
        known = self._pod(pod.key)
        return known is not None and known.uid == pod.uid


class LiveApiReader:
    """A reader that uses the scheduler's client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, path: str) -> Any:
        """Return the decoded JSON at a path. Raises KubeError."""
        return msgspec.json.decode(await self._client.call("GET", path))
