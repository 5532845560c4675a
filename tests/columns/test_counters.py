"""Counts, regions, terms and counters on their own; the plugins' random tests compare them with recounting."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.api.label_selectors import compile_selector
from mooring.columns import counters as counters_module
from mooring.columns.counts import Counts
from mooring.columns.regions import Regions
from mooring.columns.terms import PodTerm
from mooring.framework import NodeTable
from mooring.testing import make_node, make_pod, selector

CODES = np.array([0, 1, 0, -1, 1, 2] * 20, dtype=np.int32)


@pytest.mark.parametrize("size", [5, 100], ids=["sparse", "dense"])
def test_counts_regrouped_by_other_codes(size):
    counts = Counts()
    for code in range(size):
        counts.add(code, code + 1)
    within = np.arange(len(CODES)) % 2 == 0
    for mask in (None, within):
        expected: dict[int, int] = {}
        for code in range(size):
            if CODES[code] >= 0 and (mask is None or mask[code]):
                expected[int(CODES[code])] = expected.get(int(CODES[code]), 0) + code + 1
        grouped = counts.grouped(CODES, mask)
        assert dict(grouped.items()) == expected
        assert grouped.total == sum(expected.values())
        grouped.add(70, 1)  # goes on as any other
        assert grouped.get(70) == 1


@pytest.mark.parametrize("size", [5, 100], ids=["sparse", "dense"])
def test_counts_added_to_a_vector(size):
    counts, vector = Counts(), np.ones(size + 1, dtype=np.int64)
    for code in range(size):
        counts.add(code, code)
    counts.add_to(vector, -2)
    assert vector.tolist() == [*(1 - 2 * code for code in range(size)), 1]


NOT_RED = compile_selector(selector({}, ("team", "NotIn", "red")))
RED = compile_selector(selector({"team": "red"}))
NAMESPACES = {"red": {"team": "red"}, "blue": {"team": "blue"}}


@pytest.mark.parametrize(
    ("chooser", "namespace", "incoming", "existing"),
    [
        (RED, "red", True, True),
        (RED, "blue", False, False),
        (RED, "unknown", False, False),
        (NOT_RED, "blue", True, True),
        (NOT_RED, "red", True, False),  # kube-scheduler also asks an incoming pod's selector about no labels at all
        (NOT_RED, "unknown", True, True),
        (compile_selector(selector()), "unknown", True, True),
        (compile_selector(None), "red", False, False),
        (RED, "listed", True, True),
    ],
)
def test_which_namespaces_a_term_covers(chooser, namespace, incoming, existing):
    term = PodTerm(frozenset({"listed"}), compile_selector(selector()), chooser)
    assert term.covers_namespace(namespace, NAMESPACES, must_exist=True) is incoming
    assert term.covers_namespace(namespace, NAMESPACES, must_exist=False) is existing


def web_counter(table: NodeTable, app: str = "web"):
    term = PodTerm(frozenset({"default"}), compile_selector(selector({"app": app})))
    return table.counters.counter((term,))


def zoned(*zones: str | None) -> NodeTable:
    table = NodeTable()
    for number, zone in enumerate(zones):
        node = make_node(f"n{number}")
        table.add_node((node if zone is None else node.zone(zone)).obj())
    return table


ZONE = "topology.kubernetes.io/zone"


def by_zone(table, counter, region):
    values = table.label(ZONE).values
    return {values[code]: count for code, count in counter.by_domain(ZONE, region.refresh()).items()}


def test_a_region_follows_its_nodes():
    table = zoned("a", "b", None)
    web = make_pod("p").label(app="web")
    for number in range(3):
        table.add_pod(web.named(f"p{number}").node(f"n{number}").obj())
    pod = make_pod("q").node_affinity(("disk", "NotIn", "hdd")).obj()
    region = Regions(table).of(frozenset({ZONE}), table.template(pod).node_requirement, pod.spec.tolerations)
    counter = web_counter(table)
    assert by_zone(table, counter, region) == {"a": 1, "b": 1}
    table.update_node(make_node("n0").zone("a").taint("gpu").obj())
    assert by_zone(table, counter, region) == {"b": 1}
    table.update_node(make_node("n1").zone("c").obj())
    assert by_zone(table, counter, region) == {"c": 1}
    table.update_node(make_node("n2").zone("c").obj())
    assert by_zone(table, counter, region) == {"c": 2}
    assert not region.everything
    table.update_node(make_node("n0").zone("a").obj())
    assert by_zone(table, counter, region) == {"a": 1, "c": 2}
    assert region.everything
    table.update_node(make_node("n2").zone("c").label(disk="hdd").obj())
    table.add_pod(web.named("late").node("n2").obj())
    table.add_pod(web.named("later").node("n1").obj())
    assert by_zone(table, counter, region) == {"a": 1, "c": 2}
    mask, count = region.domains(ZONE)
    assert (int(mask.sum()), count) == (2, 2)
    table.remove_node("n0")
    assert by_zone(table, counter, region) == {"c": 2}


def test_a_region_changes_only_if_its_nodes_do():
    table = zoned("a", None)
    region = Regions(table).of(frozenset({ZONE})).refresh()
    version = region.version
    table.update_node(make_node("n0").zone("a").label(other="1").obj())
    assert region.refresh().version == version
    table.update_node(make_node("n1").zone("a").obj())
    assert region.refresh().version > version


def test_equal_conditions_share_a_region():
    table = zoned("a")
    regions = Regions(table)
    anywhere = table.template(make_pod("p").obj()).node_requirement
    somewhere = table.template(make_pod("p").node_selector(disk="ssd").obj()).node_requirement
    assert regions.of(frozenset({ZONE})) is regions.of(frozenset({ZONE}), anywhere)
    assert regions.of(frozenset({ZONE})) is not regions.of(frozenset({ZONE}), somewhere)


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
