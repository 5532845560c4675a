"""What a template learnt about the nodes is reused, and never changes an answer."""

from __future__ import annotations

import random

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.columns.block_maxima import BlockMaxima
from mooring.columns.highest_rows import HighestRows
from mooring.columns.nodes import Nodes
from mooring.config import default_config
from mooring.framework import CycleState, Plugin, depends_on
from mooring.plugins.node_affinity import NodeAffinity
from mooring.scheduler import answer_cache
from mooring.scheduler.answer_cache import TemplateAnswerCache
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


#: What a pod of ``related_pod`` adds to a plain one: each changes one part of it.
PARTS = (
    lambda pod, number: pod.label(app=f"app-{number}"),
    lambda pod, number: pod.req(cpu=f"{50 * (1 + number)}m", memory=f"{64 * number}Mi"),
    lambda pod, number: pod.req({"example.com/gpu": number}),
    lambda pod, number: pod.init({"cpu": f"{100 * number}m", "example.com/gpu": number}),
    lambda pod, number: pod.overhead(cpu=f"{10 * number}m"),
    lambda pod, number: pod.toleration("dedicated", operator="Exists", effect=("", "NoSchedule")[number % 2]),
    lambda pod, number: pod.toleration("node.kubernetes.io/unschedulable", operator="Exists"),
    lambda pod, number: pod.node_selector({"topology.kubernetes.io/zone": ZONES[number % 3]}),
    lambda pod, number: pod.node_affinity_in("topology.kubernetes.io/zone", ZONES[: 1 + number % 2]),
    lambda pod, number: pod.node_names(f"n{number}", f"n{number + 1}"),
    lambda pod, number: pod.preferred_node_affinity_in(1 + number, "topology.kubernetes.io/zone", ["a"]),
    lambda pod, number: pod.port(8080 + number % 2),
    lambda pod, number: pod.container(f"registry/app:{number % 2}"),
    lambda pod, number: pod.container(restart_rules=("RestartAllContainers",)),
    lambda pod, number: pod.host_network(host_users=bool(number % 2)),
    lambda pod, number: pod.spread("topology.kubernetes.io/zone", {"app": f"app-{number}"}),
    lambda pod, number: pod.spread("kubernetes.io/hostname", {"app": "app-0"}, when="ScheduleAnyway"),
    lambda pod, number: pod.pod_anti_affinity("kubernetes.io/hostname", {"app": f"app-{number}"}),
    lambda pod, number: pod.preferred_pod_affinity(1 + number, "topology.kubernetes.io/zone", {"app": "app-0"}),
    lambda pod, number: pod.pvc(f"claim-{number}"),
    lambda pod, number: pod.resource_claim("device", f"devices-{number}"),
    lambda pod, number: pod.priority(number),
)


def related_pod(rng: random.Random, name: str):
    """One of many templates; most of them differ from some others in one part."""
    pod = make_pod(name, namespace=rng.choice(("default", "team"))).req(cpu="100m", memory="64Mi").label(app="app-0")
    for part in rng.sample(PARTS, rng.choice((1, 1, 2, 3))):
        pod = part(pod, rng.randrange(4))
    return pod.obj()


def steps(cycle: PluginRunner, pod) -> tuple[object, ...]:
    """What PreFilter, Filter, PreScore and Score answer on the hot path."""
    state, template = CycleState(), cycle.table.template(pod)
    before = cycle.pre_filter(state, pod)
    found = (before.status, before.names, sorted(state.skip_filter), sorted(map(str, state._entries)))
    if not before.status.is_success:
        return (before.status, before.names)
    rows = cycle.filter(state, pod, template, cycle.rows_of(before.names)).rows
    count = len(cycle.table) if rows is None else len(rows)
    if count < 2:
        return (*found, count if rows is None else rows.tolist())
    totals = cycle.scoring.totals(state, pod, template, rows)
    values = (totals.values + totals.same).tolist()
    # ``by_plugin`` calls all scorers and has no cache.
    assert values == sum(cycle.scoring.by_plugin(state, pod, rows).values()).tolist()
    passed = list(range(count)) if rows is None else rows.tolist()
    return (*found, passed, values, sorted(state.skip_score), sorted(map(str, state._entries)))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_templates_that_differ_in_one_part_share_only_what_is_equal(seed):
    rng = random.Random(seed)
    cache = Cache()
    names = [f"n{number}" for number in range(10)]
    for name in names:
        cache.put(device_node(rng, name))
    cycle = Profiles(default_config(), cache).first
    for step in range(50):
        event = rng.randrange(12)
        if event == 0:
            cache.put(device_node(rng, rng.choice(names)))
        elif event == 1 and len(cache.table) > 3:
            cache.remove(rng.choice(cache.table.nodes).node)
        elif event == 2 and cache.table.pods:
            cache.table.remove_pod(rng.choice(sorted(cache.table.pods)))
        pod = related_pod(rng, f"p{step}")
        shared = steps(cycle, pod)
        assert shared == steps(Profiles(default_config(), cache).first, pod)
        if len(shared) > 4 and shared[4]:
            cache.assume(pod, cache.table.nodes[rng.choice(shared[4])].name)


def device_node(rng: random.Random, name: str):
    """A node of ``some_node``, some of them with devices and images."""
    node = some_node(rng, name)
    if rng.random() < 0.5:
        allocatable = {**node.status.allocatable, "example.com/gpu": "2"}
        node = msgspec.structs.replace(node, status=msgspec.structs.replace(node.status, allocatable=allocatable))
    return node


