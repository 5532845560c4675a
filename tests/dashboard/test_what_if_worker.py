"""What-if questions about a running scheduler: answers, errors, and limits."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import msgspec
import pytest

from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.pod import PodTemplateSpec
from mooring.config import default_config
from mooring.dashboard.what_if_worker import WhatIfWorker
from mooring.live.endpoints.endpoint_auth import HttpError
from mooring.live.informers import KINDS
from mooring.loading import Catalog, Setup
from mooring.simulation.what_if_question import objects_of
from mooring.testing import make_pod, make_replica_set
from tests.dashboard.scene import dashboard, engine_with, mixed, nodes, serving, sign_in

SETUP = Setup(default_config(), Catalog())


async def post(client: aiohttp.ClientSession, question: Any) -> tuple[int, Any]:
    async with client.post("/dashboard/api/what-if", json=question) as answer:
        return answer.status, await answer.json() if answer.status == 200 else await answer.text()


async def test_questions_are_answered_from_the_cache_of_the_scheduler() -> None:
    engine = mixed()
    made = dashboard(engine, what_if=WhatIfWorker(lambda: SETUP).answer, kinds=lambda: KINDS)
    async with serving(made) as (_, client):
        await sign_in(made, client)
        status, found = await post(client, {"addNodes": [{"type": "node-1", "count": 2}]})
        assert (status, found["summary"]["after"]["nodes"]) == (200, 8)
        status, text = await post(client, {"drain": ["missing"]})
        assert status == 400
        assert "there is no node 'missing'" in text
        status, text = await post(client, {"add": "kind: ["})
        assert status == 400
    assert len(engine.cache.table) == 6


async def test_one_question_at_a_time_and_limits() -> None:
    worker = WhatIfWorker(lambda: SETUP, seconds=-1.0)

    async def objects() -> list[KubeObject]:
        with pytest.raises(HttpError, match="another question"):
            await worker.answer(b"{}", objects)
        return objects_of(mixed(), KINDS)

    with pytest.raises(HttpError, match="took longer"):
        await worker.answer(b"{}", objects)
    with pytest.raises(HttpError, match="longer than"):
        await worker.answer(b" " * (1 << 20), objects)


async def test_a_deployment_is_scaled_through_its_replica_set() -> None:
    made = make_replica_set("web-1", {"app": "web"}).owner("Deployment", "web").obj()
    template = PodTemplateSpec(metadata=ObjectMeta(labels={"app": "web"}), spec=make_pod("x").req(cpu="1").obj().spec)
    replicas = msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, replicas=1, template=template))
    placed = make_pod("web-1-a").label(app="web").owner("ReplicaSet", "web-1").req(cpu="1").node("node-0").obj()
    engine = engine_with(nodes(2), replicas, placed)

    async def objects() -> list[KubeObject]:
        return objects_of(engine, KINDS)

    question = {"scale": [{"kind": "deployment", "name": "web", "replicas": 0}]}
    found = await WhatIfWorker(lambda: SETUP).answer(json.dumps(question).encode(), objects)
    assert found["deleted"] == ["default/web-1-a"]
