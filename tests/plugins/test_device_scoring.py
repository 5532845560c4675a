"""DeviceScoring: the strategies, and the nodes and devices that pods get with them."""

from __future__ import annotations

from typing import Any

import pytest

from mooring import simulate
from mooring.config import ConfigError, load_config
from mooring.framework import ArgsError, CycleState, DeviceAllocation, NodeDevice
from mooring.framework.device_allocations import AllocationScorer
from mooring.plugins.device_scoring import DeviceScoring
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.testing import PluginHarness, make_node, make_pod
from tests.plugins.device_world import allocated, claim, exactly, gpu_class, gpu_slice

POD = make_pod("p").resource_claim("gpu", "c").obj()
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    score:
      enabled: [{name: DeviceScoring, weight: 100}]
  pluginConfig:
  - name: DeviceScoring
    args: %s
"""


def scoring(**args: Any) -> DeviceScoring:
    plugin = PluginHarness(DeviceScoring, args=args).plugin
    assert isinstance(plugin, DeviceScoring)
    return plugin


def allocation(devices: list[NodeDevice], before: str, after: str) -> DeviceAllocation:
    """An allocation; ``f`` stands for a free device, ``c`` for a chosen one."""
    return DeviceAllocation(
        devices=tuple(devices),
        chosen=tuple(place for place, each in enumerate(after) if each == "c"),
        free_before=tuple(each == "f" for each in before),
        free_after=tuple(each == "f" for each in after),
    )


def in_numa(*nodes: int) -> list[NodeDevice]:
    return [NodeDevice(driver="gpu", attributes={"numa": number}) for number in nodes]


@pytest.mark.parametrize(
    ("args", "before", "after", "score"),
    [
        ({"strategy": "MostAllocated"}, "f-ff", "c-ff", 50),
        ({"strategy": "LeastAllocated"}, "ffff", "cfff", 75),
        ({"attribute": "numa"}, "ffff", "cfff", 75),  # a pair of free devices is broken, of four
        ({"attribute": "numa"}, "-fff", "-cff", 100),
        ({"attribute": "numa"}, "ffff", "ccff", 100),
        ({"attribute": "numa"}, "ffff", "fccf", 50),
        ({"attribute": "other"}, "ffff", "cfff", 100),  # every device is a group
        ({"strategy": "Attribute", "attribute": "numa", "scores": {"0": 80, "1": 10}}, "ffff", "fcfc", 45),
        ({"strategy": "Attribute", "attribute": "numa", "scores": {"7": 80}}, "ffff", "cfff", 0),
    ],
)
def test_strategies(args: Any, before: str, after: str, score: float) -> None:
    found = allocation(in_numa(0, 0, 1, 1), before, after)
    plugin = scoring(**args)
    assert [plugin.score_allocation(POD, found) for _ in range(2)] == [score] * 2


def test_partitions_of_one_device_are_a_group() -> None:
    parts = [NodeDevice(driver="gpu", pool=0, counter_sets=(name,)) for name in ("a", "a", "a", "b", "b", "b")]
    whole = allocation(parts, "ffffff", "c-ffff")  # another partition of the device is not free any more
    broken = allocation(parts, "-f-fff", "-c-fff")
    assert scoring().score_allocation(POD, broken) > scoring().score_allocation(POD, whole)


@pytest.mark.parametrize("args", [{"strategy": "Best"}, {"strategy": "Attribute", "attribute": "model"}])
def test_invalid_arguments(args: Any) -> None:
    with pytest.raises(ArgsError, match="strategy"):
        scoring(**args)


@pytest.mark.parametrize(
    ("args", "field"),
    [
        ("{strategy: Best}", "strategy"),
        ("{strategy: Attribute, scores: {a: 1}}", "attribute"),
        ("{strategy: Attribute, attribute: model}", "scores"),
        ("{strategy: Attribute, attribute: model, scores: {a: 101}}", "scores[a]"),
    ],
)
def test_invalid_configurations(args: str, field: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(CONFIG % args, source="scheduler.yaml")
    assert f"args.{field}" in str(caught.value)


NUMA = [{"name": f"gpu-{n}", "attributes": {"numa": {"int": n // 2}}} for n in range(4)]
TAKEN = claim(name="o", status=allocated("gpu-3"))


def chosen(plugin: DeviceScoring | None, count: int = 1, *objects: Any, devices: Any = NUMA, **spec: Any) -> list[str]:
    """The devices of a pod on a node."""
    given = [claim(exactly(count)), gpu_class(), gpu_slice("n0", devices, **spec), *objects]
    world = PluginHarness(DynamicResources, nodes=[make_node("n0").obj()], objects=given)
    if plugin is not None:
        runner: Any = type("Runner", (), {})()
        runner.allocation_scorers = (AllocationScorer(plugin.name, 1, plugin.score_allocation),)
        world.plugin.handle.runner = runner
    state = CycleState()
    world.pre_filter(state, POD)
    world.filter(state, POD, world.nodes())
    assert isinstance(world.plugin, DynamicResources)
    found = world.plugin.allocations(state, POD, "n0")
    assert found is not None
    return [result.device for result in found[1][0].devices.results]


def test_fragmentation_takes_the_rest_of_a_domain() -> None:
    assert chosen(None, 1, TAKEN) == ["gpu-0"]
    assert chosen(scoring(attribute="numa"), 1, TAKEN) == ["gpu-2"]
    assert chosen(scoring(attribute="numa"), 2, TAKEN) == ["gpu-0", "gpu-1"]
    middle = claim(name="o", status=allocated("gpu-0"))
    assert chosen(None, 2, middle) == ["gpu-1", "gpu-2"]
    assert chosen(scoring(attribute="numa"), 2, middle) == ["gpu-2", "gpu-3"]


def test_attribute_chooses_devices() -> None:
    assert chosen(scoring(strategy="Attribute", attribute="numa", scores={"1": 100}), 2) == ["gpu-2", "gpu-3"]
    assert chosen(scoring(strategy="Attribute", attribute="none", scores={"1": 100}), 2) == ["gpu-0", "gpu-1"]


def manifests(*usage: int) -> list[Any]:
    """Nodes with four GPUs of which some are in use, and a pod."""
    made: list[Any] = [gpu_class(), claim(), make_pod("p").resource_claim("gpu", "c").req(cpu=1).obj()]
    for number, used in enumerate(usage):
        name = f"n{number}"
        made += [make_node(name).capacity(cpu="8", memory="8Gi", pods=10).obj(), gpu_slice(name, 4)]
        if used:
            devices = [f"gpu-{n}" for n in range(used)]
            made.append(claim(exactly(used), name=f"o{number}", status=allocated(*devices, pool=name)))
    return made


@pytest.mark.parametrize(("strategy", "node"), [("MostAllocated", "n1"), ("LeastAllocated", "n0")])
def test_nodes_are_scored(strategy: str, node: str) -> None:
    config = CONFIG % f"{{strategy: {strategy}}}"
    results = [simulate(manifests(0, 3, 1), config=config, seed=seed) for seed in range(3)]
    assert {result.placements[0]["node"] for result in results} == {node}
