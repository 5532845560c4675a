"""The registry drops the least recently used counters."""

from __future__ import annotations

from mooring.api.label_selectors import compile_selector
from mooring.columns import counters as counters_module
from mooring.columns.terms import PodTerm
from mooring.framework import NodeTable
from mooring.testing import make_node, make_pod, selector


def web_counter(table: NodeTable, app: str = "web"):
    term = PodTerm(frozenset({"default"}), compile_selector(selector({"app": app})))
    return table.counters.counter((term,))


def zoned(*zones: str | None) -> NodeTable:
    table = NodeTable()
    for number, zone in enumerate(zones):
        node = make_node(f"n{number}")
        table.add_node((node if zone is None else node.zone(zone)).obj())
    return table


def test_counters_not_asked_about_for_long_make_room(monkeypatch):
    monkeypatch.setattr(counters_module, "_KEEP_COUNTERS", 4)
    table = zoned("a")
    table.add_pod(make_pod("p").label(app="a0").node("n0").obj())
    kept = [web_counter(table, f"a{number}") for number in range(4)]
    assert table.counters.renew(kept[0]) is kept[0]
    newest = web_counter(table, "a4")
    assert [counter.alive for counter in kept] == [True, False, False, True]
    assert newest.alive
    again = table.counters.renew(kept[1])
    assert again is not kept[1]
    assert again.alive
    assert again.terms == kept[1].terms
