"""The connections of aiohttp."""

import asyncio
from typing import Any

import pytest

from mooring.kube import Access, Timeouts
from mooring.kube.aiohttp_transport import AiohttpTransport
from mooring.kube.client_tls import TlsContexts
from mooring.kube.identity import identity_source
from tests.kube.server import CERTS, PODS, Api


async def test_all_connections_are_closed_with_the_client(tls_api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    loop = asyncio.get_running_loop()
    connect, sockets = loop.create_connection, []

    async def recorded(*arguments: Any, **options: Any) -> Any:
        made = await connect(*arguments, **options)
        sockets.append(made[0].get_extra_info("socket"))
        return made

    monkeypatch.setattr(loop, "create_connection", recorded)
    access = Access(server=tls_api.url, ca=(CERTS / "ca.pem").read_bytes())
    tls = TlsContexts(access)
    http = AiohttpTransport(access, identity_source(access), tls, user_agent="test", timeouts=Timeouts())
    async with http.stream(f"{PODS}?watch=1&timeoutSeconds=60", idle=10):
        pass  # the connection is closed, because the response is not read to its end
    await http.close()
    assert [each.fileno() for each in sockets] == [-1]
