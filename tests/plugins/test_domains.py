"""Verdicts by domain: for few domains they are made in a loop, for many with NumPy; both are the same."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.columns.table import NodeTable
from mooring.framework import Nodes, Status
from mooring.plugins import domains
from mooring.plugins.domains import DomainVerdicts, FeasibleDomains
from mooring.plugins.inter_pod_affinity import filtering as affinity
from mooring.plugins.pod_topology_spread import filtering as spread
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.testing import PluginHarness, make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
REJECTED = Status.unschedulable("no")


def table_of(zones: str) -> NodeTable:
    """Nodes in zones of one letter; a dot stands for no zone."""
    table = NodeTable()
    for number, zone in enumerate(zones):
        node = make_node(f"n{number}")
        table.add_node((node if zone == "." else node.label({ZONE: zone})).obj())
    return table


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_loop_finds_the_verdicts_of_affinity_that_numpy_finds(seed: int) -> None:
    rng = random.Random(seed)
    column = table_of("abcde"[: rng.randrange(1, 6)]).label(ZONE)

    def counts() -> np.ndarray | None:
        numbers = [rng.randrange(-1, 3) for _ in range(column.size)]
        return None if rng.random() < 0.3 else np.array(numbers, dtype=np.int64)

    near, anti, existing = counts(), counts(), counts()
    if rng.random() < 0.5:
        anti = None if anti is None else {code: count for code, count in enumerate(anti.tolist()) if count}
        existing = None if existing is None else {code: count for code, count in enumerate(existing.tolist()) if count}
    for first in (False, True):
        for few_domains in (0, 64):
            found = affinity.KeyCounts(column, near, anti, existing)
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(affinity, "FEW_DOMAINS", few_domains)
                table = found.verdict_table(first=first)
            assert table == found.verdicts(first=first).tobytes()  # ``verdicts`` replaces the dictionaries


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_loop_finds_the_verdicts_of_spreading_that_numpy_finds(seed: int) -> None:
    rng = random.Random(seed)
    harness = PluginHarness(PodTopologySpread, nodes=[make_node(f"n{zone}").zone(zone).obj() for zone in "abcd"])
    pod = make_pod("p").label(app="web").spread(ZONE, {"app": "web"}, max_skew=rng.randrange(1, 3)).obj()
    plan = harness.plugin._plan(harness.table.template(pod), "DoNotSchedule")
    known = np.array([rng.random() < 0.8 for _ in range(4)])
    counts = np.where(known, [rng.randrange(4) for _ in range(4)], 0).astype(np.int64)
    tally = spread.Tally(plan.targets[0], harness.table.label(ZONE), counts, known, int(known.sum()))
    assert tally.verdict_table() == tally.verdicts().tobytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spread, "FEW_DOMAINS", 0)
        assert tally.verdict_table() == tally.verdicts().tobytes()


def test_equal_verdicts_are_one_object_until_a_node_changes() -> None:
    table = table_of("ab.")
    nodes, column = Nodes(table), table.label(ZONE)
    verdicts = DomainVerdicts(lambda code: REJECTED)
    first = verdicts.of(nodes, column, bytes([1, 0, 2]))
    assert first is not None
    assert first.lasting
    assert first.codes.tolist() == [1, 0, 2]
    assert verdicts.of(nodes, column, bytes([1, 0, 2])) is first
    assert verdicts.of(nodes, column, bytes(3)) is None
    some = verdicts.of(Nodes(table, np.array([2, 0])), column, bytes([1, 0, 2]))
    assert some is not None
    assert (some.lasting, some.codes.tolist()) == (False, [2, 1])
    table.add_node(make_node("n0").label({ZONE: "b"}).obj())
    again = verdicts.of(nodes, table.label(ZONE), bytes([1, 0, 2]))
    assert again is not None
    assert again.codes.tolist() == [0, 0, 2]


def test_the_domains_of_the_same_nodes_are_found_the_second_time() -> None:
    table = table_of("aab.")
    column = table.label(ZONE)
    known = FeasibleDomains()
    rows = np.array([0, 1, 3])
    assert known.of(Nodes(table, rows), column) is None
    found = known.of(Nodes(table, rows), column)
    assert found is not None
    assert (found.codes.tolist(), found.present) == ([0, 0, -1], [-1, 0])
    assert known.of(Nodes(table, rows), column) is found
    assert known.of(Nodes(table, rows.copy()), column) is None


def test_many_domains_are_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(domains, "FEW_DOMAINS", 1)
    table = table_of("ab")
    nodes, column = Nodes(table), table.label(ZONE)
    verdicts = DomainVerdicts(lambda code: REJECTED).of(nodes, column, bytes([1, 0, 0]))
    assert verdicts is not None
    assert not verdicts.lasting
    known = FeasibleDomains()
    assert [known.of(nodes, column) for _ in range(3)] == [None, None, None]
