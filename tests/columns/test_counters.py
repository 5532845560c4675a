"""The registry drops the least recently used counters, and keeps those of a pod that is replaced."""

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


def test_a_new_version_of_a_pod_keeps_the_counters_of_its_terms():
    """The API server adds labels to a bound pod: another template, with the same terms."""
    table = zoned("a", "b")
    pod = make_pod("p").label(app="web").pod_anti_affinity("topology.kubernetes.io/zone", selector({"app": "web"}))
    assumed = pod.node("n0").obj()
    table.add_pod(assumed)
    (counter,) = table.counters.all_terms()
    bound = pod.label(app="web", zone="a").node("n0").obj()
    assert table.template(bound) is not table.template(assumed)
    table.add_pod(bound)
    assert table.counters.all_terms() == [counter]
    assert (counter.templates, counter.counts.total) == (1, 1)
    assert table.template(bound).affinity is table.template(assumed).affinity
    table.add_pod(pod.label(app="web", zone="b").node("n1").obj())
    assert table.counters.all_terms() == [counter]
    assert (counter.templates, counter.counts.total) == (1, 1)
    table.remove_pod(bound.uid)
    assert table.counters.all_terms() == []
    assert table.counters.carriers() == []
