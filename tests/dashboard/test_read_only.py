"""The dashboard of a cluster with another scheduler: it is only read."""

from __future__ import annotations

import aiohttp

from mooring.config import default_config
from mooring.dashboard.read_only import ReadOnlyServer
from mooring.kube import load_access
from mooring.loading import Catalog, Setup
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
            assert (await read(client, "matrix", name="default/waits"))["feasible"] == found["nodes"]
    pod = embedded.cluster.store.get("pods", "default", "waits")
    assert pod is not None
    assert "nodeName" not in pod.document["spec"]
