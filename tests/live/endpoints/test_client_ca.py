"""The client CA of the endpoints follows the cluster."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from mooring.config import default_config
from mooring.kube import Access, ConnectionFailed
from mooring.live.endpoints.endpoint_server import ServerSettings
from mooring.live.endpoints.scheduler_endpoints import make_observer, make_server
from mooring.scheduler.engine import Engine
from tests.live.endpoints.serving import CERTS, GIVEN, Cluster, statuses


async def test_the_client_ca_is_reloaded_from_the_cluster(monkeypatch):
    asked = asyncio.Event()

    class Telling(Cluster):
        authority: str | None = None

        async def call(self, method: str, target: str, body: bytes) -> bytes:
            if "configmaps/extension-apiserver-authentication" not in target:
                return await super().call(method, target, body)
            asked.set()
            if self.authority is None:
                raise ConnectionFailed("connection refused")
            return msgspec.json.encode({"data": {"client-ca-file": self.authority}})

    monkeypatch.setattr("mooring.live.endpoints.client_ca._POLL_SECONDS", 0.001)
    cluster = Telling(alice=("/metrics",))
    monkeypatch.setattr("mooring.live.endpoints.client_ca.Client", cluster.connect)
    endpoints = make_server(
        ServerSettings(port=0, tls=GIVEN),
        engine=Engine(default_config(), observer=make_observer(time.time)),
        config=default_config,
        access=Access("https://127.0.0.1:1"),
        informers=cast(Any, SimpleNamespace(lagging=list)),
        election=lambda: None,
    )
    await endpoints.start()
    try:
        theirs, others = ((CERTS / name).read_text() for name in ("ca.pem", "other-ca.pem"))
        # An empty one, and no answer, leave things as they are.
        for authority, expected in [(None, 403), (theirs, 200), ("", 200), (others, None), (None, None), (theirs, 200)]:
            cluster.authority = authority
            for _ in range(2):  # the second question is asked when the first is answered
                asked.clear()
                await asked.wait()
            assert await statuses(cast(Any, endpoints)) == (expected, 403), authority
    finally:
        await endpoints.stop()
