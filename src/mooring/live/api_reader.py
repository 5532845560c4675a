"""What plugins read of the API server by themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.kube import Client


class LiveApiReader:
    """Reads with the scheduler's client."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def get(self, path: str) -> Any:
        """The decoded JSON at a path. Raises KubeError."""
        return msgspec.json.decode(await self._client.call("GET", path))
