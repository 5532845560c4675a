"""What plugins read beside the scheduler's own kinds, and do beside the decisions, on the embedded cluster."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from mooring.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from mooring.cluster import EmbeddedCluster
from mooring.config import PluginSpec, load_config
from mooring.framework import CustomResource, Lister, Plugin
from mooring.framework.custom_definitions import definition_of
from mooring.framework.points import points_of
from mooring.kube import Client, Resource, load_access
from mooring.live import LiveScheduler
from mooring.live import custom as informers
from tests.log_capture import capture_logs
from tests.waiting import PATIENCE, until

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- plugins: {multiPoint: {enabled: [{name: Gate}]}}
"""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
TICKETS = "/apis/example.com/v1/namespaces/default/tickets"
PODS = "/api/v1/namespaces/default/pods"


class Ticket(CustomResource, group="example.com", version="v1"):
    """Lets a pod in."""

    seats: int


class Gate(Plugin):
    """Lets pods in that have a ticket; counts how often its background task was started."""

    tickets = Lister(Ticket)

    def setup(self) -> None:
        self.started: list[Any] = []

    def filter(self, state, pod, node):
        return None if self.tickets.get(pod.name, pod.namespace) else "no ticket"

    async def run(self) -> None:
        self.started.append(await self.handle.api.get("/version"))
        if len(self.started) < 2:
            raise ConnectionError("not yet")
        await asyncio.sleep(3600)


class World:
    """A cluster with two nodes, and a way to ask it for anything."""

    def __init__(self, client: Client, kubeconfig: Path) -> None:
        self.client = client
        self.kubeconfig = kubeconfig

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else msgspec.json.encode(body)
        return msgspec.json.decode(await self.client.call(method, path, data))

    async def define(self) -> None:
        await self.ask("POST", DEFINITIONS, definition_of(Ticket))

    async def ticket(self, name: str, **fields: Any) -> None:
        body = {"apiVersion": "example.com/v1", "kind": "Ticket", "metadata": {"name": name}, "seats": 1, **fields}
        await self.ask("POST", TICKETS, body)

    async def pod(self, name: str) -> None:
        spec = {"containers": [{"name": "app", "image": "app"}]}
        await self.ask("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})

    async def node_of(self, name: str) -> str:
        found = await self.ask("GET", f"{PODS}/{name}")
        return str(found["spec"].get("nodeName", ""))


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(informers, "_LOOK_SECONDS", 0.1)
    cluster = EmbeddedCluster()
    await cluster.start()
    cluster.add_nodes(2)
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig())
    async with Client(load_access(kubeconfig=str(kubeconfig))) as client:
        yield World(client, kubeconfig)
    await cluster.stop()


