"""Nodes: selectors over columns, and read-only views."""

from __future__ import annotations

import pytest

from mooring.framework import Nodes, NodeTable
from mooring.testing import make_node, make_pod


def table_of(*nodes) -> NodeTable:
    table = NodeTable()
    for node in nodes:
        table.add_node(node)
    return table


def test_columns_cannot_be_written():
    nodes = Nodes(table_of(make_node("a").capacity(cpu="1").obj()))
    with pytest.raises(ValueError, match="read-only"):
        nodes.allocatable("cpu")[0] = 5


@pytest.mark.parametrize(
    ("operator", "values", "expected"),
    [
        ("In", ("1", "7"), ["a"]),
        ("NotIn", ("1",), ["b", "c"]),
        ("Exists", (), ["a", "b"]),
        ("DoesNotExist", (), ["c"]),
        ("Gt", ("1",), []),
        ("Gt", ("0",), ["a"]),
        ("Lt", ("5",), ["a"]),
    ],
)
def test_node_selectors_over_columns(operator, values, expected):
    table = table_of(make_node("a").label(n="1").obj(), make_node("b").label(n="x").obj(), make_node("c").obj())
    pod = make_pod("p").node_affinity(("n", operator, *values)).obj()
    nodes = Nodes(table)
    mask = nodes.matches(table.template(pod).node_requirement)
    assert [name for name, ok in zip(nodes.names, mask, strict=True) if ok] == expected
