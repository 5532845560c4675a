"""Nodes that lose a resource, or get it, after the columns of scores were derived."""

from __future__ import annotations

import pytest

from mooring.framework import Plugin
from mooring.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from mooring.testing import PluginHarness, make_node, make_pod

#: So many that a dozen of them is not most of them: those are written in bulk.
COUNT = 60


@pytest.mark.parametrize("plugin", [NodeResourcesFit, NodeResourcesBalancedAllocation])
@pytest.mark.parametrize("changed", [range(1), range(3, 15)], ids=["row by row", "in bulk"])
def test_a_resource_that_some_nodes_lose(plugin: type[Plugin], changed: range) -> None:
    nodes = {f"n{number}": {"cpu": "4", "memory": f"{4 + number}Gi"} for number in range(COUNT)}
    pods = [make_pod(f"p{number}").req(cpu="500m", memory="1Gi").node(f"n{number}").obj() for number in range(COUNT)]
    harness = PluginHarness(plugin, nodes=[make_node(name).capacity(nodes[name]).obj() for name in nodes], pods=pods)
    pod = make_pod("p").req(cpu="1", memory="1Gi").obj()
    for amounts in ({"cpu": "4", "memory": "8Gi"}, {"cpu": "4"}, {"memory": "8Gi"}, {"cpu": "4", "memory": "8Gi"}):
        for number in changed:
            nodes[f"n{number}"] = amounts
            harness.add(make_node(f"n{number}").capacity(amounts).obj())
        found = harness.run(pod)
        fresh = PluginHarness(plugin, nodes=[make_node(name).capacity(nodes[name]).obj() for name in nodes], pods=pods)
        assert found.scores == fresh.run(pod).scores
        assert found.scores == fresh.run(pod, form="per_node").scores
