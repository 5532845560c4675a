"""The dashboard of a cluster with another scheduler: it is only read."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp

from mooring.config import default_config
from mooring.dashboard.read_only import ReadOnlyServer, serve_manifests
from mooring.dashboard.what_if_client import WhatIfClient
from mooring.kube import load_access
from mooring.loading import Catalog, Setup
from mooring.simulation.snapshot import Feasible
from mooring.simulation.sources import read as read_manifests
from mooring.simulation.what_if_question import Question, placed_objects
from tests.dashboard.scene import read
from tests.live.embedded import Embedded


async def test_a_cluster_is_shown_without_a_scheduler(embedded: Embedded) -> None:
    embedded.add_pod("waits")
    access = load_access(kubeconfig=embedded.kubeconfig)
    async with ReadOnlyServer(access, Setup(default_config(), Catalog())) as shown:
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(shown.server.url, cookie_jar=jar) as client:
            assert (await read(client, "summary"))[0] == 401
            async with client.get(shown.link()) as answer:
                assert answer.status == 200
            found = await read(client, "summary")
            assert found["nodes"] == 3
            assert found["reported"]
            queue = await read(client, "queue")
            assert [each["pod"] for each in queue["parts"]["active"]] == ["default/waits"]
            assert (await read(client, "pod", name="default/waits"))["note"].startswith(
                "No records of a running Mooring"
            )
            assert (await read(client, "matrix", name="default/waits"))["feasible"] == found["nodes"]
    pod = embedded.cluster.store.get("pods", "default", "waits")
    assert pod is not None
    assert "nodeName" not in pod.document["spec"]


async def test_questions_and_snapshots_about_manifests() -> None:
    setup = Setup(default_config(), Catalog())
    given = read_manifests(["examples/demo/cluster"])
    objects = await asyncio.to_thread(placed_objects, given, setup)  # it runs a loop of its own
    async with serve_manifests(given, objects, setup, token="secret") as server:
        client = WhatIfClient(server.url, token="secret")
        answer = await asyncio.to_thread(client.ask, Question(drain=["general-a1"]))
        assert answer["counts"]["moved"] > 0
        pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "small"}}
        pod["spec"] = {"containers": [{"name": "c", "image": "x"}]}

        def feasible() -> int:
            with client.snapshot() as snapshot:
                assert snapshot.info.pods > 0
                return snapshot.run(Feasible(pod=pod))[0].feasible

        assert await asyncio.to_thread(feasible) > 1
