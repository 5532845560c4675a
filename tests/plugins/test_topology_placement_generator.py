"""TopologyPlacementGenerator: the domains of a topology key."""

from __future__ import annotations

from mooring.framework import NativePodGroup, Nodes, Placements, Pod, Status
from mooring.plugins.topology_placement_generator import TopologyPlacementGenerator
from mooring.testing import make_node, make_pod
from tests.scheduler.test_pod_group_cycle import TOPOLOGY, World, group, in_rack, racks


def generator(world: World) -> TopologyPlacementGenerator:
    found = world.engine.profiles.runners["default-scheduler"].profile.plugins["TopologyPlacementGenerator"]
    assert isinstance(found, TopologyPlacementGenerator)
    return found


def generated(world: World, group: NativePodGroup, scheduled: list[Pod]) -> Placements | Status:
    return generator(world).generate_placements(group, scheduled, Nodes(world.engine.cache.table))


def test_one_placement_for_each_value() -> None:
    world = World(release=TOPOLOGY)
    racks(world, "1", "1", per_rack=2)
    world.add(make_node("elsewhere").obj(), make_node("r0-2").label(rack="r0").obj())
    found = generated(world, in_rack(1), [])
    assert not isinstance(found, Status)
    names = {name: [found.table.nodes[row].name for row in found.of(i)] for i, name in enumerate(found.names)}
    assert names == {"r0": ["r0-0", "r0-1", "r0-2"], "r1": ["r1-0", "r1-1"]}
    assert len(generated(world, group(1), [])) == 1  # type: ignore[arg-type]  # no Status


def test_scheduled_pods_determine_the_placement() -> None:
    world = World(release=TOPOLOGY)
    racks(world, "1", "1", "1")
    found = generated(world, in_rack(1), [make_pod("a").node("r1-0").obj()])
    assert not isinstance(found, Status)
    assert list(found.names) == ["r1"]
    prefix = "cannot determine domain for already scheduled pods: "
    two = generated(world, in_rack(1), [make_pod(f"p{i}").node(f"r{i}-0").obj() for i in range(2)])
    assert two == Status.error(f"{prefix}more than 1 domain found for pod group: r0, r1")
    gone = generated(world, in_rack(1), [make_pod("a").node("gone").obj()])
    text = 'getting node for pod default/a: nodeinfo not found for node name "gone"'
    assert gone == Status.error(f"{prefix}{text}")
