"""DefaultBinder: tells the API server which node a pod goes to."""

from __future__ import annotations

from collections.abc import Awaitable

from mooring.api.pod import Pod
from mooring.framework import CycleState, Plugin, Status
from mooring.framework.api_clients import Binding


class DefaultBinder(Plugin):
    """Binds pods by posting a Binding; how it gets there is the handle's binder's affair."""

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | Awaitable[Status | None] | None:
        """Bind the pod; the answer may have to be awaited."""
        return self.handle.binder.bind(Binding.of(pod, node_name))
