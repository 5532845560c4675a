"""DefaultBinder: posts the Binding of a pod to its node."""

from __future__ import annotations

from collections.abc import Awaitable

from mooring.api.pod import Pod
from mooring.framework import CycleState, Plugin, Status
from mooring.framework.api_clients import Binding


class DefaultBinder(Plugin):
    """Binds pods with the handle's binder."""

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | Awaitable[Status | None] | None:
        """Bind the pod; the result may be awaitable."""
        return self.handle.binder.bind(Binding.of(pod, node_name))
