"""An embedded cluster with the batch definitions, and controllers on it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from mooring.cluster import EmbeddedCluster
from mooring.controllers.definitions import DEFINITIONS
from mooring.controllers.manager import ControllerManager, ManagerSettings
from mooring.kube import Client, NotFound, load_access
from tests.controllers.running import running

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"
PODS = "/api/v1/namespaces/default/pods"


class World:
    """Helpers that create and read objects."""

    def __init__(self, client: Client, kubeconfig: Path, cluster: EmbeddedCluster) -> None:
        self.client = client
        self.kubeconfig = kubeconfig
        self.cluster = cluster

    def without_admission(self) -> None:
        """Accept all objects that fit their schemas, as a cluster without the webhook does."""
        self.cluster.api.registry.reviews = None

    async def get(self, path: str) -> Any:
        try:
            return await self.client.send("GET", path)
        except NotFound:
            return None

    async def post(self, path: str, **document: Any) -> Any:
        return await self.client.send("POST", path, document)

    async def merge(self, path: str, patch: Any) -> Any:
        return await self.client.send("PATCH", path, patch, type="application/merge-patch+json")

    async def items(self, path: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.client.send("GET", path))["items"]
        return found

    async def queue(self, name: str, **spec: Any) -> None:
        await self.post(
            QUEUES,
            apiVersion="scheduling.volcano.sh/v1beta1",
            kind="Queue",
            metadata={"name": name},
            spec={"weight": 1, **spec},
        )

    async def state(self, name: str) -> str:
        found = await self.get(f"{QUEUES}/{name}")
        return "" if found is None else found.get("status", {}).get("state", "")

    async def group(self, name: str, *, queue: str = "default", phase: str = "Pending", **spec: Any) -> None:
        await self.post(
            GROUPS,
            apiVersion="scheduling.volcano.sh/v1beta1",
            kind="PodGroup",
            metadata={"name": name},
            spec={"minMember": 1, "queue": queue, **spec},
            status={"phase": phase},
        )

    async def command(self, action: str, path: str) -> None:
        """Create a command, as `vcctl` does."""
        target = await self.get(path)
        reference = {
            "apiVersion": target["apiVersion"],
            "kind": target["kind"],
            "name": target["metadata"]["name"],
            "uid": target["metadata"]["uid"],
            "controller": True,
        }
        await self.post(
            COMMANDS,
            apiVersion="bus.volcano.sh/v1alpha1",
            kind="Command",
            metadata={"generateName": f"{reference['name']}-{action.lower()}-"},
            action=action,
            target=reference,
        )

    async def pod(self, name: str, *, scheduler: str = "volcano", cpu: str = "1", **metadata: Any) -> Any:
        container = {"name": "app", "image": "app", "resources": {"requests": {"cpu": cpu}}}
        return await self.post(
            PODS,
            apiVersion="v1",
            kind="Pod",
            metadata={"name": name, **metadata},
            spec={"schedulerName": scheduler, "containers": [container], "terminationGracePeriodSeconds": 0},
        )


@contextlib.asynccontextmanager
async def a_world(folder: Path, *, nodes: int = 3) -> AsyncIterator[World]:
    cluster = EmbeddedCluster(definitions=DEFINITIONS)
    await cluster.start()
    cluster.add_nodes(nodes, capacity={"cpu": "4", "memory": "32Gi", "pods": "110"})
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig())
    try:
        async with Client(load_access(kubeconfig=str(kubeconfig))) as client:
            yield World(client, kubeconfig, cluster)
    finally:
        await cluster.stop()


@contextlib.asynccontextmanager
async def controllers(world: World, **settings: Any) -> AsyncIterator[ControllerManager]:
    access = load_access(kubeconfig=str(world.kubeconfig))
    manager = ControllerManager(access, ManagerSettings(qps=0, **settings))
    async with running(manager.run(), manager.ready):
        yield manager
