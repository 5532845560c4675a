"""Writes bindings to the API server, and finds out what became of one whose answer was lost."""

from __future__ import annotations

import asyncio

import structlog

from mooring.api.pod import Pod
from mooring.framework.api_clients import Binding
from mooring.framework.status import Status
from mooring.kube import Backoff, Client, Conflict, ConnectionFailed, KubeError, NotFound, TooManyRequests

log = structlog.get_logger("mooring.live")

#: After so many attempts to look at a pod a refusal is taken at its word: some twenty seconds.
_REFUSALS = 8


class ApiBinder:
    """Binds pods by posting to their ``binding`` subresource."""

    def __init__(self, client: Client) -> None:
        self._client = client
        #: Binds that the server has not answered yet.
        self.in_flight = 0

    async def bind(self, binding: Binding) -> Status | None:
        """Bind; None when the pod is bound to this node.

        Where the answer is lost the pod is looked at until that works, however long the server is away: the node's room
        must not be given to another pod before it is certain that this one does not have it. A conflict is looked into
        as well: something between us and the server may have sent the request twice.
        """
        self.in_flight += 1
        try:
            return await self._bind(binding, binding.target.name)
        finally:
            self.in_flight -= 1

    async def _bind(self, binding: Binding, node: str) -> Status | None:
        try:
            await self._client.bind(binding, node)
        except KubeError as error:
            if (error.outcome_unknown or isinstance(error, Conflict)) and await self._is_bound(binding, node):
                log.info("the pod was bound after all", pod=f"{binding.namespace}/{binding.name}", error=str(error))
                return None
            return Status.error(str(error))
        return None

    async def _is_bound(self, binding: Binding, node: str) -> bool:
        backoff = Backoff(first=0.2, cap=5.0, random=self._client.random)
        while True:
            try:
                pod = await self._client.get(Pod, binding.name, namespace=binding.namespace)
            except NotFound:
                return False
            except KubeError as error:
                # A server that has just started may refuse everybody for a moment; for good only if it goes on.
                passing = error.outcome_unknown or isinstance(error, ConnectionFailed | TooManyRequests)
                if not passing and backoff.tries >= _REFUSALS:
                    return False  # we may not look; the watch will tell
                await asyncio.sleep(backoff.next())
            else:
                return pod.uid == binding.uid and pod.node_name == node
