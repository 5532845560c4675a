"""Asking the cluster about clients of the endpoints: over which connections, and who signs its users' certificates."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import structlog

from mooring.kube import Access, Client, KubeError
from mooring.live.guard import Call
from mooring.live.permissions import AUTHENTICATION_CONFIG, AUTHENTICATION_NAMESPACE
from mooring.live.server import ServerError, ServerSettings
from mooring.live.tls import CertificateError

log = structlog.get_logger("mooring.live")

_CONFIG_MAP = f"/api/v1/namespaces/{AUTHENTICATION_NAMESPACE}/configmaps/{AUTHENTICATION_CONFIG}"


class _ConfigMap(msgspec.Struct):
    data: dict[str, str] = {}


class Asking:
    """The scheduler's own connection, or others where the flags say so."""

    def __init__(self, settings: ServerSettings, client: Client) -> None:
        self._settings = settings
        self._others: list[Client] = []
        self.authenticate: Call = self._call(settings.authentication, client)
        self.authorize: Call = self._call(settings.authorization, client)

    def _call(self, access: Access | None, client: Client) -> Call:
        if access is None:
            return client.call
        other = Client(access, lean=False)
        self._others.append(other)
        return other.call

    async def look_up(self, trust: Callable[[str], None]) -> None:
        """Trust the certificates of the cluster's users, if it tells who signs them. Raises ServerError."""
        settings = self._settings
        if settings.insecure or settings.tls.client_ca_file or not settings.look_up_authority:
            return
        try:
            answer = await self.authenticate("GET", _CONFIG_MAP, b"")
            authorities = msgspec.json.decode(answer, type=_ConfigMap).data.get("client-ca-file", "")
            if authorities:
                trust(authorities)
        except (KubeError, CertificateError, msgspec.DecodeError) as error:
            text = "clients cannot identify themselves by certificates of the cluster"
            if not settings.tolerate_lookup_failure:
                raise ServerError(f"{text}: {error}; allow it, or give --authentication-skip-lookup") from None
            log.info(text, error=str(error))

    async def close(self) -> None:
        """Close the connections that are not the scheduler's."""
        for other in self._others:
            await other.close()
