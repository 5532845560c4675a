"""Sessions on an embedded cluster that place pods by the NUMA topologies that nodes report."""

from __future__ import annotations

from typing import Any

from mooring.controllers.definitions.nodes import NUMA_TOPOLOGY
from tests.live.batch.batch_world import PODS, World, has_reason, reached, scheduling
from tests.live.volcano_crds import POD_GROUP, QUEUE
from tests.waiting import until

TOPOLOGIES = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies"
GUARANTEED = {"cpu": "2", "memory": "1Gi"}


def topology(node: str, free: str) -> dict[str, Any]:
    """Two NUMA nodes with two CPUs each, of which some are free."""
    cpus = {str(number): {"numa": number // 2, "socket": 0, "core": number} for number in range(4)}
    policies = {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "single-numa-node"}
    spec = {"policies": policies, "numares": {"cpu": {"allocatable": free, "capacity": 4}}, "cpuDetail": cpus}
    return {
        "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
        "kind": "Numatopology",
        "metadata": {"name": node},
        "spec": spec,
    }


async def add_pod(world: World, name: str) -> None:
    annotations = {"scheduling.k8s.io/group-name": "g", "volcano.sh/numa-topology-policy": "single-numa-node"}
    container = {"name": "app", "image": "app", "resources": {"requests": GUARANTEED, "limits": GUARANTEED}}
    spec = {"schedulerName": "volcano", "containers": [container]}
    metadata = {"name": name, "annotations": annotations}
    await world.ask("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})


async def test_pods_go_where_one_numa_node_has_enough_cpus(world: World) -> None:
    await world.define(QUEUE, POD_GROUP, NUMA_TOPOLOGY)
    world.write(", {name: numa-aware}")
    await world.ask("POST", TOPOLOGIES, topology("node-0", "0,2"))
    await world.ask("POST", TOPOLOGIES, topology("node-1", "1-3"))
    await world.gang("g", 0, least=1)
    await add_pod(world, "g-task-0")
    async with scheduling(world):
        await until(lambda: reached(world, "g", 1))
        assert await world.placed("g") == {"g-task-0": "node-1"}
        await add_pod(world, "g-task-1")
        await until(lambda: has_reason(world, "g-task-1", {"Unschedulable"}))
        assert await world.count("g") == 1, "the CPUs of the first pod are taken until the next report"
        patch = {"spec": {"numares": {"cpu": {"allocatable": "0-3", "capacity": 4}}}}
        await world.client.send("PATCH", f"{TOPOLOGIES}/node-0", patch, type="application/merge-patch+json")
        await until(lambda: reached(world, "g", 2))
        assert (await world.placed("g"))["g-task-1"] == "node-0"
