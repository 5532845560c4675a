"""Sessions on an embedded cluster that share GPUs and NPUs: annotations, locks, and names of the ConfigMap."""

from __future__ import annotations

from tests.live.batch.batch_world import PODS, World, has_reason, reached, scheduling
from tests.live.volcano_crds import POD_GROUP, QUEUE
from tests.waiting import until


async def test_pods_get_their_gpus_with_the_bind(world: World) -> None:
    await world.define(QUEUE, POD_GROUP)
    world.write(", {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}")
    amounts = {f"volcano.sh/vgpu-{name}": amount for name, amount in (("number", 4), ("memory", 8000), ("cores", 100))}
    offered = {"capacity": amounts, "allocatable": amounts}
    register = {"volcano.sh/node-vgpu-register": "GPU-0,4,8000,NVIDIA-T4,true,hami-core:"}
    for path, patch in (("", {"metadata": {"annotations": register}}), ("/status", {"status": offered})):
        await world.client.send("PATCH", f"/api/v1/nodes/node-1{path}", patch, type="application/merge-patch+json")
    await world.gang("g", 0, least=2)
    for number in range(3):
        container = {"name": "app", "image": "app", "resources": {"limits": {"volcano.sh/vgpu-memory": "4000"}}}
        metadata = {"name": f"g-task-{number}", "annotations": {"scheduling.k8s.io/group-name": "g"}}
        spec = {"schedulerName": "volcano", "containers": [container]}
        await world.ask("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    async with scheduling(world):
        await until(lambda: reached(world, "g", 2))
        await until(lambda: has_reason(world, "g-task-2", {"Unschedulable"}))
        assert await world.count("g") == 2, "the shares of pods whose bind is in flight count"
    for name in await world.placed("g"):
        annotations = (await world.ask("GET", f"{PODS}/{name}"))["metadata"]["annotations"]
        assert annotations["volcano.sh/vgpu-ids-new"] == "GPU-0,NVIDIA,4000,0:"
        assert (annotations["volcano.sh/bind-phase"], annotations["volcano.sh/vgpu-node"]) == ("allocating", "node-1")


async def test_a_node_with_npus_of_the_config_map_and_locked_vgpus(world: World) -> None:
    await world.define(QUEUE, POD_GROUP)
    arguments = "deviceshare.VGPUEnable: true, deviceshare.AscendHAMiVNPUEnable: true, deviceshare.NodeLockEnable: true"
    world.write(f", {{name: deviceshare, arguments: {{{arguments}}}}}")
    kind = "commonWord: Big, resourceName: x.example/npu, resourceMemoryName: x.example/memory, memoryCapacity: 100"
    text = f"nvidia: {{resourceCountName: x.example/gpu}}\nvnpus: [{{{kind}, memoryAllocatable: 90}}]"
    config = {"metadata": {"name": "volcano-vgpu-device-config"}, "data": {"device-config.yaml": text}}
    await world.ask("POST", "/api/v1/namespaces/kube-system/configmaps", config)
    amounts = {"x.example/npu": "4", "x.example/gpu": "4"}
    amounts |= {f"volcano.sh/vgpu-{name}": "8" for name in ("number", "memory", "cores")}
    register = {"volcano.sh/node-vgpu-register": "GPU-0,4,8000,NVIDIA-T4,true,hami-core:"}
    register["hami.io/node-register-Big"] = '[{"id": "NPU-0", "count": 4, "devmem": 90}]'
    offered = {"capacity": amounts, "allocatable": amounts}
    for path, patch in (("", {"metadata": {"annotations": register}}), ("/status", {"status": offered})):
        await world.client.send("PATCH", f"/api/v1/nodes/node-1{path}", patch, type="application/merge-patch+json")
    for name, resource in (("a-npu", "x.example/memory"), ("b-gpu", "x.example/gpu"), ("c-gpu", "x.example/gpu")):
        await world.gang(name, 0, least=1)
        container = {"name": "app", "image": "app", "resources": {"limits": {resource: "1"}}}
        metadata = {"name": f"{name}-task-0", "annotations": {"scheduling.k8s.io/group-name": name}}
        spec = {"schedulerName": "volcano", "containers": [container]}
        await world.ask("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    async def both() -> bool:
        return len(await world.placed("a-npu")) == 1 and len(await world.placed("b-gpu")) == 1

    async with scheduling(world):
        await until(both)
        await until(lambda: has_reason(world, "c-gpu-task-0", {"Unschedulable", "Schedulable"}))
    annotations = (await world.ask("GET", f"{PODS}/a-npu-task-0"))["metadata"]["annotations"]
    assert annotations["hami.io/Big-devices-allocated"] == "NPU-0,Big,90,0:;"
    node = (await world.ask("GET", "/api/v1/nodes/node-1"))["metadata"]["annotations"]
    assert "hamivgpu" in node, "the device plugin removes the lock"
    assert "Big" not in node
    assert not await world.placed("c-gpu"), "the node is locked"
