"""Amounts of nodes: derived from the table row by row, and copied for a session."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.api.codec import decode_object
from mooring.api.node import Node
from mooring.batch.node_amounts import NodeAmounts, SessionAmounts, node_allocatable
from mooring.batch.resource import Resource
from mooring.batch.task import ALLOCATED, PIPELINED, RELEASING, Status
from mooring.columns.table import NodeTable
from mooring.testing import make_node, make_pod


def table_of(*cores: int) -> NodeTable:
    table = NodeTable()
    for number, count in enumerate(cores):
        table.add_node(make_node(f"n{number}").capacity(cpu=str(count), memory="8Gi", pods="10").obj())
    return table


def cpu(amounts: NodeAmounts, column: str) -> list[float]:
    amounts.refresh()
    row: list[float] = getattr(amounts, column)[0].tolist()
    return row[: len(amounts.offers)]


def test_only_changed_rows_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(4, 4, 4)
    amounts = NodeAmounts(table)
    amounts.refresh()
    nodes, pods = [], []
    monkeypatch.setattr(amounts, "_read_node", nodes.append)
    monkeypatch.setattr(amounts, "_read_pods", pods.append)
    amounts.refresh()
    table.add_pod(make_pod("p").req(cpu="1").uid("p").node("n1").obj())
    amounts.refresh()
    assert (nodes, pods) == ([], [1])


def test_rows_follow_nodes_that_are_removed_and_added() -> None:
    table = table_of(1, 2, 3)
    table.add_pod(make_pod("p").req(cpu="1").uid("p").node("n2").obj())
    amounts = NodeAmounts(table)
    assert (cpu(amounts, "allocatable"), cpu(amounts, "used")) == ([1000, 2000, 3000], [0, 0, 1000])
    table.remove_node("n0")  # the last row moves to its place
    assert (cpu(amounts, "allocatable"), cpu(amounts, "used")) == ([3000, 2000], [1000, 0])
    for number in range(100):
        table.add_node(make_node(f"more{number}").capacity(cpu="7").obj())
    assert cpu(amounts, "allocatable") == [3000, 2000, *[7000] * 100]


def test_a_resource_that_appears_later_gets_a_slot() -> None:
    table = table_of(4)
    amounts = NodeAmounts(table)
    amounts.refresh()
    for number in range(10):
        table.add_pod(make_pod(f"p{number}").req({f"x/{number}": "2"}).uid(f"p{number}").node("n0").obj())
    amounts.refresh()
    assert [amounts.used[amounts.slots[f"x/{number}"], 0] for number in range(10)] == [2000.0] * 10


def test_assumed_pods_are_used_and_evicted_ones_are_releasing() -> None:
    table = table_of(4)
    for name in ("assumed", "evicted", "leaving"):
        table.add_pod(make_pod(name).req(cpu="1").uid(name).phase("Running").node("n0").obj())
    table.assumed.add("assumed")
    table.evicting.update(("assumed", "evicted"))
    amounts = NodeAmounts(table)
    assert (cpu(amounts, "used"), cpu(amounts, "releasing")) == ([3000], [1000])


def test_oversubscribed_amounts_are_added() -> None:
    node = decode_object(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": "n",
                "annotations": {
                    "volcano.sh/oversubscription-cpu": "500",
                    "volcano.sh/oversubscription-memory": "unknown",
                },
            },
            "status": {"allocatable": {"cpu": "1", "memory": "100", "pods": "5"}},
        }
    )
    assert isinstance(node, Node)
    offer = node_allocatable(node)
    assert (offer.cpu, offer.memory, offer.max_tasks) == (1500.0, 100.0, 5)


@pytest.mark.parametrize(
    ("status", "idle", "used", "releasing", "future"),
    [
        (ALLOCATED, 3000, 1000, 0, 3000),
        (RELEASING, 3000, 1000, 1000, 4000),
        (PIPELINED, 4000, 0, 0, 3000),
    ],
)
def test_a_session_counts_tasks_by_status(status: Status, idle: int, used: int, releasing: int, future: int) -> None:
    current = NodeAmounts(table_of(4, 4))
    current.refresh()
    amounts = SessionAmounts(current, 2)
    request = Resource(1000.0, 0.0, {"pods": 1.0})
    before = [each.copy() for each in (amounts.idle, amounts.used, amounts.releasing, amounts.future)]
    amounts.count(request, 1, status, 1)
    found = [each.item(0, 1) for each in (amounts.idle, amounts.used, amounts.releasing, amounts.future)]
    assert found == [idle, used, releasing, future]
    amounts.count(request, 1, status, -1)
    after = (amounts.idle, amounts.used, amounts.releasing, amounts.future)
    assert all(np.array_equal(left, right) for left, right in zip(before, after, strict=True))
    assert current.used.sum() == 0, "the session works on a copy"


def test_fits_ignores_differences_below_a_tenth() -> None:
    current = NodeAmounts(table_of(1, 2))
    current.refresh()
    amounts = SessionAmounts(current, 2)
    assert amounts.fits(Resource(1000.05), amounts.idle).tolist() == [True, True]
    assert amounts.fits(Resource(1000.2), amounts.idle).tolist() == [False, True]
    assert not amounts.fits_row(Resource(1000.2), amounts.idle, 0)
    assert amounts.fits(Resource(1000.2), amounts.idle, np.array([1])).tolist() == [True]


def test_the_total_is_the_sum_of_the_offers_in_order() -> None:
    """Amounts and the order of resources are those of adding one node after another, also after a removal."""
    offers = ({"cpu": "1", "b.io/x": "2"}, {"memory": "1Gi", "a.io/y": "0", "pods": "5"}, {"b.io/x": "1", "cpu": "3"})
    table = NodeTable()
    for number, offer in enumerate(offers):
        item = {"kind": "Node", "metadata": {"name": f"n{number}"}, "status": {"allocatable": offer}}
        node = decode_object({"apiVersion": "v1", **item})
        assert isinstance(node, Node)
        table.add_node(node)
    amounts = NodeAmounts(table)
    for removed in ("", "n0"):
        if removed:
            table.remove_node(removed)
        amounts.refresh()
        expected = Resource()
        for offer in amounts.offers:
            expected.add(offer)
        assert amounts.total().as_dict() == expected.as_dict()
        assert list(amounts.total().scalars or {}) == list(expected.scalars or {})
