"""NodeInfo and WhatIfNode: resources of one node, with and without hypothetical pods."""

from __future__ import annotations

from mooring.columns.node_info import NodeInfo, WhatIfNode
from mooring.columns.table import NodeTable
from mooring.testing import make_node, make_pod


def node_with_pods() -> NodeInfo:
    table = NodeTable()
    node = table.add_node(make_node("n").capacity(cpu="4", memory="8Gi", pods="10").label(zone="a").obj())
    table.add_pod(make_pod("a").req(cpu="1").port(80).node("n").obj())
    table.add_pod(make_pod("b").req(cpu="500m", memory="1Gi").port(80).node("n").obj())
    return node


def test_a_node_shows_the_state_of_the_table() -> None:
    node = node_with_pods()
    assert node.name == "n"
    assert node.labels["zone"] == "a"
    assert [info.name for info in node.pods] == ["a", "b"]
    assert (node.allocatable("cpu"), node.requested("cpu"), node.free("cpu")) == (4000, 1500, 2500)
    node.table.remove_pod(next(iter(node.pods)).pod.uid)
    assert (node.pod_count, node.requested("cpu")) == (1, 500)


def test_containers_without_requests_count_with_defaults() -> None:
    node = node_with_pods()
    assert node.requested("memory") == 1 << 30
    assert node.nonzero_requested("memory") == (1 << 30) + (200 << 20)
    assert node.nonzero_requested("example.com/gpu") == 0


def test_hypothetical_pods_do_not_change_the_node() -> None:
    node = node_with_pods()
    first, _ = node.pods
    what_if = WhatIfNode(node)
    what_if.remove_pod(first)
    assert (what_if.pod_count, what_if.requested("cpu")) == (1, 500)
    assert what_if.nonzero_requested("memory") == 1 << 30
    assert what_if.freed_ports == {("0.0.0.0", "TCP", 80)}
    assert (node.pod_count, node.requested("cpu")) == (2, 1500)
    what_if.add_pod(first)
    assert (what_if.pod_count, what_if.requested("cpu"), what_if.freed_ports) == (2, 1500, set())
    assert not what_if.added
    assert not what_if.removed
