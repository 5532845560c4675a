"""The registry drops the least recently used counters, keeps those of a pod that is replaced, and counts by selector."""

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


def test_a_selector_counts_pods_that_were_placed_before_and_after_it() -> None:
    table = zoned("a", "a")
    pods = {name: make_pod(name).label(app="web").node("n0") for name in ("before", "relabelled", "gone", "ending")}
    for pod in pods.values():
        table.add_pod(pod.obj())
    table.add_pod(make_pod("other").label(app="db").node("n0").obj())
    table.add_pod(pods["relabelled"].label(app="db", was="web").obj())
    table.remove_pod(pods["gone"].obj().uid)
    table.add_pod(pods["ending"].terminating().obj())
    counter, living = web_counter(table), web_counter(table, "late")
    assert counter.rows.items() == [(0, 2)]
    for name, app in (("after", "web"), ("late", "late")):
        table.add_pod(make_pod(name).label(app=app).node("n1").obj())
    assert counter.rows.items() == [(0, 2), (1, 1)]
    assert living.rows.items() == [(1, 1)]
    again = web_counter(table, "db")
    assert again.rows.items() == [(0, 2)]
    assert table.check() == []


def test_a_counter_of_living_pods_leaves_out_terminating_ones() -> None:
    table = zoned("a")
    for name in ("a", "b", "c"):
        table.add_pod(make_pod(name).label(app="web").node("n0").obj())
    table.add_pod(make_pod("b").label(app="web").node("n0").terminating().obj())
    term = PodTerm(frozenset({"default"}), compile_selector(selector({"app": "web"})))
    counter = table.counters.counter((term,), living_only=True)
    assert counter.rows.items() == [(0, 2)]
    table.add_pod(make_pod("c").label(app="web").node("n0").terminating().obj())
    assert table.remove_pod(make_pod("b").obj().uid) is not None
    assert counter.rows.items() == [(0, 1)]
    assert table.check() == []
