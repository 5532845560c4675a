"""Detects Volcano's own controllers. Two sets of controllers would undo each other's writes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

from mooring.api.coordination import Lease
from mooring.api.meta import parse_time
from mooring.kube import Client, KubeError

NAMESPACE: Final = "volcano-system"
LEASE: Final = "vc-controller-manager"
#: The name in Volcano's Helm chart and in its manifest.
DEPLOYMENTS: Final = ("volcano-controllers",)
_LEASE_SECONDS: Final = 15


class VolcanoDetector:
    """Detects Volcano's controllers by their lease or, if there is none, by their Deployment."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.time) -> None:
        self._client = client
        self._clock = clock
        self._renewed: str | None = None

    async def detect(self) -> str:
        """Return how Volcano's controllers were detected, or an empty string if they do not run."""
        return await self._lease() or await self._deployment()

    async def _lease(self) -> str:
        try:
            spec = (await self._client.get(Lease, LEASE, namespace=NAMESPACE)).spec
        except KubeError:  # the lease does not exist, or reading it is forbidden
            return ""
        previous, self._renewed = self._renewed, spec.renew_time
        if not spec.holder_identity or spec.renew_time is None:
            return ""
        try:
            age = self._clock() - parse_time(spec.renew_time)
        except ValueError:
            age = float("inf")
        fresh = age < (spec.lease_duration_seconds or _LEASE_SECONDS)
        # Clocks may differ: a lease that was renewed since the last check is held, regardless of its timestamp.
        if fresh or previous not in (None, spec.renew_time):
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
