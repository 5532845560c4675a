"""Writes bindings to the API server, and finds out what became of one whose answer was lost."""

from __future__ import annotations

from mooring.api.pod import Pod
from mooring.framework.binding import Binding
from mooring.framework.status import Status
from mooring.kube import Client, KubeError, NotFound


class ApiBinder:
    """Binds pods by posting to their ``binding`` subresource."""

    def __init__(self, client: Client) -> None:
        self._client = client
        #: Binds that the server has not answered yet.
        self.in_flight = 0

    async def bind(self, binding: Binding) -> Status | None:
        """Bind; None when the pod is bound to this node."""
        self.in_flight += 1
        try:
            return await self._bind(binding, binding.target.name)
        finally:
            self.in_flight -= 1

    async def _bind(self, binding: Binding, node: str) -> Status | None:
        try:
            await self._client.bind(binding, node)
        except KubeError as error:
            if error.outcome_unknown and await self._is_bound(binding, node):
                return None
            return Status.error(str(error))
        return None

    async def _is_bound(self, binding: Binding, node: str) -> bool:
        try:
            pod = await self._client.get(Pod, binding.name, namespace=binding.namespace)
        except NotFound:
            return False
        except KubeError:
            return False  # the watch will tell; until then the pod counts as not bound
        return pod.uid == binding.uid and pod.node_name == node
