"""Devices as amounts of extended resources in the scores of NodeResourcesFit."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest

from mooring.api.devices import DeviceClass, ResourceClaim, ResourceSlice
from mooring.plugins.dynamic_resources.device_state import DeviceState, device_state
from mooring.plugins.dynamic_resources.pools import SliceDevices
from mooring.plugins.node_resources import NodeResourcesFit
from mooring.plugins.node_resources.device_counts import DeviceCounts, device_counts
from mooring.testing import PluginHarness, make_node, make_pod, run_plugin
from tests.plugins.device_world import allocated, claim, gpu_class, gpu_slice

GPU = "example.com/gpu"
POD = make_pod("p").req({GPU: "1"}).obj()


def run(*objects: Any, nodes: int = 2) -> Any:
    strategy = {"type": "MostAllocated", "resources": [{"name": GPU, "weight": 1}]}
    return run_plugin(
        NodeResourcesFit,
        POD,
        nodes=[make_node(f"n{n}").obj() for n in range(nodes)],
        objects=objects,
        args={"scoringStrategy": strategy},
    )


@pytest.mark.parametrize(
    ("objects", "scores"),
    [
        ([], None),
        ([gpu_class(extendedResourceName=GPU), gpu_slice("n0", 4), gpu_slice("n1", 2)], {"n0": 25, "n1": 50}),
        (
            [
                gpu_class(extendedResourceName=GPU),
                gpu_slice("n0", 4),
                claim(status=allocated("gpu-0", "gpu-1")),
            ],
            {"n0": 75, "n1": 0},
        ),
        ([gpu_class("gpu", "false", extendedResourceName=GPU), gpu_slice("n0", 4)], {"n0": 0, "n1": 0}),
        ([gpu_class("gpu", "device.attributes['a'].b", extendedResourceName=GPU), gpu_slice("n0")], {"n0": 0, "n1": 0}),
        ([gpu_class(extendedResourceName=GPU), gpu_slice("net", 2, allNodes=True)], {"n0": 50, "n1": 50}),
    ],
)
def test_scores(objects: Any, scores: Any) -> None:
    """Without a class, no node has room; with one, devices decide, and DynamicResources finds them."""
    result = run(*objects)
    assert (result.raw_scores or None) == scores


STRATEGY = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": GPU, "weight": 1}]}}
PROVIDER = gpu_class("gpu", "'model' in device.attributes['gpu.example.com']", extendedResourceName=GPU)


def world(nodes: int, *objects: Any) -> PluginHarness:
    made = [make_node(f"n{n}").label({"zone": "ab"[n % 2]}).obj() for n in range(nodes)]
    return PluginHarness(NodeResourcesFit, nodes=made, objects=[PROVIDER, *objects], args=STRATEGY)


def gpus(count: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"name": f"gpu-{n}", "attributes": {"model": {"string": "x"}}, **fields} for n in range(count)]


def counts(counted: DeviceCounts) -> list[list[int]]:
    return [each.tolist() for each in counted.of([GPU])[GPU]]


def test_plugins_share_the_counts_so_that_a_reload_adds_no_listeners() -> None:
    first = world(1, gpu_slice("n0", gpus(2)))
    state = device_state(first.handle)

    def listeners() -> tuple[int, int, int]:
        return len(state.tracker.usage.listeners), len(state.index.listeners), len(state.classes._listeners)

    before = listeners()
    for _ in range(3):
        handle = first.handle.for_plugin("NodeResourcesFit")
        NodeResourcesFit(STRATEGY, handle)
        handle.close()
    assert listeners() == before
    assert counts(device_counts(first.handle)) == [[2], [0]]


def test_only_the_nodes_whose_devices_changed_are_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = world(40, *(gpu_slice(f"n{n}", gpus(2)) for n in range(40)))
    counted, index = device_counts(cluster.handle), device_state(cluster.handle).index
    counts(counted)
    asked: list[str] = []
    original = index.slices_of_node

    def slices_of_node(name: str) -> Iterable[SliceDevices]:
        asked.append(name)
        return original(name)

    monkeypatch.setattr(index, "slices_of_node", slices_of_node)
    counts(counted)
    assert asked == []
    cluster.add(claim(status=allocated("gpu-0", pool="n7")))
    assert counts(counted)[1][7] == 1
    assert asked == ["n7"]


def test_a_replaced_class_is_counted_again() -> None:
    cluster = world(1, gpu_slice("n0", gpus(2)))
    assert counts(device_counts(cluster.handle)) == [[2], [0]]
    cluster.handle.objects.lister(DeviceClass).remove("gpu")
    cluster.add(gpu_class("gpu", "false", extendedResourceName=GPU))
    assert counts(device_counts(cluster.handle)) == [[0], [0]]


@pytest.mark.parametrize("seed", range(6))
def test_the_counts_are_the_same_as_those_from_scratch(seed: int) -> None:
    rng = random.Random(seed)
    cluster = world(4)
    store, table = cluster.handle.objects, cluster.table
    counted = device_counts(cluster.handle)
    for step in range(60):
        node = f"n{rng.randrange(6)}"
        match rng.randrange(7):
            case 0:
                cluster.add(make_node(node).label({"zone": rng.choice("ab")}).obj())
            case 1 if len(table) > 1:
                table.remove_node(table.nodes[rng.randrange(len(table))].name)
            case 2:
                plain = rng.choice(([], [{"name": "other"}]))
                cluster.add(gpu_slice(node, gpus(rng.randrange(1, 4)) + plain))
            case 3:
                terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [rng.choice("ab")]}]}]
                selected = {"nodeSelector": {"nodeSelectorTerms": terms}}
                cluster.add(gpu_slice("net", gpus(2), **rng.choice((selected, {"allNodes": True}))))
            case 4:
                each = rng.choice(({"nodeName": node}, {"allNodes": True}))
                cluster.add(gpu_slice("each", gpus(2, **each), perDeviceNodeSelection=True))
            case 5:
                store.lister(ResourceSlice).remove(f"slice-{rng.choice([node, 'net', 'each'])}")
            case _:
                status = allocated(f"gpu-{rng.randrange(3)}", pool=rng.choice([node, "net", "each"]))
                store.lister(ResourceClaim).remove(f"c{step % 5}", "default")  # a changed allocation is ignored
                cluster.add(claim(name=f"c{step % 5}", status=status if rng.random() < 0.7 else {}))
        assert counts(counted) == counts(DeviceCounts(table, DeviceState(cluster.handle))), step
