"""Regions follow the nodes of the table."""

from __future__ import annotations

from mooring.api.label_selectors import compile_selector
from mooring.api.node_selectors import required_node_affinity
from mooring.columns.regions import Regions
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


def test_regions_with_thousands_of_keys_are_dropped_early() -> None:
    regions = Regions(zoned("a", "b"))
    for number in range(40):
        regions.of(frozenset({"zone"}), None, ()).refresh()
        regions.of(frozenset(f"key-{number}-{each}" for each in range(2_000)), None, ())
    assert len(regions) <= 9
    small = regions.of(frozenset({"zone"}), None, ())
    huge = regions.of(frozenset(f"key-{each}" for each in range(100_000)), None, ())
    assert len(regions) == 1
    assert regions.of(frozenset(huge._keys), None, ()) is huge
    assert regions.of(frozenset({"zone"}), None, ()) is not small
    assert regions._parts < 100_010


def test_regions_with_thousands_of_values_are_dropped_early() -> None:
    regions = Regions(zoned("a", "b"))
    for number in range(40):
        pod = make_pod("p").node_affinity_in("zone", [f"value-{number}-{each}" for each in range(2_000)]).obj()
        regions.of(frozenset({"zone"}), required_node_affinity(pod), ())
    assert len(regions) <= 9