@contextlib.asynccontextmanager
async def scheduling(world: World) -> AsyncIterator[LiveScheduler]:
    config = load_config(CONFIG, source="test", plugins={"Gate": PluginSpec("Gate", points_of(Gate), None)})
    scheduler = LiveScheduler(config, load_access(kubeconfig=str(world.kubeconfig)), plugins={"Gate": Gate})
    task = asyncio.ensure_future(scheduler.run())
    ready = asyncio.ensure_future(scheduler.ready.wait())
    try:
        await asyncio.wait({task, ready}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        assert ready.done(), task
        yield scheduler
    finally:
        ready.cancel()
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def gate(scheduler: LiveScheduler) -> Any:
    return scheduler.engine.profiles.first.profile.plugins["Gate"]


async def test_objects_are_there_before_the_first_decision(world: World) -> None:
    await world.define()
    await world.ticket("web")
    await world.pod("web")
    async with scheduling(world) as scheduler:
        assert [each.name for each in gate(scheduler).tickets.list()] == ["web"]
        await until(lambda: world.node_of("web"))


async def test_a_kind_that_is_not_served_yet_is_picked_up(world: World) -> None:
    with capture_logs() as logs:
        async with scheduling(world) as scheduler:
            await world.pod("web")
            await until(lambda: [each for each in logs if "does not serve tickets.example.com" in each["event"]])
            assert scheduler.informers.lagging() == []
            await world.define()
            await world.ticket("web")
            await until(lambda: world.node_of("web"))
            await world.ask("DELETE", f"{DEFINITIONS}/tickets.example.com")
            await until(lambda: len(gate(scheduler).tickets) == 0)
            await world.define()
            await world.ticket("late")
            await world.pod("late")
            await until(lambda: world.node_of("late"))
    warned = [each["event"] for each in logs if "does not serve tickets" in each["event"]]
    assert 1 <= len(warned) <= 2
    assert "mooring plugin manifests FILE --crd" in warned[0]


async def test_an_object_that_makes_no_sense_is_told_of_once_and_skipped(world: World) -> None:
    definition = definition_of(Ticket)
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema}
    await world.ask("POST", DEFINITIONS, definition)
    await world.ticket("broken", seats="many")
    await world.ticket("web")
    await world.pod("web")
    with capture_logs() as logs:
        async with scheduling(world) as scheduler:
            await until(lambda: world.node_of("web"))
            broken = await world.ask("GET", f"{TICKETS}/broken")
            broken["metadata"]["labels"] = {"still": "wrong"}
            await world.ask("PUT", f"{TICKETS}/broken", broken)
            await world.ticket("next")
            await until(lambda: len(gate(scheduler).tickets) == 2)
    told = [each["error"] for each in logs if "cannot be decoded" in each["event"]]
    assert len(told) == 1
    assert "Ticket default/broken" in told[0]
    assert "seats" in told[0]


async def test_kinds_that_nobody_reads_any_more_are_dropped(world: World) -> None:
    await world.define()
    await world.ticket("web")
    async with scheduling(world) as scheduler:
        custom = scheduler.informers.custom

        class Again(CustomResource, group="example.com", version="v1", kind="Ticket", plural="tickets"):
            seats: int

        await custom.watch([Again])
        assert len(scheduler.engine.cache.objects.lister(Again)) == 1
        await custom.retain([Again])
        assert len(scheduler.engine.cache.objects.lister(Ticket)) == 0
        await world.ticket("more")
        await until(lambda: len(scheduler.engine.cache.objects.lister(Again)) == 2)


async def test_a_background_task_is_started_again_when_it_breaks(world: World) -> None:
    with capture_logs() as logs:
        async with scheduling(world) as scheduler:
            await until(lambda: len(gate(scheduler).started) == 2)
    assert "gitVersion" in gate(scheduler).started[0]
    (error,) = [each["error"] for each in logs if "background" in each["event"]]
    assert error.endswith(" in run: ConnectionError: not yet")


class OldServer:
    """A client whose server has none of the kinds."""

    def __init__(self) -> None:
        self.random = random.Random(0)
        self.asked: list[str] = []

    async def serves(self, resource: Resource[Any]) -> bool:
        self.asked.append(resource.kind)
        return False


async def test_an_api_that_an_older_server_does_not_have_is_reported_once() -> None:
    """One warning for all its kinds, which says what that means; then the scheduler goes on without them."""
    client = OldServer()
    kinds = (DeviceClass, ResourceClaim, ResourceSlice)
    custom = informers.CustomInformers(cast(Client, client), lambda changes: None, known=(), drop=lambda kind: None)
    with capture_logs() as logs:
        async with asyncio.TaskGroup() as tasks:
            custom.begin(tasks)
            await custom.watch(kinds)
            assert custom.lagging() == []
            await custom.retain(())
    warned = [each["event"] for each in logs if each["log_level"] == "warning"]
    (warning,) = warned
    assert warning.startswith("The cluster does not serve resource.k8s.io/v1: pods with resource claims stay pending.")
    assert sorted(client.asked) == sorted(kind.__name__ for kind in kinds)
