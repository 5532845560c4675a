"""Placed pods in columns: dense entries, growth, and start times."""

from __future__ import annotations

import math

from mooring.columns.pod_columns import start_of
from mooring.columns.table import NodeTable
from mooring.testing import make_node, make_pod


def test_removing_a_pod_moves_the_last_one_into_its_place() -> None:
    table = NodeTable()
    table.add_node(make_node("n").obj())
    infos = [table.add_pod(make_pod(name).priority(i).node("n").obj()) for i, name in enumerate("abc")]
    columns = table.pod_columns
    table.remove_pod(infos[0].pod.uid)
    assert [info.name for info in columns.infos] == ["c", "b"]
    assert columns.priorities[:2].tolist() == [2, 1]
    assert [info.index for info in infos] == [-1, 1, 0]


def test_columns_grow_with_pods_and_resources() -> None:
    table = NodeTable()
    table.add_node(make_node("n").capacity({f"example.com/r{number}": "99" for number in range(12)}).obj())
    for number in range(300):
        table.add_pod(make_pod(f"p{number}").req({f"example.com/r{number % 12}": "2"}).node("n").obj())
    columns = table.pod_columns
    assert len(columns) == 300
    slots = [table.slots[f"example.com/r{number % 12}"] for number in range(300)]
    assert [int(columns.amounts[number, slot]) for number, slot in enumerate(slots)] == [2] * 300


def test_start_times() -> None:
    assert start_of(make_pod("p").obj()) == math.inf
    assert start_of(make_pod("p").started("1970-01-01T00:01:00Z").obj()) == 60
