"""DeviceIndex: equal signatures mean equal answers, whatever changes."""

from __future__ import annotations

import random
from typing import Any

import pytest

from mooring.api.devices import ResourceClaim, ResourceSlice
from mooring.framework import Lister, NodeTable
from mooring.plugins.dynamic_resources.allocator import Search
from mooring.plugins.dynamic_resources.allocator_features import allocator_features
from mooring.plugins.dynamic_resources.claim_tracker import ClaimTracker
from mooring.plugins.dynamic_resources.device_index import DeviceIndex
from mooring.plugins.dynamic_resources.pools import DeviceContents, SliceDevices, gather_pools
from mooring.releases import V1_36, V1_37, Release, with_gates
from mooring.testing import make_node
from tests.plugins.device_world import allocated, claim, exactly, gpu_slice, plans


class World:
    def __init__(self, nodes: int = 4, release: Release = V1_36) -> None:
        self.release = release
        self.table = NodeTable()
        self.slices: Lister[ResourceSlice] = Lister(ResourceSlice)
        self.claims: Lister[ResourceClaim] = Lister(ResourceClaim)
        self.tracker = ClaimTracker(self.claims)
        self.index = DeviceIndex(self.table, self.slices, self.tracker.usage, release)
        for number in range(nodes):
            self.table.add_node(make_node(f"n{number}").label(zone="ab"[number % 2]).obj())

    def signatures(self) -> dict[str, int]:
        self.index.refresh()
        return {node.name: int(self.index.column[row]) for row, node in enumerate(self.table.nodes)}

    def groups(self) -> set[frozenset[str]]:
        found = self.signatures()
        return {frozenset(n for n, s in found.items() if s == each) for each in found.values()}


def test_equal_nodes_are_one_group() -> None:
    world = World()
    for node in ("n0", "n1", "n2"):
        world.slices.put(gpu_slice(node))
    assert world.groups() == {frozenset({"n0", "n1", "n2"}), frozenset({"n3"})}
    world.claims.put(claim(status=allocated("gpu-1", pool="n1")))
    assert world.groups() == {frozenset({"n0", "n2"}), frozenset({"n1"}), frozenset({"n3"})}
    world.claims.remove("c", "default")
    assert world.groups() == {frozenset({"n0", "n1", "n2"}), frozenset({"n3"})}
    world.slices.remove("slice-n2")
    assert world.groups() == {frozenset({"n0", "n1"}), frozenset({"n2", "n3"})}


def test_counters_of_one_node_do_not_distinguish_the_others() -> None:
    world = World()
    sets = [{"name": "s", "counters": {"m": {"value": "1"}}}]
    world.slices.put(gpu_slice(name="c0", devices=[], sharedCounters=sets, pool={"resourceSliceCount": 2}))
    assert world.groups() == {frozenset({"n0", "n1", "n2", "n3"})}  # incomplete everywhere
    world.slices.put(gpu_slice(pool={"resourceSliceCount": 2}))
    assert world.groups() == {frozenset({"n0"}), frozenset({"n1", "n2", "n3"})}


def test_devices_that_need_a_feature_of_the_node() -> None:
    release, _ = with_gates(V1_37, {"DRAOptionalNodeOperations": True})
    world = World(2, release)
    for node in ("n0", "n1"):
        world.slices.put(gpu_slice(node, skipNodeOperations=["*"]))
    assert [pool.refused for pool in world.index.of_node("n0").pools] == []
    assert world.groups() == {frozenset({"n0", "n1"})}
    assert [pool.refused for pool in world.index.of_node("n0").pools] == [(True, True)]
    able = make_node("n1").features("DRAOptionalNodeOperations").obj()
    world.table.update_node(able)
    assert world.groups() == {frozenset({"n0"}), frozenset({"n1"})}
    assert [pool.refused for pool in world.index.of_node("n1").pools] == [()]


