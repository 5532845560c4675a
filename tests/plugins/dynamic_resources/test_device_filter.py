"""Filter: which nodes are searched, how often, and for how long."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.framework import CycleState
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.plugins.dynamic_resources.device_filter import _missing_resources
from mooring.plugins.dynamic_resources.pod_devices import DEVICES
from mooring.testing import PluginHarness, make_node, make_pod
from tests.plugins.device_world import claim, gpu_class, gpu_slice
from tests.plugins.dynamic_resources.test_plugin import CLAIMING, NODES, harness


def test_a_pod_may_request_more_extended_resources_than_an_integer_has_bits() -> None:
    count = 70
    names = [f"example.com/r{n}" for n in range(count)]
    classes = [gpu_class(f"class-{n}", extendedResourceName=name) for n, name in enumerate(names)]
    # Each node has a device plugin for one resource, and devices for all but one.
    nodes = [make_node(f"n{n}").capacity({names[n]: 1, "pods": 10}).obj() for n in (0, count - 1)]
    slices = [gpu_slice(node.name, count - 1) for node in nodes]
    pod = make_pod("p").req(dict.fromkeys(names, 1)).obj()
    world = harness(*classes, *slices, nodes=nodes)
    served = _missing_resources(names, world.nodes())
    assert {each: np.flatnonzero(mask).tolist() for each, mask in served} == {
        tuple(names[1:]): [0],
        tuple(names[:-1]): [1],
    }
    state = CycleState()
    assert world.pre_filter(state, pod)[0].is_success
    world.filter(state, pod, world.nodes())
    assert sorted(map(len, state.read(DEVICES).plans)) == [count - 1, count - 1]


def test_equal_nodes_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [make_node(f"n{n}").obj() for n in range(20)]
    world = harness(claim(), gpu_class(), *(gpu_slice(f"n{n}") for n in range(20)), nodes=nodes)
    searches = []
    original = world.plugin._state.search
    monkeypatch.setattr(
        world.plugin._state,
        "search",
        lambda *given: searches.append(given) or original(*given),  # type: ignore[func-returns-value]
    )
    for _ in range(3):
        state = CycleState()
        world.pre_filter(state, CLAIMING)
        assert all(status.is_success for status in world.filter(state, CLAIMING, world.nodes()).values())
    assert len(searches) == 1


def test_timeouts_are_durations() -> None:
    args = {"filterTimeout": "1m30s", "bindingTimeout": "1h0m0.5s"}
    plugin = PluginHarness(DynamicResources, nodes=NODES, args=args).plugin
    assert (plugin._filter_timeout, plugin._binding_timeout) == (90.0, 3600.5)
