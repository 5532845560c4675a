"""A cluster for tests of batch sessions, and requests to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from mooring.kube import Client

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

    async def gang(self, name: str, pods: int, *, cpu: str = "1", queue: str = "default", least: int = -1) -> None:
        spec = {"minMember": pods if least < 0 else least, "queue": queue}
        group = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
        await self.ask("POST", GROUPS, {**group, "spec": spec})
        for number in range(pods):
            await self.pod(f"{name}-task-{number}", group=name, cpu=cpu)

    async def pod(self, name: str, *, group: str, cpu: str, scheduler: str = "volcano") -> None:
        container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}
        annotations = {"scheduling.k8s.io/group-name": group}
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0},
        }
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
