"""Pools: which slices count, in which order, and when a pool cannot be used."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.device_world import gpu_slice, pools


def shown(*slices: Any, node: str = "n0") -> list[tuple[str, str, list[str]]]:
    return [
        (
            pool.id[1],
            "incomplete" if pool.is_incomplete else "invalid" if pool.is_invalid else "ok",
            [each[2] for each in pool.ids],
        )
        for pool in pools(*slices, node=node)
    ]


TWO = {"resourceSliceCount": 2}


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([gpu_slice("n1")], []),
        ([gpu_slice()], [("n0", "ok", ["gpu-0", "gpu-1"])]),
        (
            [gpu_slice("net", 1, allNodes=True), gpu_slice(devices=1)],
            [("n0", "ok", ["gpu-0"]), ("net", "ok", ["gpu-0"])],
        ),
        ([gpu_slice(pool=TWO)], [("n0", "incomplete", [])]),
        ([gpu_slice(pool=TWO), gpu_slice(name="again", pool=TWO)], [("n0", "invalid", [])]),
        (
            [
                gpu_slice(devices=[{"name": "b"}], name="z", pool=TWO),
                gpu_slice(devices=[{"name": "a"}], name="y", pool=TWO),
            ],
            [("n0", "ok", ["a", "b"])],
        ),
        (
            [gpu_slice(devices=1), gpu_slice(devices=[{"name": "new"}], name="new", pool={"generation": 2})],
            [("n0", "ok", ["new"])],
        ),
        # The new generation does not reach the node: the old one is obsolete.
        ([gpu_slice(pool=TWO), gpu_slice("n1", name="x", pool={"name": "n0", "generation": 2})], []),
        (
            [
                gpu_slice("a", [{"name": "d", "bindingConditions": ["ready"]}], nodeName="n0"),
                gpu_slice("b", 1, nodeName="n0"),
            ],
            [("b", "ok", ["gpu-0"]), ("a", "ok", ["d"])],
        ),
        (
            [gpu_slice(devices=[{"name": "d", "consumesCounters": [{"counterSet": "s", "counters": {}}]}])],
            [("n0", "invalid", [])],
        ),
    ],
)
def test_pools(slices: Any, expected: Any) -> None:
    assert shown(*slices) == expected


def test_devices_that_select_their_nodes() -> None:
    devices = [
        {"name": "here", "nodeName": "n0"},
        {"name": "there", "nodeName": "n1"},
        {"name": "all", "allNodes": True},
    ]
    (pool,) = pools(gpu_slice("p", devices, perDeviceNodeSelection=True))
    assert pool.on_node == (True, False, True)


def test_equal_nodes_have_equal_layouts() -> None:
    (one,) = pools(gpu_slice("n0"))
    (other,) = pools(gpu_slice("n1"), node="n1")
    (more,) = pools(gpu_slice("n2", 3), node="n2")
    assert one.layout == other.layout != more.layout