@pytest.mark.parametrize("maintained", [HighestRows, BlockMaxima])
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_maintaining_the_highest_totals_changes_no_decision(maintained, seed):
    rng = random.Random(seed)
    cache = Cache()
    names = [f"n{number}" for number in range(70)]
    for name in names:
        cache.put(some_node(rng, name, ("NoSchedule",)))
    searching = Profiles(default_config(), cache, rng=random.Random(seed)).first
    maintaining = Profiles(default_config(), cache, rng=random.Random(seed)).first
    chosen: list[int] = []
    choose = maintained.choose
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
            patch.setattr(answer_cache, "SOME_NODES", 0)
            patch.setattr(answer_cache, "_FEW_CHANGES", 20)
            patch.setattr(answer_cache, "MANY_NODES", 0 if maintained is BlockMaxima else 10**6)
            patch.setattr(maintained, "choose", lambda self, number: chosen.append(choose(self, number)) or chosen[-1])
            found = schedule_pod(maintaining, pod)
        assert isinstance(found, ScheduleResult) == isinstance(expected, ScheduleResult)
        if isinstance(found, ScheduleResult) and isinstance(expected, ScheduleResult):
            assert (found.node_name, found.feasible) == (expected.node_name, expected.feasible)
            cache.assume(pod, found.node_name)
    assert len(chosen) > 5


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


@pytest.mark.parametrize(
    ("apps", "asked", "stored"),
    [
        ("x", [5], 0),
        ("xyz", [5, 5, 5], 0),
        ("xx", [5], 1),
        ("xyy", [5, 5], 1),
        ("xyxx", [5, 5, 5], 1),
        ("xxyx", [5, 5], 1),
        ("xyxyxy", [5, 5, 5], 2),
    ],
)
def test_answers_are_stored_from_the_second_use_on(apps, asked, stored):
    counts: list[int] = []

    class Counting(Plugin):
        @depends_on("node")
        def score_nodes(self, state, pod, nodes):
            counts.append(len(nodes))
            return np.zeros(len(nodes), dtype=np.int64)

    nodes = tuple(make_node(f"n{number}").obj() for number in range(5))
    cycle = make_runner(Counting, objects=nodes)
    for number, app in enumerate(apps):
        schedule_pod(cycle, make_pod(f"p{number}").label(app=app).obj())
    assert counts == asked, "the answers of the last signature need not be stored to be used again"
    assert len(cycle.filtering._answers._by_signature._entries) == stored


def test_normalized_scores_are_shared_by_templates_with_equal_constraints(monkeypatch):
    normalized: list[int] = []
    normalize = NodeAffinity.normalize_scores

    def counting(self, state, pod, scores):
        normalized.append(len(scores))
        return normalize(self, state, pod, scores)

    monkeypatch.setattr(NodeAffinity, "normalize_scores", counting)
    cache = Cache()
    for number in range(6):
        labels = {"topology.kubernetes.io/zone": ZONES[number % 3], "half": str(number % 2)}
        cache.put(make_node(f"n{number}").capacity(cpu="4", memory="8Gi").label(labels).obj())
    cycle = Profiles(default_config(), cache).first

    def normalizations(cpu: str, selector: dict[str, str] | None = None) -> int:
        pod = make_pod("p").req(cpu=cpu).preferred_node_affinity_in(5, "topology.kubernetes.io/zone", ["a"])
        normalized.clear()
        schedule_pod(cycle, pod.node_selector(selector).obj() if selector else pod.obj())
        return len(normalized)

    assert normalizations("100m") == 1
    assert normalizations("200m") == 0
    assert normalizations("300m", {"half": "1"}) == 1
    assert normalizations("400m", {"half": "1"}) == 0
    assert normalizations("500m") == 0
    assert normalizations("3500m") == 0
    cache.assume(make_pod("full").req(cpu="3").obj(), "n5")
    assert normalizations("3600m") == 1, "other nodes are feasible"
    node = cache.table.nodes[1].node
    labels = {**node.labels, "topology.kubernetes.io/zone": "a"}
    cache.put(msgspec.structs.replace(node, metadata=msgspec.structs.replace(node.metadata, labels=labels)))
    assert normalizations("600m") == 1, "the scores of a node changed"


def test_shared_answers_are_dropped_with_the_last_template_that_has_the_constraints(monkeypatch):
    monkeypatch.setattr("mooring.columns.templates._KEEP_IDLE_BYTES", 5_000)
    cache = Cache()
    for number in range(3):
        cache.put(make_node(f"n{number}").capacity(cpu="4").obj())
    templates = cache.table.templates
    templates._evict_at_bytes = 10_000
    cycle = Profiles(default_config(), cache).first
    for number in range(200):
        schedule_pod(cycle, make_pod(f"p{number}").toleration(f"key-{number}").obj())
    shared = cycle.filtering._answers._by_constraints
    assert 0 < len(templates) < 150
    assert len(templates._constraints) == len(templates)
    assert len(shared._entries) <= len(templates)


def test_what_is_remembered_is_bounded():
    cache = Cache()
    for number in range(5):
        cache.put(make_node(f"n{number}").obj())
    cycle = Profiles(default_config(), cache).first
    kept = TemplateAnswerCache(cycle.profile, budget_bytes=0, templates=10)
    for number in range(50):
        kept.of(cycle.table.template(make_pod(f"p{number}").req(cpu=f"{1 + number}m").obj()))
    assert len(kept._by_template) == 10
    assert len(kept._used) == 10
    assert len(Nodes(cycle.table)) == 5
