"""HyperNodes: members by name, pattern and label; tiers; changes of nodes; what is not a tree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.api.codec import decode_object
from mooring.api.hyper_nodes import HyperNode
from mooring.api.node import Node
from mooring.batch.hyper_nodes import CLUSTER, HyperNodeMembers, HyperNodes
from mooring.batch.kube_plugins import RELEASE
from mooring.columns.table import NodeTable
from tests.batch.cases import hyper_node, node

LABEL = {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": "r1"}}}}
EXPRESSION = {
    "type": "Node",
    "selector": {"labelMatch": {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1"]}]}},
}
PATTERN = {"type": "Node", "selector": {"regexMatch": {"pattern": "^n[01]$"}}}


def table_of(*nodes: Any) -> NodeTable:
    table = NodeTable(RELEASE)
    for each in nodes:
        made = decode_object(each)
        assert isinstance(made, Node)
        table.add_node(made)
    return table


def domains(*items: Any) -> list[HyperNode]:
    found = [decode_object(each) for each in items]
    assert all(isinstance(each, HyperNode) for each in found)
    return found  # type: ignore[return-value]  # checked above


def names(table: NodeTable, tree: HyperNodes, domain: str) -> list[str]:
    return sorted(table.nodes[row].name for row in tree.by_name[domain].rows.tolist())


def four() -> NodeTable:
    return table_of(*(node(f"n{number}", labels={"rack": f"r{number // 2}"}) for number in range(4)))


@pytest.mark.parametrize(
    ("member", "expected"),
    [
        (LABEL, ["n2", "n3"]),
        (EXPRESSION, ["n2", "n3"]),
        (PATTERN, ["n0", "n1"]),
        ({"type": "Node", "selector": {"regexMatch": {"pattern": "("}}}, []),
        ({"type": "Node", "selector": {"labelMatch": {}}}, []),
        ({"type": "Node", "selector": {"exactMatch": {"name": "n3"}}}, ["n3"]),
        ({"type": "Node", "selector": {"exactMatch": {"name": "gone"}}}, []),
    ],
)
def test_members(member: Any, expected: list[str]) -> None:
    table = four()
    tree = HyperNodeMembers(table).tree(domains(hyper_node("s", 1, members=[member])))
    assert names(table, tree, "s") == expected


def test_a_domain_contains_the_nodes_of_the_domains_within_it() -> None:
    table = four()
    items = domains(
        hyper_node("s0", 1, nodes=["n0", "n1"]),
        hyper_node("s1", 1, nodes=["n2"]),
        hyper_node("s2", 2, within=["s0", "s1"]),
    )
    tree = HyperNodeMembers(table).tree(items)
    assert names(table, tree, "s2") == ["n0", "n1", "n2"]
    assert names(table, tree, CLUSTER) == ["n0", "n1", "n2", "n3"]
    assert [each.name for each in tree.by_name["s0"].ancestors()] == ["s0", "s2", CLUSTER]
    assert tree.cluster.tier == 3
    common = tree.common(tree.by_name["s0"], tree.by_name["s1"])
    assert common is tree.by_name["s2"]
    assert tree.sums(np.arange(4.0)).tolist() == [sum(each.rows.tolist()) for each in tree.domains]
    smallest = tree.smallest(["n0", "n1"])
    assert smallest is tree.by_name["s0"]
    assert tree.smallest([]) is None


def test_members_follow_the_nodes() -> None:
    table = four()
    members = HyperNodeMembers(table)
    items = domains(hyper_node("s", 1, members=[LABEL]))
    first = members.tree(items)
    assert members.tree(items) is first
    made = decode_object(node("n9", labels={"rack": "r1"}))
    assert isinstance(made, Node)
    table.add_node(made)
    assert names(table, members.tree(items), "s") == ["n2", "n3", "n9"]
    table.remove_node("n2")
    assert names(table, members.tree(items), "s") == ["n3", "n9"]
    moved = decode_object(node("n9", labels={"rack": "r0"}))
    assert isinstance(moved, Node)
    table.add_node(moved)
    assert names(table, members.tree(items), "s") == ["n3"]


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (
            [hyper_node("s0", 1), hyper_node("a", 2, within=["s0"]), hyper_node("b", 2, within=["s0"])],
            "HyperNode s0 is a member of both a and b; remove it from one of them",
        ),
        ([hyper_node("a", 1, within=["b"]), hyper_node("b", 2, within=["a"])], "is a member of itself"),
    ],
)
def test_what_is_not_a_tree_is_reported_and_has_no_domains(items: list[Any], text: str) -> None:
    tree = HyperNodeMembers(four()).tree(domains(*items))
    assert text in tree.problem
    assert [each.name for each in tree.domains] == [CLUSTER]


def test_a_member_that_does_not_exist_yet_is_left_out() -> None:
    tree = HyperNodeMembers(four()).tree(domains(hyper_node("s", 2, nodes=["n0"], within=["later"])))
    assert tree.problem == ""
    assert [each.name for each in tree.domains] == ["s", CLUSTER]
