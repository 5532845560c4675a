"""The typed client of the what-if service."""

from __future__ import annotations

import asyncio

import pytest

from mooring.dashboard.what_if_client import WhatIfClient, WhatIfError
from mooring.dashboard.what_if_service import WhatIfService
from mooring.live.endpoints.endpoint_server import EndpointServer
from mooring.live.informers import KINDS
from mooring.simulation.snapshot import Feasible, RemoveNode, Schedule
from mooring.simulation.what_if_question import AddNodes, Question, objects_of
from tests.dashboard.scene import mixed
from tests.dashboard.test_what_if_service import POD, SETUP
from tests.live.endpoints.serving import PLAIN, sources


def use(url: str) -> None:
    client = WhatIfClient(url, token="secret")
    assert client.ask(Question(add_nodes=[AddNodes(type="node-0", count=3)]))["summary"]["after"]["nodes"] == 9
    with client.snapshot() as snapshot:
        assert snapshot.info.nodes == 6
        with snapshot.transaction():
            snapshot.run(RemoveNode(name="node-0"))
            with snapshot.transaction() as inner:
                (answer,) = snapshot.run(Schedule(pod=POD, copies=3))
                assert len(answer.nodes) == 3
                inner.keep()
            assert snapshot.run(Feasible(pod=POD))[0].feasible == 5
        assert snapshot.run(Feasible(pod=POD))[0].feasible == 6
        with pytest.raises(WhatIfError, match="no node 'x'"):
            snapshot.run(RemoveNode(name="x"))
    with pytest.raises(WhatIfError, match="no such snapshot"):
        snapshot.run()
    with pytest.raises(WhatIfError, match="Unauthorized"):
        WhatIfClient(url, token="wrong").snapshot()


async def test_a_program_tries_keeps_and_rolls_back() -> None:
    engine = mixed()
    service = WhatIfService(lambda: objects_of(engine, KINDS), lambda: SETUP, token="secret")
    server = EndpointServer(PLAIN, sources(), None, extensions=[service])
    await server.start()
    try:
        await asyncio.to_thread(use, server.url)
    finally:
        await server.stop()
    with pytest.raises(WhatIfError, match="does not answer"):
        await asyncio.to_thread(WhatIfClient(server.url).snapshot)
