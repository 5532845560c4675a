"""ExtenderClient: calls extenders over HTTP. Error messages are those of kube-scheduler, so users can find them."""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from yarl import URL

from mooring.config import Extender as ExtenderConfig
from mooring.config import ExtenderTLS
from mooring.kube.access import Access, User
from mooring.kube.client_errors import KubeError
from mooring.kube.client_tls import TlsContexts
from mooring.kube.environment_proxy import environment_proxy
from mooring.kube.identity import IdentitySource, identity_source
from mooring.late_certificates import aiohttp
from mooring.scheduler.extenders import Extender, Reply, Request

#: How long an idle connection stays open, as in Go.
_IDLE_SECONDS: Final = 90.0
_TLS_PORT, _PORT = 443, 80
_UNTRUSTED: Final = frozenset({18, 19, 20, 21})
_EXPIRED: Final = 10


class ExtenderClient:
    """A client that posts requests to extenders. Belongs to one event loop."""

    def __init__(self, env: Mapping[str, str] = os.environ) -> None:
        self._env = env
        self._session: aiohttp.ClientSession | None = None
        self._connections: dict[Extender, _Connection] = {}
        #: The number of requests for scores in progress.
        self.prioritizing = 0

    async def send(self, request: Request) -> Reply:
        """Post a request and wait for the reply, up to the extender's timeout."""
        scores = request.verb == request.extender.config.prioritize_verb
        self.prioritizing += scores
        try:
            return await self._send(request)
        finally:
            self.prioritizing -= scores

    async def _send(self, request: Request) -> Reply:
        connection = self._connections.get(request.extender)
        if connection is None:
            connection = self._connections[request.extender] = _Connection(request.extender.config, self._env)
        progress = _Progress()
        try:
            async with asyncio.timeout(connection.seconds):
                return await self._post(connection, request, progress)
        except TimeoutError:
            if progress.answered:
                text = "context deadline exceeded (Client.Timeout or context cancellation while reading body)"
                return Reply(error=text)
            return _broken(request, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)")
        except aiohttp.ClientPayloadError:
            return Reply(error="unexpected EOF")
        except (aiohttp.ClientError, KubeError, OSError, ValueError) as error:
            return _broken(request, _cause(error, request.url))

    async def _post(self, connection: _Connection, request: Request, progress: _Progress) -> Reply:
        body, options = request.body(), await connection.options(request.url)
        if self._session is None:
            self._session = _session()
        async with self._session.post(
            URL(request.url), data=body, headers={"Content-Type": "application/json"}, **options
        ) as answer:
            progress.answered = True
            if answer.status != 200:
                where = f"extender at URL {request.url}"
                return Reply(error=f"failed {request.verb} with {where}, code {answer.status}")
            return Reply(body=await answer.read())

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None


class _Progress:
    """The progress of a request."""

    answered = False


class _Connection:
    """The connection settings of one extender."""

    def __init__(self, config: ExtenderConfig, env: Mapping[str, str]) -> None:
        self.seconds = config.http_timeout / 1e9
        access = _access(config)
        self._env = env
        self._tls = TlsContexts(access)
        self._identities: IdentitySource = identity_source(access)
        self._server_name = access.tls_server_name

    async def options(self, url: str) -> dict[str, Any]:
        """Return the options of a request; a certificate that was replaced is read again."""
        context = self._tls.context(self._identities.fresh() or await self._identities.get())
        return {
            "ssl": context if context is not None else True,
            "server_hostname": self._server_name or None,
            "proxy": environment_proxy(url, self._env) or None,
        }


def _access(config: ExtenderConfig) -> Access:
    tls = config.tls_config or ExtenderTLS()
    ca = tls.ca_data or (Path(tls.ca_file).read_bytes() if tls.ca_file else b"")
    return Access(
        server=config.url_prefix,
        user=User(
            certificate=tls.cert_data,
            certificate_file="" if tls.cert_data else tls.cert_file,
            key=tls.key_data,
            key_file="" if tls.key_data else tls.key_file,
        ),
        ca=ca or None,
        # As in kube-scheduler, enableHTTPS without a CA means that the certificate is not verified.
        insecure=tls.insecure or (config.enable_https and not ca),
        tls_server_name=tls.server_name,
        origin=f"extender {config.url_prefix}",
    )


def _session() -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_IDLE_SECONDS)
    # Each extender has its own timeout, applied in ExtenderClient.
    limits = aiohttp.ClientTimeout(total=None)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), timeout=limits)


def _broken(request: Request, cause: str) -> Reply:
    return Reply(error=f'Post "{request.url}": {cause}')


def _cause(error: Exception, url: str) -> str:
    """Return the cause of a failed request in the words of Go's client."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: {_distrust(error.certificate_error)}"
    if isinstance(error, aiohttp.ClientConnectorSSLError):
        return _handshake(error.os_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        port = parts.port or (_TLS_PORT if parts.scheme == "https" else _PORT)
        address = "127.0.0.1" if host == "localhost" else host
        address = f"[{address}]" if ":" in address else address
        reason = os.strerror(error.os_error.errno).lower() if error.os_error.errno else str(error.os_error)
        return f"dial tcp {address}:{port}: connect: {reason}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, aiohttp.InvalidURL) or parts.scheme not in ("http", "https"):
        return f'unsupported protocol scheme "{parts.scheme}"'
    if isinstance(error, OSError) and error.errno == errno.ECONNRESET:
        return "read: connection reset by peer"
    return str(error) or type(error).__name__


def _distrust(error: Exception) -> str:
    code = getattr(error, "verify_code", 0)
    if code in _UNTRUSTED:
        return "x509: certificate signed by unknown authority"
    if code == _EXPIRED:
        return "x509: certificate has expired or is not yet valid"
    return f"x509: {getattr(error, 'verify_message', '') or error}"


def _handshake(error: OSError) -> str:
    if isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return "http: server gave HTTP response to HTTPS client"
    reason = getattr(error, "reason", None)
    return f"remote error: tls: {str(reason).replace('_', ' ').lower()}" if reason else str(error)
