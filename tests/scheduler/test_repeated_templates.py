"""Attempts for templates that repeat use what was cached for them, and decide as fresh ones do."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.plugins import domains
from mooring.plugins.inter_pod_affinity import filtering as inter_pod_affinity
from mooring.plugins.inter_pod_affinity.plugin import InterPodAffinity
from mooring.plugins.node_name import NodeName
from mooring.plugins.pod_topology_spread import filtering as pod_topology_spread
from mooring.plugins.pod_topology_spread.plugin import PodTopologySpread
from mooring.scheduler.cache import Cache
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.schedule_pod import schedule_pod
from mooring.testing import make_namespace, make_node, make_pod, make_replica_set, make_service
from tests.scheduler.test_answer_cache import steps
from tests.scheduler.test_template_calls import counted

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
APPS = ("web", "db")
NAMESPACES = ("default", "team")


def some_node(rng: random.Random, name: str, *, rare: float = 0.0):
    node = make_node(name).capacity(cpu="8", memory="8Gi", pods=rng.choice((4, 20))).label({HOST: name})
    if rng.random() < 0.9:
        node = node.label({ZONE: rng.choice("abc")})
    if rng.random() < 0.3:
        node = node.image("registry/large:1", size=900 << 20)
    if rng.random() < rare:
        node = node.image("registry/rare:1", size=900 << 20)
    if rng.random() < 0.2:
        node = node.taint("dedicated", "x", rng.choice(("NoSchedule", "PreferNoSchedule")))
    return node.obj()


KINDS = (
    lambda pod: pod,
    lambda pod: pod.container("registry/large:1"),
    lambda pod: pod.container("registry/rare:1"),
    lambda pod: pod.owner("ReplicaSet", "web"),
    lambda pod: pod.spread(ZONE, {"app": "web"}),
    lambda pod: pod.spread(ZONE, {"app": "web"}, when="ScheduleAnyway"),
    lambda pod: pod.pod_affinity(ZONE, {"app": "web"}),
    lambda pod: pod.pod_anti_affinity(HOST, {"app": "web"}, namespace_selector={"team": "red"}),
    lambda pod: pod.pod_anti_affinity(ZONE, {"app": "db"}),
    lambda pod: pod.preferred_pod_affinity(10, ZONE, {"app": "web"}),
    lambda pod: pod.preferred_pod_anti_affinity(7, HOST, {"app": "db"}, namespace_selector={"team": "red"}),
)


def some_pod(rng: random.Random, name: str) -> Pod:
    pod = make_pod(name, namespace=rng.choice(NAMESPACES)).label(app=rng.choice(APPS)).req(cpu="100m", memory="64Mi")
    pod = rng.choice(KINDS)(pod)
    if rng.random() < 0.1:
        pod = pod.node(rng.choice(("n1", "n2", "missing")))
    return pod.obj()


def change(rng: random.Random, cache: Cache, names: list[str]) -> None:
    """Change something that answers may depend on."""
    match rng.randrange(10):
        case 0 | 9:
            cache.put(some_node(rng, rng.choice(names), rare=0.5))
        case 1:
            if len(cache.table) > 3:
                cache.remove(rng.choice(cache.table.nodes).node)
        case 2 | 3:
            if cache.table.pods:
                cache.table.remove_pod(rng.choice(sorted(cache.table.pods)))
        case 4:
            selector = rng.choice(({"app": "web"}, {"app": "db"}, None))
            cache.put(make_service(rng.choice(("s1", "s2")), selector, rng.choice(NAMESPACES)).obj())
        case 5:
            namespace = rng.choice(NAMESPACES)
            service = make_service("s1", None, namespace).obj()
            if (known := cache.objects.lister(type(service)).get("s1", namespace)) is not None:
                cache.remove(known)
        case 6:
            cache.put(make_namespace(rng.choice(NAMESPACES)).label(team=rng.choice(("red", "blue"))).obj())
        case 7:
            cache.put(make_replica_set("web", {"app": rng.choice(APPS)}, rng.choice(NAMESPACES)).obj())
        case 8:
            if cache.table.pods:
                info = cache.table.pods[rng.choice(sorted(cache.table.pods))]
                cache.nominator.add(info, rng.choice(names))


@pytest.mark.parametrize("few_domains", [domains.FEW_DOMAINS, 2])
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_an_attempt_is_the_same_as_a_fresh_one(few_domains: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for module in (domains, inter_pod_affinity, pod_topology_spread):
            patch.setattr(module, "FEW_DOMAINS", few_domains)
        compare_attempts(random.Random(seed))


def compare_attempts(rng: random.Random) -> None:
    """Decide about pods while things change, and compare each attempt with that of a new profile."""
    cache = Cache()
    names = [f"n{number}" for number in range(10)]
    for name in names:
        cache.put(some_node(rng, name))
    cycle = Profiles(default_config(), cache).first
    for step in range(60):
        if rng.random() < 0.4:
            change(rng, cache, names)
        if rng.random() < 0.02:
            cycle.clear_cached_answers()
        pod = some_pod(rng, f"p{step}")
        found = steps(cycle, pod)
        assert found == steps(Profiles(default_config(), cache).first, pod)
        if len(found) > 4 and found[4] and not pod.node_name:
            cache.assume(pod, cache.table.nodes[rng.choice(found[4])].name)


def a_cluster() -> Cache:
    cache = Cache()
    for number in range(4):
        cache.put(make_node(f"n{number}").zone("ab"[number % 2]).capacity(cpu="8", pods=20).obj())
    return cache


def test_plugins_that_have_nothing_to_do_are_called_again_when_that_may_have_changed(monkeypatch) -> None:
    names = counted(monkeypatch, NodeName, "pre_filter")
    terms = [counted(monkeypatch, InterPodAffinity, method) for method in ("pre_filter", "pre_score")]
    spread = counted(monkeypatch, PodTopologySpread, "pre_score")
    cache = a_cluster()
    cycle = Profiles(default_config(), cache).first

    def decide(name: str) -> None:
        schedule_pod(cycle, make_pod(name).label(app="web").obj())

    for name in ("a", "b", "c", "d"):
        decide(name)
    assert names == ["a"]
    assert [*terms, spread] == [["a", "b"]] * 3  # answers of a template are cached from its second pod on
    cache.put(make_service("s", {"app": "web"}).obj())
    decide("e")
    assert spread == ["a", "b", "e"]
    assert terms == [["a", "b"]] * 2
    cache.table.add_pod(make_pod("x").pod_anti_affinity("topology.kubernetes.io/zone", {"app": "web"}).obj(), "n0")
    decide("f")
    cache.table.remove_pod("pod-default-x")
    decide("g")
    decide("h")
    assert terms[0] == ["a", "b", "f", "g"]
    schedule_pod(cycle, make_pod("i").label(app="web").node("n1").obj())
    assert names == ["a", "i"]
