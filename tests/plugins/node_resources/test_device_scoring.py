"""Devices as amounts of extended resources in the scores of NodeResourcesFit."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.plugins.node_resources import NodeResourcesFit
from mooring.testing import make_node, make_pod, run_plugin
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
