"""A cluster for tests of batch sessions, and requests to it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from mooring.config import load_config
from mooring.kube import Client, load_access
from mooring.live import LiveScheduler
from mooring.live.batch.batch_settings import BatchSettings
from mooring.loading import Catalog, Setup
from mooring.loading.setup_files import SetupFiles
from tests.waiting import PATIENCE

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
"""
CONF = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}MORE]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
GROUPS = f"{SCHEDULING}/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"
RESOURCE = "/apis/resource.k8s.io/v1"
CLAIMS = f"{RESOURCE}/namespaces/default/resourceclaims"


class World:
    """A cluster with three nodes of four cores, and a way to ask it for anything."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client = client
        self.kubeconfig = folder / "kubeconfig"
        self.conf = folder / "volcano-scheduler.conf"
        self.write("")

    def write(self, more: str) -> None:
        self.conf.write_text(CONF.replace("MORE", more))

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else msgspec.json.encode(body)
        return msgspec.json.decode(await self.client.call(method, path, data))

    async def define(self, *definitions: dict[str, Any]) -> None:
        for definition in definitions:
            await self.ask("POST", DEFINITIONS, definition)

    async def queue(self, name: str, **spec: Any) -> None:
        body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        await self.ask("POST", f"{SCHEDULING}/queues", {**body, "spec": {"weight": 1, **spec}})

    async def gang(
        self, name: str, pods: int, *, cpu: str = "1", queue: str = "default", least: int = -1, claim: str = ""
    ) -> None:
        spec = {"minMember": pods if least < 0 else least, "queue": queue}
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
        await self.ask("POST", GROUPS, {**group, "spec": spec})
        for number in range(pods):
            await self.pod(f"{name}-task-{number}", group=name, cpu=cpu, claim=claim)

    async def device(self, node: str) -> None:
        """Give a node a device, and create a claim of that name for it."""
        spec: dict[str, Any] = {"selectors": [{"cel": {"expression": "true"}}]}
        await self.ask("POST", f"{RESOURCE}/deviceclasses", {"metadata": {"name": "any"}, "spec": spec})
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.example.com", "nodeName": node, "pool": pool, "devices": [{"name": "one"}]}
        await self.ask("POST", f"{RESOURCE}/resourceslices", {"metadata": {"name": node}, "spec": spec})
        spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "any"}}]}}
        await self.ask("POST", CLAIMS, {"metadata": {"name": "device"}, "spec": spec})

    async def pod(self, name: str, *, group: str, cpu: str, scheduler: str = "volcano", claim: str = "") -> None:
        container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}
        annotations = {"scheduling.k8s.io/group-name": group}
        body: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0},
        }
        if claim:
            body["spec"]["resourceClaims"] = [{"name": "d", "resourceClaimName": claim}]
        await self.ask("POST", PODS, body)

    async def placed(self, prefix: str) -> dict[str, str]:
        pods = (await self.ask("GET", PODS))["items"]
        named = {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in pods}
        return {name: node for name, node in named.items() if name.startswith(prefix) and node}

    async def count(self, prefix: str) -> int:
        return len(await self.placed(prefix))

    async def patch_group(self, name: str, patch: dict[str, Any]) -> None:
        await self.client.send("PATCH", f"{GROUPS}/{name}", patch, type="application/merge-patch+json")

    async def condition(self, name: str, reason: str) -> dict[str, Any] | None:
        conditions = (await self.group(name)).get("conditions", ())
        return next((each for each in conditions if each.get("reason") == reason), None)

    async def core_event(self, kind: str, name: str, reason: str) -> dict[str, Any]:
        return await self.event(kind, name, reason, "/api/v1", "involvedObject")

    async def event(
        self, kind: str, name: str, reason: str, api: str = "/apis/events.k8s.io/v1", field: str = "regarding"
    ) -> dict[str, Any]:
        found = (await self.ask("GET", f"{api}/namespaces/default/events"))["items"]
        about = ((each[field]["kind"], each[field]["name"], each["reason"]) for each in found)
        return next((each for each, key in zip(found, about, strict=True) if key == (kind, name, reason)), {})

    async def group(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = await self.ask("GET", f"{GROUPS}/{name}")
        return found.get("status", {})


@contextlib.asynccontextmanager
async def scheduling(
    world: World, files: SetupFiles | None = None, catalog: Catalog | None = None, **settings: Any
) -> AsyncIterator[LiveScheduler]:
    batch = BatchSettings(scheduler_conf=world.conf, schedule_period=0.2, **settings)
    access = load_access(kubeconfig=str(world.kubeconfig))
    setup = files.load() if files is not None else Setup(load_config(CONFIG, source="test"), catalog or Catalog())
    scheduler = LiveScheduler(setup.config, access, catalog=setup.catalog, batch=batch, files=files)
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


async def reached(world: World, prefix: str, count: int) -> bool:
    return await world.count(prefix) == count


async def has_reason(world: World, name: str, reasons: set[str]) -> bool:
    pod = await world.ask("GET", f"{PODS}/{name}")
    return any(each.get("reason") in reasons for each in pod["status"].get("conditions", []))
