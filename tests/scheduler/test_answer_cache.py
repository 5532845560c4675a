"""What a template learnt about the nodes is reused, and never changes an answer."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.columns.block_maxima import BlockMaxima
from mooring.columns.nodes import Nodes
from mooring.config import default_config
from mooring.framework import CycleState, Plugin, depends_on
from mooring.scheduler import answer_cache
from mooring.scheduler.attempt_results import ScheduleResult
from mooring.scheduler.cache import Cache
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.schedule_pod import schedule_pod
from mooring.testing import make_node, make_pod
from tests.scheduler.profiles import make_runner

ZONES = ("a", "b", "c")


def some_node(rng: random.Random, name: str, effects: tuple[str, ...] = ("NoSchedule", "PreferNoSchedule")):
    node = make_node(name).capacity(cpu=str(rng.choice([2, 4, 8])), memory="8Gi", pods=str(rng.choice([3, 20])))
    node = node.label({"topology.kubernetes.io/zone": rng.choice(ZONES), "kubernetes.io/hostname": name})
    if rng.random() < 0.2:
        node = node.taint("dedicated", "x", rng.choice(effects))
    if rng.random() < 0.1:
        node = node.unschedulable()
    return node.obj()


def some_pod(rng: random.Random, name: str):
    """One of few templates, so that cached answers are reused."""
    kind = rng.randrange(8)
    pod = make_pod(name).label(app=f"app-{kind % 4}").req(cpu=f"{100 * (1 + kind % 3)}m", memory="256Mi")
    if kind == 1:
        pod = pod.toleration("dedicated", operator="Exists")
    elif kind == 2:
        pod = pod.node_selector({"topology.kubernetes.io/zone": "a"})
    elif kind == 3:
        pod = pod.port(8080)
    elif kind == 4:
        pod = pod.spread("topology.kubernetes.io/zone", {"app": "app-0"})
    elif kind == 5:
        pod = pod.pod_anti_affinity("kubernetes.io/hostname", {"app": "app-1"})
    elif kind == 6:
        pod = pod.preferred_pod_affinity(10, "topology.kubernetes.io/zone", {"app": "app-2"})
    return pod.obj()


def answers(cycle: PluginRunner, pod) -> tuple[object, ...]:
    """The feasible rows and their totals, as the hot path computes them."""
    state, template = CycleState(), cycle.table.template(pod)
    before = cycle.pre_filter(state, pod)
    if not before.status.is_success:
        return (before.status,)
    rows, _ = cycle.filtering.feasible(state, pod, template, cycle.rows_of(before.names), None)
    found = list(range(len(cycle.table))) if rows is None else sorted(rows.tolist())
    if len(found) < 2:
        return (found,)
    totals = cycle.scoring.totals(state, pod, template, None if rows is None else np.array(found))
    return found, (totals.values + totals.same).tolist()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_remembering_changes_nothing(seed):
    rng = random.Random(seed)
    cache = Cache()
    names = [f"n{number}" for number in range(12)]
    for name in names:
        cache.put(some_node(rng, name))
    cycle = Profiles(default_config(), cache).first
    for step in range(40):
        event = rng.randrange(10)
        if event == 0:
            cache.put(some_node(rng, rng.choice(names)))
        elif event == 1 and len(cache.table) > 3:
            cache.remove(rng.choice(cache.table.nodes).node)
        elif event == 2 and cache.table.pods:
            cache.table.remove_pod(rng.choice(sorted(cache.table.pods)))
        pod = some_pod(rng, f"p{step}")
        remembered = answers(cycle, pod)
        fresh = answers(Profiles(default_config(), cache).first, pod)
        assert remembered == fresh
        if isinstance(remembered[0], list) and remembered[0]:
            cache.assume(pod, cache.table.nodes[rng.choice(remembered[0])].name)
    assert cache.table.check() == []


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_maintaining_the_highest_totals_changes_no_decision(seed):
    rng = random.Random(seed)
    cache = Cache()
    names = [f"n{number}" for number in range(70)]
    for name in names:
        cache.put(some_node(rng, name, ("NoSchedule",)))
    searching = Profiles(default_config(), cache, rng=random.Random(seed)).first
    maintaining = Profiles(default_config(), cache, rng=random.Random(seed)).first
    chosen: list[int] = []
    choose = BlockMaxima.choose
    for step in range(120):
        event = rng.randrange(12)
        if event == 0:
            cache.put(some_node(rng, rng.choice(names), ("NoSchedule",)))
        elif event == 1 and len(cache.table) > 60:
            cache.remove(rng.choice(cache.table.nodes).node)
        elif event == 2 and cache.table.pods:
            cache.table.remove_pod(rng.choice(sorted(cache.table.pods)))
        pod = some_pod(rng, f"p{step}")
        expected = schedule_pod(searching, pod)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(answer_cache, "MANY_NODES", 0)
            patch.setattr(BlockMaxima, "choose", lambda self, number: chosen.append(choose(self, number)) or chosen[-1])
            found = schedule_pod(maintaining, pod)
        assert isinstance(found, ScheduleResult) == isinstance(expected, ScheduleResult)
        if isinstance(found, ScheduleResult) and isinstance(expected, ScheduleResult):
            assert (found.node_name, found.feasible) == (expected.node_name, expected.feasible)
            cache.assume(pod, found.node_name)
    assert len(chosen) > 10


def test_only_changed_nodes_are_asked_again():
    asked: list[list[str]] = []

    class Counting(Plugin):
        @depends_on("node", "pods")
        def score_nodes(self, state, pod, nodes):
            asked.append(list(nodes.names))
            return np.zeros(len(nodes), dtype=np.int64)

    nodes = tuple(make_node(f"n{number}").capacity(cpu="4").obj() for number in range(20))
    cycle = make_runner(Counting, objects=nodes)
    first = schedule_pod(cycle, make_pod("one").obj())
    cycle.table.add_pod(make_pod("one").obj(), first.node_name)
    schedule_pod(cycle, make_pod("two").obj())
    schedule_pod(cycle, make_pod("three").obj())
    assert [len(names) for names in asked] == [20, 1]
    assert asked[1] == [first.node_name]


def test_templates_with_equal_signatures_share_answers():
    asked: list[int] = []

    class ByPriorityClass(Plugin):
        def signature(self, template):
            return template.pod.spec.priority_class_name

        @depends_on("node")
        def score_nodes(self, state, pod, nodes):
            asked.append(len(nodes))
            return np.zeros(len(nodes), dtype=np.int64)

    nodes = tuple(make_node(f"n{number}").obj() for number in range(5))
    cycle = make_runner(ByPriorityClass, objects=nodes)
    for app in ("x", "y", "z"):
        schedule_pod(cycle, make_pod(app).label(app=app).obj())
    assert asked == [5]


def test_what_is_remembered_is_bounded():
    from mooring.scheduler.answer_cache import TemplateAnswerCache

    nodes = tuple(make_node(f"n{number}").obj() for number in range(5))
    cycle = make_runner(objects=nodes)
    kept = TemplateAnswerCache(cycle.profile, budget_bytes=0, templates=10)
    for number in range(50):
        kept.of(cycle.table.template(make_pod(f"p{number}").label(app=str(number)).obj()))
    assert len(kept._by_template) == 10
    assert len(Nodes(cycle.table)) == 5
