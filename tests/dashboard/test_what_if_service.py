"""The what-if service over HTTP: questions, snapshots, transactions, limits, and its description."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from mooring.api.codec import to_dict
from mooring.config import default_config
from mooring.dashboard import what_if_service
from mooring.dashboard.what_if_service import WhatIfService
from mooring.live.endpoints.endpoint_server import EndpointServer
from mooring.live.informers import KINDS
from mooring.loading import Catalog, Setup
from mooring.simulation.what_if_question import objects_of
from mooring.testing import make_pod
from tests.dashboard.scene import mixed
from tests.live.endpoints.serving import PLAIN, sources

SETUP = Setup(default_config(), Catalog())
POD = to_dict(make_pod("more").req(cpu="1").obj())
TOKEN = {"Authorization": "Bearer secret"}


@pytest.fixture
async def server() -> AsyncIterator[EndpointServer]:
    engine = mixed()
    service = WhatIfService(lambda: objects_of(engine, KINDS), lambda: SETUP, token="secret")
    server = EndpointServer(PLAIN, sources(), None, extensions=[service])
    await server.start()
    yield server
    await server.stop()


async def test_questions_and_snapshots(server: EndpointServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(what_if_service, "_SNAPSHOTS", 1)
    async with aiohttp.ClientSession(server.url, headers=TOKEN) as client:
        async with client.post("/what-if", json={"cordon": ["node-1"]}) as answer:
            assert (await answer.json())["summary"]["after"]["nodes"] == 6
        async with client.post("/what-if/snapshots") as answer:
            made = await answer.json()
            assert (made["nodes"], made["depth"]) == (6, 0)
        path = f"/what-if/snapshots/{made['id']}"
        steps = [{"op": "begin"}, {"op": "schedule", "pod": POD, "copies": 2}, {"op": "rollback"}, {"op": "commit"}]
        async with client.post(path, json={"steps": steps}) as answer:
            found = await answer.json()
        assert len(found["answers"][1]["nodes"]) == 2
        assert found["error"] == "steps[3]: there is no transaction; begin one first"
        for body in ("{", '{"steps": [{"op": "explode"}]}'):
            async with client.post(path, data=body) as answer:
                assert answer.status == 400
        async with client.post("/what-if/snapshots") as answer:
            assert answer.status == 429
        async with client.delete(path) as answer:
            assert answer.status == 200
        async with client.get(path) as answer:
            assert answer.status == 404


async def test_clients_need_the_token(server: EndpointServer) -> None:
    async with aiohttp.ClientSession(server.url) as client:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            async with client.post("/what-if/snapshots", headers=headers) as answer:
                assert answer.status == 401
