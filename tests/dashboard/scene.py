"""An engine with nodes and pods, and a server of its dashboard, for tests."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from mooring.api.meta import KubeObject
from mooring.config import default_config
from mooring.dashboard.dashboard_routes import Dashboard, DashboardSource
from mooring.live.endpoints.endpoint_auth import EndpointAuth
from mooring.live.endpoints.endpoint_server import EndpointServer, ServerSettings
from mooring.loading import Catalog
from mooring.loading.plugin_rows import plugin_rows
from mooring.observe.decision_records import DecisionRecords
from mooring.observe.scheduler_metrics import SchedulerMetrics
from mooring.scheduler.attempt_results import AssumedPod
from mooring.scheduler.engine import Engine
from mooring.scheduler.observer import Observer
from mooring.testing import make_node, make_pod
from tests.live.endpoints.serving import PLAIN, sources
from tests.waiting import PATIENCE

ZONE = "topology.kubernetes.io/zone"


def nodes(count: int) -> list[KubeObject]:
    """Nodes in three zones, with 8 cores each."""
    return [
        make_node(f"node-{number}").zone(f"zone-{'abc'[number % 3]}").capacity(cpu="8", memory="32Gi", pods=110).obj()
        for number in range(count)
    ]


def engine_with(*objects: KubeObject | Iterable[KubeObject]) -> Engine:
    """An engine that has tried every pod once."""
    observer = Observer(records=DecisionRecords(), metrics=SchedulerMetrics())
    engine = Engine(default_config(), rng=random.Random(0), observer=observer)
    for each in objects:
        for item in [each] if isinstance(each, KubeObject) else each:
            engine.put(item)
    schedule(engine)
    return engine


def schedule(engine: Engine) -> None:
    """Try all ready pods; chosen nodes stay assumed."""
    while (outcome := engine.schedule_one()) is not None:
        if isinstance(outcome, AssumedPod):
            engine.queue.done(outcome.pod.uid)


def mixed(count: int = 6) -> Engine:
    """Nodes, pods on them, and pods that wait for various reasons."""
    return engine_with(
        nodes(count),
        [make_pod(f"web-{number}").req(cpu="1", memory="1Gi").obj() for number in range(4)],
        make_pod("giant").req(cpu="100").obj(),
        make_pod("picky").req(cpu="100m").node_selector({"disk": "nvme"}).obj(),
        make_pod("gated").req(cpu="100m").gate("example.com/quota").obj(),
    )


def dashboard(engine: Engine, **given: Any) -> Dashboard:
    values: dict[str, Any] = {
        "config": lambda: engine.profiles.config,
        "plugins": lambda: plugin_rows(engine.profiles.config, Catalog()),
        **given,
    }
    return Dashboard(DashboardSource(engine=engine, **values))


@asynccontextmanager
async def serving(
    made: Dashboard, auth: EndpointAuth | None = None, settings: ServerSettings = PLAIN
) -> AsyncIterator[tuple[EndpointServer, aiohttp.ClientSession]]:
    """A server of a dashboard, and a browser-like client without a session."""
    server = EndpointServer(settings, sources(), auth, extensions=[made])
    await server.start()
    try:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(server.url, cookie_jar=jar) as client:
            yield server, client
    finally:
        await server.stop()


async def sign_in(made: Dashboard, client: aiohttp.ClientSession, bearer: str = "") -> None:
    """Open a session with a one-time link."""
    token = made.sessions.create_link_token(bearer)
    async with client.get("/dashboard", params={"token": token}, allow_redirects=False) as answer:
        assert answer.status == 303


async def read(client: aiohttp.ClientSession, endpoint: str, **query: Any) -> Any:
    async with client.get(f"/dashboard/api/{endpoint}", params=query) as answer:
        return await answer.json() if answer.status == 200 else (answer.status, await answer.text())


class Served:
    """A dashboard of an engine in this process, on a thread with the engine's loop."""

    def __init__(self, engine: Engine, auth: EndpointAuth | None = None, **given: Any) -> None:
        self.engine = engine
        self.dashboard: Dashboard = dashboard(engine, **given)
        self._auth = auth
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)

    async def _main(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        async with serving(self.dashboard, self._auth) as (server, _):
            self.url = server.url
            self._started.set()
            await self._end.wait()

    def __enter__(self) -> Served:
        self._thread.start()
        assert self._started.wait(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(PATIENCE)

    def link(self) -> str:
        return f"{self.url}/dashboard?token={self.dashboard.sessions.create_link_token()}"

    def change(self, work: Callable[[], None]) -> None:
        """Change the engine in its loop."""

        async def inside() -> None:
            work()

        asyncio.run_coroutine_threadsafe(inside(), self._loop).result(20)
