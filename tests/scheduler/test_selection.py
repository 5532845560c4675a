"""The selection of a node among those with the highest score."""

from __future__ import annotations

import random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mooring.columns.table import NodeTable
from mooring.loading.setup import load_setup
from mooring.observe.decision_records import best_places
from mooring.scheduler.attempt_results import AssumedPod
from mooring.scheduler.engine import Engine
from mooring.scheduler.scoring import Selection, Totals, next_places
from mooring.testing import make_node, make_pod

TIED = np.array([3, 7, 7, 1, 7], dtype=np.int64)


def table(*names: str) -> NodeTable:
    made = NodeTable()
    for name in names:
        made.add_node(make_node(name).obj())
    return made


def test_ties_are_broken_at_random_by_default() -> None:
    selection = Selection(table(*"abcde"), random.Random(1), "random")
    assert {selection.pick(TIED, None) for _ in range(50)} == {1, 2, 4}


@given(
    arrays.arrays(np.int64, st.integers(1, 40), elements=st.integers(-2, 2)),
    st.integers(1, 6),
    st.lists(st.integers(0, 60), max_size=5, unique=True),
    st.integers(0, 100),
)
def test_the_next_best_places_do_not_depend_on_what_the_selection_found(
    values: npt.NDArray[np.int64], count: int, guess: list[int], seed: int
) -> None:
    totals = Totals(values, 0, None)
    chosen = Selection(table("a"), random.Random(seed), "random").pick_place(totals)
    assert totals.best is not None
    assert chosen in totals.best
    assert next_places(totals, chosen, count, guess) == best_places(values, chosen, count, guess)


def test_stable_ties_depend_on_names_only() -> None:
    names = list("abcde")
    chosen = set()
    for seed in range(10):
        random.Random(seed).shuffle(names)
        nodes = table(*names)
        place = Selection(nodes, random.Random(seed), "stable").pick(np.zeros(5, dtype=np.int64), None)
        chosen.add(nodes.nodes[place].name)
    assert len(chosen) == 1


def test_stable_ties_among_some_rows_and_after_changes() -> None:
    nodes = table(*"abcde")
    selection = Selection(nodes, random.Random(1), "stable")
    order: list[str] = []
    while len(nodes):
        rows = np.arange(len(nodes))[::-1].copy()
        first = nodes.nodes[selection.pick(np.zeros(len(nodes), dtype=np.int64), None)].name
        assert nodes.nodes[int(rows[selection.pick(np.zeros(len(rows), dtype=np.int64), rows)])].name == first
        order.append(first)
        nodes.remove_node(first)
    for name in "edcba":
        nodes.add_node(make_node(name).obj())
    assert nodes.nodes[selection.pick(np.zeros(5, dtype=np.int64), None)].name == order[0]
    assert sorted(order) == list("abcde")


@pytest.mark.parametrize(("tie_break", "nodes"), [("stable", 1), ("random", 6)])
def test_the_configuration_document_sets_it(tie_break: str, nodes: int) -> None:
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- plugins:\n    multiPoint:\n      disabled: [{name: '*'}]\n"
        "      enabled: [{name: PrioritySort}, {name: ImageLocality}, {name: DefaultBinder}]\n"
        f"---\napiVersion: mooring.dev/v1alpha1\nkind: PluginSources\ntieBreak: {tie_break}\n"
    )
    engine = Engine(load_setup(text, source="test").config, rng=random.Random(3))
    for number in range(6):
        engine.put(make_node(f"n{number}").capacity(cpu="8").obj())
    chosen = set()
    for number in range(40):
        engine.put(make_pod(f"p{number}").obj())
        decided = engine.schedule_one()
        assert isinstance(decided, AssumedPod)
        chosen.add(decided.node_name)
    assert len(chosen) == nodes
