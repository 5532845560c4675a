"""Live updates: only changes are sent, slow clients are told to load again, and the number of clients is limited."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from mooring.dashboard import event_stream
from mooring.dashboard.event_stream import EventStream, _Client
from mooring.testing import make_pod
from tests.dashboard.scene import dashboard, mixed, read, serving, sign_in
from tests.waiting import PATIENCE


async def events(answer: aiohttp.ClientResponse, count: int) -> list[str]:
    found: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while len(found) < count:
            line = (await answer.content.readline()).decode()
            if line.startswith("event: "):
                found.append(line.strip().removeprefix("event: "))
    return found


async def test_a_client_receives_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "UPDATE_SECONDS", 0.02)
    monkeypatch.setattr(event_stream, "_COMMENT_SECONDS", 0.1)
    engine = mixed()
    made = dashboard(engine)
    async with serving(made) as (_, client):
        await sign_in(made, client)
        async with client.get("/dashboard/api/events") as answer:
            assert answer.content_type == "text/event-stream"
            assert await events(answer, 2) == ["summary", "nodes"]
            engine.put(make_pod("late").req(cpu="100").obj())
            assert await events(answer, 1) == ["summary"]
        async with asyncio.timeout(PATIENCE):
            while len(made.stream):
                await asyncio.sleep(0.01)


async def test_the_number_of_clients_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "MAX_CLIENTS", 1)
    made = dashboard(mixed())
    async with serving(made) as (_, client):
        await sign_in(made, client)
        async with client.get("/dashboard/api/events") as answer:
            await events(answer, 1)
            status, text = await read(client, "events")
            assert status == 429
            assert "try again later" in text


async def test_a_slow_client_loads_everything_again() -> None:
    client = _Client("cpu")
    for number in range(20):
        client.offer(b"%d" % number)
    assert b"event: resync" in await client.next()


async def test_errors_of_one_update_do_not_end_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "UPDATE_SECONDS", 0.001)
    answers: list[Any] = [ValueError("broken"), {"summary": {"nodes": 1}}]

    async def update(_shown: frozenset[str]) -> dict[str, Any]:
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, Exception):
            raise found
        return dict(found)

    stream = EventStream(update)
    client = _Client("cpu")
    stream._clients.add(client)
    running = asyncio.create_task(stream._run())
    async with asyncio.timeout(PATIENCE):
        assert b'"nodes":1' in await client.next()
    stream._clients.clear()
    await running
