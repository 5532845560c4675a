"""The controller manager: detection of Volcano's controllers, kinds that are served later, election, health."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from mooring.api.core import Namespace
from mooring.api.meta import format_time
from mooring.cluster import EmbeddedCluster
from mooring.controllers.definitions.installer import install
from mooring.controllers.manager import RECONCILERS, ControllerManager, ManagerSettings
from mooring.controllers.reconciler import Reconciler, Selection
from mooring.kube import Change, Client, ElectionSettings, load_access
from mooring.live import ServerSettings
from tests.controllers.running import running
from tests.controllers.world import QUEUES, World, controllers
from tests.waiting import PATIENCE, until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases"


async def test_controllers_pause_while_volcanos_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.controllers.manager._DETECTION_SECONDS", 0.1)
    await world.post("/api/v1/namespaces", apiVersion="v1", kind="Namespace", metadata={"name": "volcano-system"})
    spec = {
        "holderIdentity": "volcano-controllers-0",
        "leaseDurationSeconds": 2,
        "renewTime": format_time(time.time() + 3600, micros=True),
    }
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "vc-controller-manager"}}
    await world.post(LEASES, **lease, spec=spec)
    async with controllers(world) as manager:
        assert "volcano-controllers-0" in manager.detected_volcano
        assert await world.get(f"{QUEUES}/default") is None
        expired = format_time(time.time() - 3600, micros=True)
        await world.merge(f"{LEASES}/vc-controller-manager", {"spec": {"renewTime": expired}})
        await until(lambda: world.state("default"))
        assert not manager.detected_volcano


class Echo(Reconciler):
    """Records the namespaces that it reconciles. Volcano has no such controller."""

    name = "echo"
    volcano = False
    seen: ClassVar[set[str]] = set()

    def selections(self) -> Iterable[Selection]:
        return (Selection.of(Namespace),)

    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        return (change.object.name,)

    async def reconcile(self, key: str) -> float | None:
        self.seen.add(key)
        return None


async def test_controllers_that_volcano_does_not_have_keep_running(world: World) -> None:
    await world.post("/api/v1/namespaces", apiVersion="v1", kind="Namespace", metadata={"name": "volcano-system"})
    moment = format_time(time.time() + 3600, micros=True)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "vc-controller-manager"}}
    await world.post(
        LEASES, **lease, spec={"holderIdentity": "theirs", "leaseDurationSeconds": 60, "renewTime": moment}
    )
    access = load_access(kubeconfig=str(world.kubeconfig))
    manager = ControllerManager(access, ManagerSettings(qps=0), reconcilers=(*RECONCILERS, Echo))
    async with running(manager.run(), manager.ready):
        await until(lambda: "default" in Echo.seen)
        assert "theirs" in manager.detected_volcano
        assert await world.get(f"{QUEUES}/default") is None


async def test_volcanos_deployment_is_detected(world: World) -> None:
    await world.post("/api/v1/namespaces", apiVersion="v1", kind="Namespace", metadata={"name": "volcano-system"})
    container = {"name": "c", "image": "i"}
    template = {"metadata": {"labels": {"app": "vc"}}, "spec": {"nodeName": "node-0", "containers": [container]}}
    path = "/apis/apps/v1/namespaces/volcano-system/deployments"
    await world.post(
        path,
        apiVersion="apps/v1",
        kind="Deployment",
        metadata={"name": "volcano-controllers"},
        spec={"replicas": 1, "selector": {"matchLabels": {"app": "vc"}}, "template": template},
    )

    async def available() -> bool:
        found = await world.get(f"{path}/volcano-controllers")
        return bool(found.get("status", {}).get("availableReplicas"))

    await until(available)
    async with controllers(world) as manager:
        assert "Deployment" in manager.detected_volcano


async def test_definitions_may_be_installed_later(tmp_path: Path) -> None:
    cluster = EmbeddedCluster()
    await cluster.start()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(cluster.kubeconfig())
    try:
        async with Client(load_access(kubeconfig=str(kubeconfig))) as client:
            world = World(client, kubeconfig, cluster)
            async with controllers(world):
                await install(client)
                await until(lambda: world.state("default"))
    finally:
        await cluster.stop()


async def test_only_the_leader_reconciles(world: World) -> None:
    def manager_of(name: str) -> ControllerManager:
        election = ElectionSettings(identity=name, name="mooring-controller", retry_period=0.3)
        settings = ManagerSettings(election=election, qps=0)
        return ControllerManager(load_access(kubeconfig=str(world.kubeconfig)), settings)

    first = manager_of("first")
    async with running(first.run(), first.ready):
        second, begun = manager_of("second"), asyncio.Event()
        begun.set()
        async with running(second.run(), begun):
            await until(lambda: world.state("default"))
            assert not second.ready.is_set()
            lease = await world.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/mooring-controller")
            assert lease["spec"]["holderIdentity"] == "first"


async def test_health_and_metrics_are_served(world: World) -> None:
    serve = ServerSettings(port=0, insecure=True)
    async with controllers(world, serve=serve) as manager:
        await until(lambda: world.state("default"))
        assert manager.server is not None
        url = manager.server.url

        def read(path: str) -> str:
            request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {world.cluster.token}"})
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                text: str = answer.read().decode()
                return text

        assert await asyncio.to_thread(read, "/readyz") == "ok"
        metrics = await asyncio.to_thread(read, "/metrics")
        assert "mooring_controller_acting 1.0" in metrics
        assert json.loads(await asyncio.to_thread(read, "/version"))
