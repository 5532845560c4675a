"""Asking the cluster about clients of the endpoints: over which connections, and who signs its users' certificates."""

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

#: How often the cluster is asked: a read of one small object, which a server has at hand.
_LOOK_SECONDS = 10.0
_NOT_KNOWN = "clients cannot identify themselves by certificates of the cluster"
_CONFIG_MAP = f"/api/v1/namespaces/{AUTHENTICATION_NAMESPACE}/configmaps/{AUTHENTICATION_CONFIG}?resourceVersion=0"


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class Asking:
    """The scheduler's own connection, or others where the flags say so."""

    def __init__(self, settings: ServerSettings, client: Client) -> None:
        self._settings = settings
        self._others: list[Client] = []
        self._following: asyncio.Task[None] | None = None
        self.authenticate: Call = self._call(settings.authentication, client)
        self.authorize: Call = self._call(settings.authorization, client)

    def _call(self, access: Access | None, client: Client) -> Call:
        if access is None:
            return client.call
        other = Client(access, lean=False)
        self._others.append(other)
        return other.call

    async def look_up(self, trust: Callable[[str], None]) -> None:
        """Trust the certificates of the cluster's users, if it tells who signs them, and go on asking it.

        Raises ServerError where it does not tell now and that is not tolerated.
        """
        settings = self._settings
        if settings.insecure or settings.tls.client_ca_file or not settings.look_up_authority:
            return
        problem = await self._look(trust)
        if problem and not settings.tolerate_lookup_failure:
            raise ServerError(f"{_NOT_KNOWN}: {problem}; allow it, or give --authentication-skip-lookup")
        self._following = asyncio.create_task(self._follow(trust, problem), name="authority of clients")

    async def _follow(self, trust: Callable[[str], None], problem: str) -> None:
        """Ask again and again: authorities are replaced. What was trusted stays so while no answer comes."""
        if problem:
            log.info(_NOT_KNOWN, error=problem)
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            last, problem = problem, await self._look(trust)
            if problem and problem != last:
                log.info(_NOT_KNOWN, error=problem)

    async def _look(self, trust: Callable[[str], None]) -> str:
        """Ask once; what went wrong, or empty."""
        try:
            answer = await self.authenticate("GET", _CONFIG_MAP, b"")
            authorities = msgspec.json.decode(answer, type=_ConfigMap).data.get("client-ca-file", "")
            if authorities:
                trust(authorities)
        except (KubeError, CertificateError, msgspec.DecodeError) as error:
            return str(error)
        return ""

    async def close(self) -> None:
        """Ask no more, and close the connections that are not the scheduler's."""
        if self._following is not None:
            self._following.cancel()
        for other in self._others:
            await other.close()
