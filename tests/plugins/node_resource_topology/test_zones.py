"""NUMA zones read from NodeResourceTopology objects."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.plugins.node_resource_topology.zones import read
from tests.plugins.topology_reports import POD, SINGLE, raw_report, report

# Reading reports


@pytest.mark.parametrize(
    ("attributes", "policies", "expected"),
    [
        ({}, (), (False, False, 8)),
        (SINGLE, (), (True, False, 8)),
        (POD, (), (True, True, 8)),
        ({}, ("SingleNUMANodePodLevel", "BestEffortPodLevel"), (True, True, 8)),
        ({}, ("SingleNUMANodeContainerLevel",), (True, False, 8)),
        ({}, ("RestrictedPodLevel",), (False, True, 8)),
        ({}, ("Restricted",), (False, False, 8)),
        ({"topologyManagerPolicy": "restricted"}, ("SingleNUMANodePodLevel",), (False, True, 8)),
        ({"topologyManagerPolicy": "nonsense"}, ("SingleNUMANodePodLevel",), (True, True, 8)),
        ({"topologyManagerScope": "container"}, ("SingleNUMANodePodLevel",), (True, False, 8)),
        ({"topologyManagerScope": "node"}, ("SingleNUMANodePodLevel",), (True, True, 8)),
        ({"topologyManagerMaxNUMANodes": "2"}, (), (False, False, 2)),
        ({"topologyManagerMaxNUMANodes": "1"}, (), (False, False, 8)),
        ({"topologyManagerMaxNUMANodes": "9999"}, (), (False, False, 1024)),
        ({"topologyManagerMaxNUMANodes": "many"}, (), (False, False, 8)),
    ],
)
def test_the_rules_of_a_kubelet(attributes: dict[str, str], policies: tuple[str, ...], expected: Any) -> None:
    assert read(report("n", attributes=attributes, policies=policies)).settings == expected


@pytest.mark.parametrize(
    ("name", "kind", "number"),
    [
        ("node-0", "Node", 0),
        ("node-64", "Node", 64),
        ("node-65", "Node", None),
        ("node-07", "Node", 7),
        ("numa-0", "Node", None),
        ("node-0-1", "Node", None),
        ("node--1", "Node", None),
        ("node-", "Node", None),
        ("node-99999999999999999999", "Node", None),
        ("node-0", "Socket", None),
    ],
)
def test_which_zones_count(name: str, kind: str, number: int | None) -> None:
    zones = read(raw_report("n", [{"name": name, "type": kind}])).zones
    assert [zone.number for zone in zones] == ([] if number is None else [number])


def test_costs_of_a_number_that_comes_twice() -> None:
    zones = [{"name": "node-0", "type": "Node", "costs": [{"name": "node-0", "value": value}]} for value in (10, 11)]
    assert [zone.costs for zone in read(raw_report("n", zones)).zones] == [{0: 11}, {0: 11}]


def test_what_is_no_quantity_is_not_there() -> None:
    assert read(report("n", {"cpu": "lots", "memory": "1"})).zones[0].left == {"memory": 10**9}
