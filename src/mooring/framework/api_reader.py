"""ApiReader: what a plugin may ask the API server for by itself, in its own background task."""

from __future__ import annotations

from typing import Any, Protocol


class ApiReader(Protocol):
    """Reads from the API server with the scheduler's credentials, within its rate."""

    async def get(self, path: str) -> Any:
        """The decoded JSON at a path such as ``/apis/metrics.k8s.io/v1beta1/nodes``; raises where it cannot be had."""
