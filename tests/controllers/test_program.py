"""The controllers as a program: they stay away from Volcano's, wait for their kinds, hold a lease, serve health."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import Any, ClassVar

from mooring.api.core import Namespace
from mooring.api.meta import format_time
from mooring.cluster import EmbeddedCluster
from mooring.controllers.install import install
from mooring.controllers.program import RECONCILERS, ControllerProgram, ProgramSettings
from mooring.controllers.reconciler import Reconciler, Selection
from mooring.kube import Change, Client, ElectionSettings, load_access
from mooring.live import ServerSettings
from tests.controllers.running import running
from tests.controllers.world import QUEUES, World, controllers, until

LEASES = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases"


async def test_ours_stay_away_while_volcanos_run(world: World) -> None:
    await world.post("/api/v1/namespaces", apiVersion="v1", kind="Namespace", metadata={"name": "volcano-system"})
    spec = {
        "holderIdentity": "volcano-controllers-0",
        "leaseDurationSeconds": 2,
        "renewTime": format_time(time.time() + 3, micros=True),
    }
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "vc-controller-manager"}}
    await world.post(LEASES, **lease, spec=spec)
    async with controllers(world) as program:
        assert "volcano-controllers-0" in program.standing_aside
        assert await world.get(f"{QUEUES}/default") is None
        # It runs out, and nobody renews it.
        await until(lambda: world.state("default"))
        assert not program.standing_aside


class Echo(Reconciler):
    """Notes which namespaces it was asked about; Volcano's controllers know nothing of them."""

    name = "echo"
    volcano = False
    seen: ClassVar[set[str]] = set()

    def selections(self) -> Iterable[Selection]:
        return (Selection.of(Namespace),)

    def concerns(self, change: Change[Any]) -> Iterable[str]:
        return (change.object.name,)

    async def reconcile(self, key: str) -> float | None:
        self.seen.add(key)
        return None


async def test_what_volcano_does_not_do_goes_on(world: World) -> None:
    await world.post("/api/v1/namespaces", apiVersion="v1", kind="Namespace", metadata={"name": "volcano-system"})
    moment = format_time(time.time() + 3600, micros=True)
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "vc-controller-manager"}}
    await world.post(
        LEASES, **lease, spec={"holderIdentity": "theirs", "leaseDurationSeconds": 60, "renewTime": moment}
    )
    access = load_access(kubeconfig=str(world.kubeconfig))
    program = ControllerProgram(access, ProgramSettings(qps=0), reconcilers=(*RECONCILERS, Echo))
    async with running(program.run(), program.ready):
        await until(lambda: "default" in Echo.seen)
        assert "theirs" in program.standing_aside
        assert await world.get(f"{QUEUES}/default") is None


async def test_a_deployment_of_theirs_counts_too(world: World) -> None:
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
    async with controllers(world) as program:
        assert "Deployment" in program.standing_aside


async def test_the_kinds_may_come_later(tmp_path: Path) -> None:
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


async def test_only_the_leader_acts_and_another_takes_over(world: World) -> None:
    def program(name: str) -> ControllerProgram:
        election = ElectionSettings(identity=name, name="mooring-controller", retry_period=0.3)
        settings = ProgramSettings(election=election, qps=0)
        return ControllerProgram(load_access(kubeconfig=str(world.kubeconfig)), settings)

    first = program("first")
    async with running(first.run(), first.ready):
        second, begun = program("second"), asyncio.Event()
        begun.set()
        async with running(second.run(), begun):
            await until(lambda: world.state("default"))
            assert not second.ready.is_set()
            lease = await world.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/mooring-controller")
            assert lease["spec"]["holderIdentity"] == "first"


async def test_health_and_metrics_are_served(world: World) -> None:
    serve = ServerSettings(port=0, insecure=True)
    async with controllers(world, serve=serve) as program:
        await until(lambda: world.state("default"))
        assert program.server is not None
        url = program.server.url

        def read(path: str) -> str:
            request = urllib.request.Request(url + path, headers={"Authorization": f"Bearer {world.cluster.token}"})
            with urllib.request.urlopen(request, timeout=10) as answer:
                text: str = answer.read().decode()
                return text

        assert await asyncio.to_thread(read, "/readyz") == "ok"
        metrics = await asyncio.to_thread(read, "/metrics")
        assert "mooring_controller_acting 1.0" in metrics
        assert json.loads(await asyncio.to_thread(read, "/version"))
