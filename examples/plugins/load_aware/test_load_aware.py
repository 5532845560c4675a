import asyncio
from pathlib import Path

import pytest
from aiohttp import web

from mooring.loading import load_plugin
from mooring.testing import PluginHarness, make_node, make_pod

LoadAware = load_plugin("LoadAware", Path(__file__).with_name("load_aware.py"))
NODES = [make_node(f"node-{number}").capacity(cpu="4", memory="8Gi").obj() for number in range(3)]
GIB = 1024**3


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def harness(pods=(), **args):
    clock = Clock()
    made = PluginHarness(LoadAware, args=args, nodes=NODES, pods=pods, clock=clock)
    return made, clock


def scores(made):
    return list(made.run(make_pod("new").obj()).scores.values())


def on(node, cpu):
    return make_pod(f"on-{node}-{cpu}").node(node).req(cpu=cpu).obj()


def test_the_least_loaded_node_is_best():
    made, clock = harness(pods=[on("node-2", "3")])
    assert scores(made) == [100, 100, 25]  # no measurements yet: requests
    made.plugin.measured({"node-0": (3000, GIB), "node-1": (400, 4 * GIB), "node-2": (100, 0)})
    assert scores(made) == [25, 50, 97]
    made.add(on("node-2", "1"))
    assert scores(made) == [25, 50, 72]  # the new pod counts until the next measurement
    clock.now += 121
    assert scores(made) == [100, 100, 0]  # too old


def test_deleted_nodes_are_removed():
    made, _ = harness()
    made.plugin.measured({"node-0": (1, 1), "other": (1, 1)})
    made.table.remove_node("node-0")
    made.plugin.measured({"node-1": (1, 1)})
    assert set(made.plugin.loads) == {"node-1"}


class Api:
    """An API server that serves metrics."""

    def __init__(self):
        self.asked = []

    async def get(self, path):
        self.asked.append(path)
        usage = {"cpu": "3", "memory": "1Gi"}
        return {"items": [{"metadata": {"name": "node-0"}, "usage": usage}]}


async def ran(made):
    task = asyncio.ensure_future(made.plugin.run())
    async with asyncio.timeout(10):
        while not made.plugin.loads and not task.done():
            await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait({task})
    if not task.cancelled():
        task.result()


async def test_measurements_of_the_metrics_api():
    made, _ = harness()
    made.handle.api = Api()
    await ran(made)
    assert made.handle.api.asked == ["/apis/metrics.k8s.io/v1beta1/nodes"]
    assert scores(made) == [25, 100, 100]


@pytest.fixture
async def prometheus():
    async def answer(request):
        amount = "2" if "cpu" in request.query["query"] else str(6 * GIB)
        result = [{"metric": {"node": "node-1"}, "value": [0, amount]}]
        return web.json_response({"status": "success", "data": {"resultType": "vector", "result": result}})

    app = web.Application()
    app.router.add_get("/api/v1/query", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
    await runner.cleanup()


async def test_measurements_of_prometheus(prometheus):
    made, _ = harness(prometheus=prometheus)
    await ran(made)
    assert scores(made) == [100, 25, 100]
