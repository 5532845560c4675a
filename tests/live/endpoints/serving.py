"""A server of endpoints, and an API server that answers reviews, for tests."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from mooring.http_listener import ConnectionLimits
from mooring.kube import ConnectionFailed
from mooring.live.endpoints.endpoint_auth import EndpointAuth
from mooring.live.endpoints.endpoint_server import EndpointServer, ServerSettings, Sources
from mooring.live.endpoints.endpoint_tls import TlsSettings

CERTS = Path(__file__).parents[2] / "kube" / "certs"
PLAIN = ServerSettings(port=0, insecure=True)
GIVEN = TlsSettings(cert_file=str(CERTS / "server.pem"), key_file=str(CERTS / "server.key"))


def trusting_context() -> ssl.SSLContext:
    """The context of a client that trusts the CA of the tests, which lacks what Python 3.13 demands by default."""
    context = ssl.create_default_context(cafile=str(CERTS / "ca.pem"))
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


OPEN = ("/healthz", "/livez", "/readyz", "/readyz/ping")
GUARDED = ("/metrics", "/metrics/resources", "/configz", "/version", "/decisions", "/decisions/default/web")


class Cluster:
    """Answers reviews: tokens are known by name, and may read what the table says."""

    def __init__(self, **may: tuple[str, ...]) -> None:
        self.may = may
        self.calls: list[str] = []
        self.down = False
        #: If set: reviews wait for it.
        self.gate: asyncio.Event | None = None

    def connect(self, _access: object, **limits: float) -> Cluster:
        """Takes the place of the client for reviews."""
        assert limits["qps"] > 0
        return self

    async def close(self) -> None:
        pass

    async def call(self, method: str, target: str, body: bytes) -> bytes:
        if self.down:
            raise ConnectionFailed("connection refused")
        review = msgspec.json.decode(body)
        self.calls.append(review["kind"])
        if self.gate is not None:
            await self.gate.wait()
        assert method == "POST"
        assert target.endswith(review["kind"].lower() + "s")
        spec = review["spec"]
        if review["kind"] == "TokenReview":
            known = spec["token"] in self.may
            user = {"username": spec["token"], "groups": ["system:authenticated"]} if known else {}
            return msgspec.json.encode({"kind": "TokenReview", "status": {"authenticated": known, "user": user}})
        attributes = spec["nonResourceAttributes"]
        anonymous = spec["user"] == "system:anonymous"
        assert spec["groups"][-1] == ("system:unauthenticated" if anonymous else "system:authenticated")
        assert attributes["verb"] == "get"
        allowed = attributes["path"] in self.may.get(spec["user"], ())
        return msgspec.json.encode({"kind": "SubjectAccessReview", "status": {"allowed": allowed}})


async def _decision(key: str) -> dict[str, str] | None:
    return {"pod": key} if key == "default/web" else None


def sources(**given: Any) -> Sources:
    values: dict[str, Any] = {
        "metrics": lambda accept: (b"# metrics\n", "text/plain"),
        "resources": lambda accept: (b"# resources\n", "text/plain"),
        "config": lambda: {"componentconfig": {}},
        "decision": _decision,
        "decisions": lambda limit: [{"limit": limit}],
        "live": {},
        "ready": {},
    }
    return Sources(**(values | given))


@asynccontextmanager
async def serving(
    settings: ServerSettings = PLAIN,
    auth: EndpointAuth | None = None,
    *,
    limits: ConnectionLimits | None = None,
    **given: Any,
) -> AsyncIterator[tuple[EndpointServer, aiohttp.ClientSession]]:
    server = EndpointServer(settings, sources(**given), auth, limits=limits)
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session:
            yield server, session
    finally:
        await server.stop()


async def get(session: aiohttp.ClientSession, path: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with session.get(path, headers=headers) as answer:
        return answer.status, await answer.text()


async def statuses(server: EndpointServer) -> Any:
    """What a client with a certificate, and one without, get as an answer; None if the handshake fails."""
    found = []
    for certified in (True, False):
        context = trusting_context()
        if certified:
            context.load_cert_chain(CERTS / "client.pem", CERTS / "client.key")
        try:
            async with aiohttp.ClientSession() as session, session.get(f"{server.url}/metrics", ssl=context) as answer:
                found.append(answer.status)
        except aiohttp.ClientError:
            found.append(None)
    return tuple(found)
