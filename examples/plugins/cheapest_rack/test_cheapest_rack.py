from pathlib import Path

import numpy as np
import pytest

from mooring.framework import Code, NativePodGroup, PlacementProgress, ProposedPlacements
from mooring.loading import load_plugin
from mooring.testing import PluginHarness, make_node, make_pod

CheapestRack = load_plugin("CheapestRack", Path(__file__).with_name("cheapest_rack.py"))
GROUP = NativePodGroup()


def node(name, rack, price):
    return make_node(name).label({"example.com/rack": rack, "example.com/price": str(price)}).obj()


@pytest.fixture
def harness():
    racks = (("a1", "a", 4), ("b1", "b", 1), ("b2", "b", 3), ("c1", "c", 4))
    return PluginHarness(CheapestRack, nodes=[node(*each) for each in racks])


def test_each_rack_is_a_placement(harness):
    racks = harness.plugin.generate_placements(GROUP, [], harness.handle.nodes)
    assert {name: len(racks.of(index)) for index, name in enumerate(racks.names)} == {"a": 1, "b": 2, "c": 1}
    pinned = harness.plugin.generate_placements(GROUP, [make_pod("p").node("b2").obj()], harness.handle.nodes)
    assert pinned.names == ["b"]


def test_a_cluster_without_racks():
    harness = PluginHarness(CheapestRack, nodes=[make_node("n").obj()])
    text = "no node has the label example.com/rack"
    assert harness.plugin.generate_placements(GROUP, [], harness.handle.nodes) == text


def test_the_leader_has_to_have_a_node(harness):
    worker, leader = make_pod("worker").obj(), make_pod("leader").label(role="leader").obj()
    feasible = harness.plugin.placement_feasible
    assert feasible(GROUP, PlacementProgress(1, 1, [worker])).code is Code.WAIT
    assert feasible(GROUP, PlacementProgress(1, 0, [worker])) == "the leader fits in no such rack"
    assert feasible(GROUP, PlacementProgress(1, 1, [leader])) is None
    assert feasible(GROUP, PlacementProgress(3, 0, [worker])) is None  # the leader runs already


def test_cheap_racks_are_preferred(harness):
    racks = harness.plugin.generate_placements(GROUP, [], harness.handle.nodes)
    scores = harness.plugin.score_placements(ProposedPlacements(GROUP, [], racks, {}))
    assert scores.tolist() == [50, 100, 50]
    assert scores.dtype == np.int64
