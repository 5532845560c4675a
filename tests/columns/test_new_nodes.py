"""Nodes of a list that are added together make the same table as one by one."""

from __future__ import annotations

import random

import msgspec
import pytest

from mooring.api.node import Node
from mooring.columns.new_nodes import add_new_nodes
from mooring.columns.table import NodeTable
from mooring.columns.table_check import differences
from mooring.testing import make_node, make_pod


def random_node(rng: random.Random, name: str) -> Node:
    amounts = {"cpu": f"{rng.randint(1, 3)}", "memory": "8Gi", "pods": rng.choice(["20", "110"]), "unknown": "1"}
    if rng.random() < 0.3:
        amounts[rng.choice(["example.com/gpu", "example.com/fpga", "hugepages-2Mi"])] = "8"
    node = make_node(name).capacity(amounts)
    if rng.random() < 0.7:
        node = node.label(zone=rng.choice("abc"))
    if rng.random() < 0.1:
        node = node.label(rack="r")
    if rng.random() < 0.2:
        node = node.taint("dedicated", rng.choice("xy"))
    if rng.random() < 0.2:
        node = node.image(f"img{rng.randint(1, 3)}", size=1000)
    found = node.obj()
    spec = msgspec.structs.replace(found.spec, unschedulable=rng.random() < 0.1)
    features = ("B", "A") if rng.random() < 0.1 else ()
    return msgspec.structs.replace(
        found, spec=spec, status=msgspec.structs.replace(found.status, declared_features=features)
    )


@pytest.mark.parametrize("seed", range(10))
def test_the_table_is_the_same_as_if_they_were_added_one_by_one(seed: int) -> None:
    rng = random.Random(seed)
    first = [random_node(rng, f"n{number}") for number in range(rng.choice([0, 10, 60]))]
    listed = [random_node(rng, f"n{number}") for number in range(len(first), len(first) + rng.choice([1, 30, 200]))]
    pods = [
        make_pod(f"p{number}").req({"cpu": "100m", "example.com/gpu": "1"}).node(f"n{rng.randint(0, 300)}").obj()
        for number in range(40)
    ]
    tables = NodeTable(), NodeTable()
    for table in tables:
        for node in first:
            table.add_node(node)
        if first and seed % 2:
            table.remove_node("n1")
            table.remove_node(f"n{len(first) - 1}")
        kept = [table.label("zone"), table.label("rack")]  # of keys that may have no node yet
        for pod in pods:  # the nodes of some are still to come
            table.add_pod(pod)
        cursor = table.cursor()
        cursor.advance()
        if table is tables[0]:
            for node in listed:
                table.add_node(node)
        else:
            assert add_new_nodes(table, listed) == []
        assert cursor.changed(len(table)) is None  # rows were added
        assert table.check() == []
        assert [table.label("zone"), table.label("rack")] == kept
    one_by_one, together = tables
    assert differences(together, one_by_one) == []
    assert together.row_of == one_by_one.row_of
    assert [each.sequence for each in together.nodes] == [each.sequence for each in one_by_one.nodes]
    assert together.nodes_version == one_by_one.nodes_version


def test_nodes_that_are_present_are_returned() -> None:
    table = NodeTable()
    table.add_node(make_node("a").capacity(cpu="1").obj())
    again, new = make_node("a").capacity(cpu="2").obj(), make_node("b").capacity(cpu="2").obj()
    assert add_new_nodes(table, [again, new, new]) == [again, new]
    assert (table.row_of, table.amount(0, "cpu", "allocatable")) == ({"a": 0, "b": 1}, 1000)
    assert add_new_nodes(table, []) == []
    assert table.check() == []


def test_none_is_added_if_one_is_invalid() -> None:
    table = NodeTable()
    nodes = [make_node(f"n{number}").capacity(cpu="1").obj() for number in range(100)]
    with pytest.raises(ValueError, match="many"):
        add_new_nodes(table, [*nodes, make_node("broken").capacity(cpu="many").obj()])
    assert (len(table), table.row_of, table.cordoned) == (0, {}, 0)
    assert add_new_nodes(table, nodes) == []
    assert table.check() == []
