"""The endpoints of a scheduling engine."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from types import SimpleNamespace
from typing import Any, cast

import aiohttp

from mooring import Scheduler
from mooring.config import default_config
from mooring.kube import Access, RateLimiter
from mooring.live import ServerSettings
from mooring.live.endpoints.scheduler_endpoints import make_observer, make_server
from mooring.scheduler.engine import Engine
from mooring.testing import make_node, make_pod
from tests.live.endpoints.serving import GUARDED, PLAIN, Cluster, get


async def test_the_endpoints_of_an_engine(monkeypatch):
    engine = Engine(default_config(), rng=random.Random(0), observer=make_observer(time.time))
    engine.put(make_node("n").capacity(cpu="2", memory="4Gi", pods="5").obj())
    engine.put(make_pod("web").req(cpu="1").obj())
    engine.schedule_one()
    monkeypatch.setattr("mooring.live.endpoints.client_ca.Client", Cluster(admin=GUARDED).connect)
    lagging: list[str] = []
    server = make_server(
        PLAIN,
        engine=engine,
        config=default_config,
        access=Access("https://127.0.0.1:1"),
        informers=cast(Any, SimpleNamespace(lagging=lambda: lagging)),
        election=lambda: cast(Any, SimpleNamespace(overdue=lambda: 30.0)),
    )
    await server.start()
    try:
        async with aiohttp.ClientSession(server.url) as session:
            explained = json.loads((await get(session, "/decisions/default/web", "admin"))[1])
            assert (explained["state"], explained["decision"]["node"]) == ("binding", "n")
            listed = json.loads((await get(session, "/decisions", "admin"))[1])
            assert [each["pod"] for each in listed["decisions"]] == ["default/web"]
            assert 'scheduler_cache_size{type="nodes"} 1.0' in (await get(session, "/metrics", "admin"))[1]
            profiles = json.loads((await get(session, "/configz", "admin"))[1])["componentconfig"]["profiles"]
            assert [each["schedulerName"] for each in profiles] == ["default-scheduler"]
            assert "the lease expired 30 s ago" in (await get(session, "/healthz"))[1]
    finally:
        await server.stop()


async def test_reviews_do_not_use_the_requests_of_the_scheduler(embedded, monkeypatch):
    """A flood of invented tokens reaches the API server at a limited rate, over other connections."""
    acquired: Counter[RateLimiter] = Counter()

    def take(self: RateLimiter, now: float) -> bool:
        acquired[self] += 1
        return original(self, now)

    original = RateLimiter.try_acquire
    serve = ServerSettings(port=0, insecure=True)
    async with Scheduler(kubeconfig=embedded.kubeconfig, leader_elect=False, serve=serve) as scheduler:
        await scheduler.ready()
        monkeypatch.setattr(RateLimiter, "try_acquire", take)
        async with aiohttp.ClientSession(scheduler.url) as session:
            flood = [get(session, "/metrics", f"invented-{number}") for number in range(100)]
            found = Counter(status for status, _ in await asyncio.gather(*flood))
        own = scheduler._live._client._limiter
    assert set(found) == {401, 429}
    assert sum(count for limiter, count in acquired.items() if limiter is not own) >= found[401]
    assert acquired[own] == 0