def test_nodes_come_and_go() -> None:
    world = World(2)
    world.slices.put(gpu_slice("n2"))
    before = world.signatures()
    world.table.add_node(make_node("n2").obj())
    assert world.signatures() == {**before, "n2": world.index.of_node("n2").signature}
    assert len(world.index.of_node("n2").pools) == 1
    world.table.remove_node("n0")
    assert world.signatures().keys() == {"n1", "n2"}


@pytest.mark.parametrize("release", [V1_36, V1_37], ids=lambda release: release.version)
def test_random_changes_agree_with_a_search_on_every_node(release: Release) -> None:
    """Nodes with the same signature have the same solution, and the pools are those of the reference."""
    for seed in range(12):
        rng = random.Random(seed)
        world = World(5, release)
        for step in range(25):
            change(world, rng, step)
            world.index.refresh()
            check(world)


def change(world: World, rng: random.Random, step: int) -> None:
    node = f"n{rng.randrange(5)}"
    chosen: dict[str, Any]
    match rng.randrange(7):
        case 6:  # a pool of two slices: the counters, perhaps of another node, and the devices
            pool = {"name": "parts", "resourceSliceCount": 2}
            chosen = rng.choice([{"allNodes": True}, {"nodeName": node}])
            if rng.random() < 0.5:
                counters = [{"name": "set", "counters": {"c": {"value": "4"}}}]
                world.slices.put(gpu_slice(node, [], name="counters", sharedCounters=counters, pool=pool, **chosen))
            else:
                consumes = [{"counterSet": "set", "counters": {"c": {"value": "3"}}}]
                parts = [{"name": f"gpu-{n}", "consumesCounters": consumes} for n in range(2)]
                world.slices.put(gpu_slice(node, parts, name="parts", pool=pool, **chosen))
        case 0 | 1:
            world.slices.put(gpu_slice(node, rng.randrange(1, 4), pool={"resourceSliceCount": rng.choice([1, 1, 2])}))
        case 2:
            term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": [rng.choice("ab")]}]}
            chosen = rng.choice([{"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": [term]}}])
            world.slices.put(gpu_slice("net", 2, name="shared", **chosen))
        case 3:
            used = rng.choice([node, "net", "parts"])
            world.claims.put(claim(name=f"c{step % 5}", status=allocated("gpu-0", pool=used)))
        case 4:
            world.claims.remove(f"c{rng.randrange(5)}", "default")
        case 5:
            world.slices.remove(rng.choice([f"slice-{node}", "shared", "counters", "parts"]))


def check(world: World) -> None:
    contents = DeviceContents(allocator_features(V1_37))
    made = [SliceDevices(each, contents, world.release) for each in world.slices.list()]
    (plan,) = plans(claim(exactly(2)))
    outcomes: dict[int, Any] = {}
    for row, node in enumerate(world.table.nodes):
        labels = node.node.labels

        def matches(selector: Any, labels: Any = labels) -> bool:
            (term,) = selector.node_selector_terms
            return labels.get("zone") in term.match_expressions[0].values

        reference = gather_pools(node.name, made, lambda pool: [each for each in made if each.pool == pool], matches)
        pools = world.index.of_node(node.name).pools
        # Pools without devices on the node are left out if nothing is wrong with them.
        assert [(p.id, p.is_incomplete, p.is_invalid, p.ids) for p in pools if p.ids or not p.is_usable] == [
            (p.id, p.is_incomplete, p.is_invalid, p.ids) for p in reference if p.ids or not p.is_usable
        ]
        solution = Search([plan], pools, world.tracker.usage.view, lambda: None).run()
        places = solution and [each.position for each in solution[0].devices]
        assert outcomes.setdefault(int(world.index.column[row]), places) == places


def test_contents_that_no_slice_has_any_more_are_dropped() -> None:
    world = World(1)
    for number in range(20):
        attributes = {"serial": {"string": f"number-{number}"}}
        world.slices.put(gpu_slice("n0", devices=[{"name": "gpu-0", "attributes": attributes}]))
        world.signatures()
    contents = world.index._contents
    assert len(contents) <= 2
    world.slices.remove("slice-n0")
    world.signatures()
    assert len(contents) == 0
