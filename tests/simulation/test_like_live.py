"""A simulation places the same pods as a scheduler with sessions and controllers on a cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from mooring.cluster import EmbeddedCluster
from mooring.config import load_config
from mooring.controllers.definitions import DEFINITIONS
from mooring.controllers.manager import ControllerThread, ManagerSettings
from mooring.controllers.reconciler import Settings
from mooring.kube import Client, load_access
from mooring.live import LiveScheduler
from mooring.live.batch.batch_settings import BatchSettings
from mooring.loading import Catalog, Setup
from mooring.simulation.run import simulate_manifests
from tests.simulation.manifests import given, node, pod
from tests.simulation.test_sessions import CONF, gang, job, queue, task
from tests.waiting import PATIENCE

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
"""
PATHS = {
    "Pod": "/api/v1/namespaces/default/pods",
    "PodGroup": "/apis/scheduling.volcano.sh/v1beta1/namespaces/default/podgroups",
    "Queue": "/apis/scheduling.volcano.sh/v1beta1/queues",
    "Job": "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs",
}
#: More than three nodes of four cores can run: a gang and a job have to wait, each for another reason.
OBJECTS: list[dict[str, Any]] = [
    queue("small", weight=1, capability={"cpu": "3"}),
    pod("plain", cpu="2"),
    pod("lonely", cpu="1", schedulerName="volcano"),
    *gang("fits", 4),
    *gang("wide", 9),
    job(
        "training", task("master", 1), task("worker", 2, dependsOn={"name": ["master"]}), queue="small", minAvailable=1
    ),
    job("stuck", task("part", 4), queue="small"),
]


async def placed_by_live(folder: Path, wanted: set[str]) -> set[str]:
    """Create the objects on a cluster; return the placed pods once these include the wanted ones."""
    cluster = EmbeddedCluster()
    await cluster.start()
    try:
        cluster.add_nodes(3, capacity={"cpu": "4", "memory": "8Gi", "pods": "110"})
        (folder / "kubeconfig").write_text(cluster.kubeconfig())
        (folder / "volcano-scheduler.conf").write_text(CONF)
        access = load_access(kubeconfig=str(folder / "kubeconfig"))
        batch = BatchSettings(scheduler_conf=folder / "volcano-scheduler.conf", schedule_period=0.1)
        async with Client(access) as client:
            for definition in DEFINITIONS:
                path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
                await client.call("POST", path, msgspec.json.encode(definition))
            live = LiveScheduler(load_config(CONFIG, source="test"), access, batch=batch)
            for each in OBJECTS:
                await client.call("POST", PATHS[each["kind"]], msgspec.json.encode(each))
            with ControllerThread(access, ManagerSettings(settings=Settings(), qps=0)):
                return await asyncio.wait_for(_settled(live, cluster, wanted), PATIENCE)
    finally:
        await cluster.stop()


async def _settled(live: LiveScheduler, cluster: EmbeddedCluster, wanted: set[str]) -> set[str]:
    def placed() -> set[str]:
        pods = [each.document for each in cluster.store.objects("pods")]
        return {each["metadata"]["name"] for each in pods if each["spec"].get("nodeName")}

    def considered() -> int:
        groups = [each.document for each in cluster.store.objects("podgroups.scheduling.volcano.sh")]
        waiting = [each for each in groups if each["metadata"]["name"].startswith(("wide", "stuck"))]
        return sum(bool(each.get("status", {}).get("phase")) for each in waiting)

    running = asyncio.create_task(live.run())
    try:
        while not (placed() >= wanted and considered() == 2):
            await asyncio.sleep(0.05)
        return placed()
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_gangs_queues_and_jobs_as_on_a_cluster(tmp_path: Path) -> None:
    nodes = [node(f"node-{number}", cpu="4") for number in range(3)]
    setup = Setup(load_config(CONFIG, source="test"), Catalog())
    outcome = await asyncio.to_thread(simulate_manifests, given(*nodes, CONF, *OBJECTS), setup)
    placed = {each.name for each in outcome.pods if each.node}
    assert {"plain", "lonely", "fits-0", "training-worker-1"} <= placed
    assert not placed & {"wide-0", "stuck-part-0"}
    assert await placed_by_live(tmp_path, placed) == placed
