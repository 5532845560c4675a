"""Nodes: selectors over columns, and read-only views."""

from __future__ import annotations

import random

import pytest

from mooring.api.affinity import NodeSelectorRequirement, NodeSelectorTerm
from mooring.api.node_selectors import NodeMatcher, RequiredNodeAffinity, compile_node_term
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


def test_many_terms_match_as_one_by_one():
    nodes = Nodes(table_of(*(make_node(f"n{i}").label(number=str(i), rack=f"r{i % 3}").obj() for i in range(9))))
    rng = random.Random(0)
    for _ in range(200):
        terms = []
        for _ in range(rng.randrange(1, 40)):
            key = rng.choice(["number", "rack", "missing"])
            operator = rng.choice(["Gt", "Lt", "In", "NotIn", "Exists", "DoesNotExist"])
            values = {"Gt": ("4",), "Lt": ("-1",), "In": ("r1", "5"), "NotIn": ("r0", "3")}.get(operator, ())
            expressions = (NodeSelectorRequirement(key=key, operator=operator, values=values),) * rng.choice([1, 1, 40])
            terms.append(compile_node_term(NodeSelectorTerm(match_expressions=expressions)))
        expected = [any(term.matches(node.labels, node.name) for term in terms) for node in nodes]
        assert nodes.matches_any(terms).tolist() == expected
        required = RequiredNodeAffinity(None, NodeMatcher(tuple(terms)))
        assert nodes.matches(required).tolist() == expected


def test_labels_are_compared_as_numbers():
    texts = ["7", "+7", "-7", "007", "7.0", "", "x", "9" * 19, "1" * 30, str(2**63 - 1), str(2**63)]
    nodes = Nodes(table_of(*(make_node(f"n{i}").label(number=text).obj() for i, text in enumerate(texts))))
    for operator in ("Gt", "Lt"):
        for bound in ("0", "-8", "7", str(2**63 - 1)):
            requirement = NodeSelectorRequirement(key="number", operator=operator, values=(bound,))
            term = compile_node_term(NodeSelectorTerm(match_expressions=(requirement,)))
            expected = [term.matches(node.labels, node.name) for node in nodes]
            assert nodes.matches_term(term).tolist() == expected
