"""ClientCa: the client CA of the endpoints, read from the cluster, and the clients for endpoint authentication."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from mooring.kube import Access, Client, ConnectionFailed, KubeError
from mooring.live.endpoints.endpoint_auth import Call
from mooring.live.endpoints.endpoint_server import ServerError, ServerSettings
from mooring.live.endpoints.endpoint_tls import CertificateError
from mooring.logs import get_logger

log = get_logger("mooring.live")

#: The ConfigMap with the client CA of the cluster.
AUTHENTICATION_NAMESPACE: Final = "kube-system"
AUTHENTICATION_CONFIG: Final = "extension-apiserver-authentication"
#: The time between two reads of the ConfigMap, which the API server serves from its cache.
_POLL_SECONDS = 10.0
#: Limits of the requests to the API server, for all clients of the endpoints together.
_QPS, _BURST = 20.0, 40
_NO_CLIENT_CA = "client certificates of the cluster are not accepted"
_CONFIG_MAP = f"/api/v1/namespaces/{AUTHENTICATION_NAMESPACE}/configmaps/{AUTHENTICATION_CONFIG}?resourceVersion=0"


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class ClientCa:
    """The CA of client certificates, read from the cluster, and the connections for reviews.

    They are never those of the scheduler, whose requests must not wait for the reviews of any client that connects.
    """

    def __init__(self, settings: ServerSettings, access: Access) -> None:
        self._settings = settings
        self._connections: list[Client] = []
        self._polling: asyncio.Task[None] | None = None
        first = settings.authentication or access
        second = settings.authorization or access
        self.authenticate: Call = self._connect(first)
        self.authorize: Call = self.authenticate if second == first else self._connect(second)

    def _connect(self, access: Access) -> Call:
        client = Client(access, qps=_QPS, burst=_BURST, fast_writes=False)
        self._connections.append(client)
        return client.call

    async def start(self, trust: Callable[[str], None]) -> None:
        """Read the CA, pass it to ``trust``, and poll for changes.

        Raises ServerError if the first read fails and that is not tolerated.
        """
        settings = self._settings
        if settings.insecure or settings.tls.client_ca_file or not settings.look_up_authority:
            return
        problem = await self._read(trust)
        if problem and not settings.tolerate_lookup_failure:
            raise ServerError(f"{_NO_CLIENT_CA}: {problem}; grant access to it, or give --authentication-skip-lookup")
        self._polling = asyncio.create_task(self._poll(trust, problem), name="client CA")

    async def _poll(self, trust: Callable[[str], None], problem: Exception | None) -> None:
        """Read the CA periodically, because it can be rotated. While reads fail, the last CA stays in effect."""
        last = ""
        while True:
            # The informers report an unreachable server.
            if problem is not None and not isinstance(problem, ConnectionFailed) and str(problem) != last:
                last = str(problem)
                log.info(_NO_CLIENT_CA, error=last)
            await asyncio.sleep(_POLL_SECONDS)
            problem = await self._read(trust)
            if problem is None:
                last = ""

    async def _read(self, trust: Callable[[str], None]) -> Exception | None:
        """Read the CA once and return the error, if any."""
        try:
            answer = await self.authenticate("GET", _CONFIG_MAP, b"")
            authorities = msgspec.json.decode(answer, type=_ConfigMap).data.get("client-ca-file", "")
            if authorities:
                trust(authorities)
        except (KubeError, CertificateError, msgspec.DecodeError) as error:
            return error
        return None

    async def close(self) -> None:
        """Stop polling, and close the connections."""
        if self._polling is not None:
            self._polling.cancel()
        for each in self._connections:
            await each.close()
