"""Whether Volcano's own controllers do this work already: two of them would undo each other's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from mooring.api.coordination import Lease
from mooring.api.meta import parse_time
from mooring.kube import Client, KubeError

NAMESPACE: Final = "volcano-system"
LEASE: Final = "vc-controller-manager"
#: What Helm and Volcano's own manifest call it.
DEPLOYMENTS: Final = ("volcano-controllers",)
_LEASE_SECONDS: Final = 15


class Neighbours:
    """Looks for Volcano's controllers by their lease, and where they hold none, by their Deployment."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock
        self._renewed: str | None = None

    async def found(self) -> str:
        """Who does the work already, in words; empty if nobody."""
        return await self._lease() or await self._deployment()

    async def _lease(self) -> str:
        try:
            spec = (await self._client.get(Lease, LEASE, namespace=NAMESPACE)).spec
        except KubeError:  # it is not there, or not for us to see
            return ""
        before, self._renewed = self._renewed, spec.renew_time
        if not spec.holder_identity or spec.renew_time is None:
            return ""
        fresh = self._clock() - parse_time(spec.renew_time) < (spec.lease_duration_seconds or _LEASE_SECONDS)
        # Clocks differ: a lease that was renewed since we looked last is held, whatever it says.
        if fresh or before not in (None, spec.renew_time):
            return f"{spec.holder_identity} holds the lease {NAMESPACE}/{LEASE}"
        return ""

    async def _deployment(self) -> str:
        for name in DEPLOYMENTS:
            try:
                found: dict[str, Any] = await self._client.send(
                    "GET", f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{name}"
                )
            except KubeError:
                continue
            if (found.get("status") or {}).get("availableReplicas"):
                return f"the Deployment {NAMESPACE}/{name} is available"
        return ""
