"""The endpoints of a scheduling engine."""

from __future__ import annotations

import json
import random
import time
from types import SimpleNamespace
from typing import Any, cast

import aiohttp

from mooring.config import default_config
from mooring.live.endpoints.scheduler_endpoints import make_observer, make_server
from mooring.scheduler.engine import Engine
from mooring.testing import make_node, make_pod
from tests.live.endpoints.serving import GUARDED, PLAIN, Cluster, get


async def test_the_endpoints_of_an_engine():
    engine = Engine(default_config(), rng=random.Random(0), observer=make_observer(time.time))
    engine.put(make_node("n").capacity(cpu="2", memory="4Gi", pods="5").obj())
    engine.put(make_pod("web").req(cpu="1").obj())
    engine.schedule_one()
    cluster = Cluster(admin=GUARDED)
    lagging: list[str] = []
    server = make_server(
        PLAIN,
        engine=engine,
        config=default_config,
        client=cast(Any, cluster),
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
