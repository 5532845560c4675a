"""A gang under Coscheduling on the embedded cluster: bound whole, or given up without holding anybody else back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.cluster import EmbeddedCluster
from mooring.config import load_config
from mooring.framework.custom_definitions import definition_of
from mooring.kube import Client, load_access
from mooring.live import LiveScheduler
from mooring.plugins.coscheduling.pod_group import LABEL, PodGroup
from tests.waiting import PATIENCE, until

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
podMaxBackoffSeconds: 1
profiles:
- plugins: {multiPoint: {enabled: [{name: Coscheduling}], disabled: [{name: PrioritySort}]}}
"""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
GROUPS = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"


class World:
    """A cluster with two nodes of four cores, and a scheduler."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else msgspec.json.encode(body)
        return msgspec.json.decode(await self.client.call(method, path, data))

    async def group(self, name: str, members: int) -> None:
        about = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": {"name": name}}
        await self.ask("POST", GROUPS, {**about, "spec": {"minMember": members}})

    async def pod(self, name: str, group: str = "", cpu: str = "1") -> None:
        resources = {"requests": {"cpu": cpu, "memory": "1Mi"}}
        spec = {"containers": [{"name": "app", "image": "app", "resources": resources}]}
        metadata = {"name": name, "labels": {LABEL: group} if group else {}}
        await self.ask("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    async def placed(self) -> set[str]:
        found = await self.ask("GET", PODS)
        return {pod["metadata"]["name"] for pod in found["items"] if pod["spec"].get("nodeName")}

    async def message(self, name: str) -> str:
        found = await self.ask("GET", f"{PODS}/{name}")
        conditions = found["status"].get("conditions", ())
        return "".join(each.get("message", "") for each in conditions if each["type"] == "PodScheduled")


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    cluster = EmbeddedCluster()
    await cluster.start()
    cluster.add_nodes(2)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig())
    access = load_access(kubeconfig=str(kubeconfig))
    scheduler = LiveScheduler(load_config(CONFIG, source="test"), access)
    async with Client(load_access(kubeconfig=str(kubeconfig))) as client:
        world = World(client)
        await world.ask("POST", DEFINITIONS, definition_of(PodGroup))
        task = asyncio.ensure_future(scheduler.run())
        await asyncio.wait_for(scheduler.ready.wait(), PATIENCE)
        yield world
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    await cluster.stop()


async def test_a_gang_is_bound_when_it_is_complete(world: World) -> None:
    """Pods that came too early are woken by the one that completes the group."""
    await world.group("g", 3)
    await world.pod("a", "g")
    await world.pod("b", "g")
    await until(lambda: world.message("b"))
    assert "cannot find enough sibling pods" in await world.message("a")
    assert await world.placed() == set()
    await world.pod("c", "g")
    await until(lambda: _has(world, {"a", "b", "c"}))


async def test_a_gang_that_does_not_fit_holds_nobody_back(world: World) -> None:
    nodes = (await world.ask("GET", "/api/v1/nodes"))["items"]
    cores = int(nodes[0]["status"]["allocatable"]["cpu"])
    await world.group("g", 3)
    for name in "abc":
        await world.pod(name, "g", cpu=str(cores))
    await until(lambda: _told(world, "abc"))
    await world.pod("one", cpu=str(cores))
    await world.pod("two", cpu=str(cores))
    await until(lambda: _has(world, {"one", "two"}))
    assert await world.placed() == {"one", "two"}


async def _has(world: World, names: set[str]) -> bool:
    return names <= await world.placed()


async def _told(world: World, names: str) -> bool:
    return all([await world.message(name) for name in names])
