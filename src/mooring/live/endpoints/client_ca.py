"""The client CA of the endpoints, read from the cluster, and the connections for endpoint authentication."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec
import structlog

from mooring.kube import Access, Client, KubeError
from mooring.live.endpoints.endpoint_auth import Call
from mooring.live.endpoints.endpoint_server import ServerError, ServerSettings
from mooring.live.endpoints.endpoint_tls import CertificateError
from mooring.live.rbac_manifests import AUTHENTICATION_CONFIG, AUTHENTICATION_NAMESPACE

log = structlog.get_logger("mooring.live")

#: Time between two reads of the ConfigMap, which the API server serves from its cache.
_POLL_SECONDS = 10.0
_NO_CLIENT_CA = "client certificates of the cluster are not accepted"
_CONFIG_MAP = f"/api/v1/namespaces/{AUTHENTICATION_NAMESPACE}/configmaps/{AUTHENTICATION_CONFIG}?resourceVersion=0"


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class ClientCa:
    """Reads the CA of client certificates from the cluster, over the scheduler's connection or one given by flags."""

    def __init__(self, settings: ServerSettings, client: Client) -> None:
        self._settings = settings
        self._connections: list[Client] = []
        self._polling: asyncio.Task[None] | None = None
        self.authenticate: Call = self._call(settings.authentication, client)
        self.authorize: Call = self._call(settings.authorization, client)

    def _call(self, access: Access | None, client: Client) -> Call:
        if access is None:
            return client.call
        other = Client(access, fast_writes=False)
        self._connections.append(other)
        return other.call

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

    async def _poll(self, trust: Callable[[str], None], problem: str) -> None:
        """Read the CA periodically, because it can be rotated. While reads fail, the last CA stays in effect."""
        if problem:
            log.info(_NO_CLIENT_CA, error=problem)
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            last, problem = problem, await self._read(trust)
            if problem and problem != last:
                log.info(_NO_CLIENT_CA, error=problem)

    async def _read(self, trust: Callable[[str], None]) -> str:
        """Read the CA once and return the error, or an empty string."""
        try:
            answer = await self.authenticate("GET", _CONFIG_MAP, b"")
            authorities = msgspec.json.decode(answer, type=_ConfigMap).data.get("client-ca-file", "")
            if authorities:
                trust(authorities)
        except (KubeError, CertificateError, msgspec.DecodeError) as error:
            return str(error)
        return ""

    async def close(self) -> None:
        """Stop polling, and close the connections that are not the scheduler's."""
        if self._polling is not None:
            self._polling.cancel()
        for other in self._connections:
            await other.close()
