"""The load of nodes from Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from aiohttp import web

from mooring.batch.session import NodeUsage
from mooring.live.batch.node_usage import UsageError, UsageReader
from tests.log_capture import capture_logs


class Prometheus:
    """A server that answers queries."""

    def __init__(self) -> None:
        self.queries: list[str] = []
        self.answer: Any = None
        self.address = ""

    async def query(self, request: web.Request) -> web.Response:
        text = str((await request.post())["query"])
        self.queries.append(text)
        if self.answer is not None:
            return web.json_response(self.answer)
        values = {"a": "25.5", "b": "NaN", "c": "1"} if "cpu" in text else {"a": "50", "b": "1", "d": "9"}
        result = [{"metric": {"instance": name}, "value": [1.5, value]} for name, value in values.items()]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})


@pytest.fixture
async def prometheus() -> AsyncIterator[Prometheus]:
    found, app = Prometheus(), web.Application()
    app.router.add_post("/api/v1/query", found.query)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    found.address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield found
    await runner.cleanup()


def reader(settings: Mapping[str, str], used: list[Any] | None = None) -> UsageReader:
    return UsageReader(lambda: settings, (used if used is not None else []).append, lambda: 7.0)


async def test_the_load_of_all_nodes_is_read_with_two_queries(prometheus: Prometheus) -> None:
    settings = {"type": "prometheus", "address": prometheus.address}
    assert await reader({}).read(settings) == {"a": NodeUsage(25.5, 50.0, 7.0)}, "those with both values"
    assert len(prometheus.queries) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"type": "elasticsearch"}, 'metrics.type "elasticsearch" is not supported; use prometheus'),
        ({"type": "prometheus"}, "metrics.address is missing"),
        ({"type": "prometheus", "address": "http://127.0.0.1:1"}, "http://127.0.0.1:1: Cannot connect"),
    ],
)
async def test_what_is_wrong_is_said(settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        await reader({}).read(settings)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"status": "error", "error": "bad query"}, "bad query"),
        (["no"], "not an answer of Prometheus"),
        ({"status": "success", "data": {"resultType": "scalar"}}, "not a vector"),
    ],
)
async def test_strange_answers(prometheus: Prometheus, answer: Any, message: str) -> None:
    prometheus.answer = answer
    with pytest.raises(UsageError, match=message):
        await reader({}).read({"type": "prometheus", "address": prometheus.address})


async def test_failures_are_logged_once_and_measuring_continues(prometheus: Prometheus) -> None:
    settings = {"type": "prometheus", "interval": "5s"}
    used: list[Any] = []
    pauses: list[float] = []

    class Enough(BaseException):
        pass

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            settings["address"] = prometheus.address
        if len(pauses) == 3:
            raise Enough

    with capture_logs() as lines, pytest.raises(Enough):
        await reader(settings, used).run(sleep)
    assert pauses == [5.0, 5.0, 5.0]
    assert used == [{"a": NodeUsage(25.5, 50.0, 7.0)}]
    assert sum("cannot be measured" in str(line) for line in lines) == 1
