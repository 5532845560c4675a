"""Searching many nodes together finds the same victims as simulating them one by one."""

from __future__ import annotations

import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.policy import PodDisruptionBudget
from mooring.config import default_config
from mooring.framework import CycleState, Plugin
from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.preemption.budgets import Budgets
from mooring.framework.preemption.candidate import Candidate, best
from mooring.framework.preemption.search import can_search_together, search_one, search_together
from mooring.framework.preemption.victims import PodVictims
from mooring.scheduler.cache import Cache
from mooring.scheduler.profile import Bound
from mooring.scheduler.profiles import Profiles
from mooring.testing import make_node, make_pdb, make_pod

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def some_cluster(rng: random.Random) -> Cache:
    cache = Cache()
    for number in range(6):
        name = f"n{number}"
        node = make_node(name).capacity(cpu="2", memory="4Gi", pods=str(rng.choice([4, 10])))
        cache.put(node.label({ZONE: rng.choice("abc"), HOST: name}).obj())
        for each in range(rng.randrange(5)):
            pod = (
                make_pod(f"{name}-{each}")
                .label(app=rng.choice(["web", "db"]))
                .priority(rng.randrange(-2, 8))
                .node(name)
            )
            pod = pod.req(cpu=f"{rng.choice([200, 500, 900])}m", memory="512Mi")
            pod = pod.started(f"2026-01-01T00:{number:02d}:{each:02d}Z")
            extra = rng.randrange(6)
            if extra == 0:
                pod = pod.port(8080)
            elif extra == 1:
                pod = pod.pod_anti_affinity(rng.choice([ZONE, HOST]), {"app": "web"})
            elif extra == 2:
                pod = pod.terminating()
            cache.put(pod.obj())
    for number in range(rng.randrange(3)):
        cache.put(make_pdb(f"budget-{number}", {"app": rng.choice(["web", "db"])}, allowed=rng.randrange(3)).obj())
    return cache


def some_preemptor(rng: random.Random):
    pod = make_pod("urgent").label(app="web").priority(5).req(cpu=f"{rng.choice([900, 1500, 2000])}m", memory="1Gi")
    kind = rng.randrange(5)
    if kind == 0:
        pod = pod.port(8080)
    elif kind == 1:
        pod = pod.pod_anti_affinity(rng.choice([ZONE, HOST]), {"app": rng.choice(["web", "db"])})
    elif kind == 2:
        pod = pod.spread(ZONE, {"app": "web"})
    elif kind == 3:
        pod = pod.pod_affinity(ZONE, {"app": "db"})
    return pod.obj()


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**7))
def test_together_is_the_same_as_one_by_one(seed):
    rng = random.Random(seed)
    cache, pod = some_cluster(rng), some_preemptor(rng)
    cycle = Profiles(default_config(), cache).first
    if rng.random() < 0.5:
        cycle.profile.may_evict = (Bound("Protect", Plugin(), lambda _pod, victim: victim.labels["app"] != "db"),)
    state = CycleState()
    if not cycle.pre_filter(state, pod).status.is_success:
        return
    assert can_search_together(cycle.filter_plugins(state))
    budgets = Budgets(cache.objects.lister(PodDisruptionBudget).list())
    for row, node in enumerate(cache.table.nodes):
        alone = search_one(cycle.handle, state, pod, node, budgets, PodVictims(cycle.handle))
        statuses = NodeStatuses(cache.table)
        harvest = search_together(cycle.handle, state, pod, np.array([row]), budgets, statuses)
        if isinstance(alone, Candidate):
            assert harvest.candidates == (alone,)
            assert harvest.harmless == (alone.violations == 0)
        else:
            assert not harvest.candidates
            assert statuses.of_row(row).reasons == alone.reasons
            assert statuses.of_row(row).code is alone.code


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**7))
def test_the_best_of_many_is_the_best_of_each(seed):
    rng = random.Random(seed)
    cache, pod = some_cluster(rng), some_preemptor(rng)
    cycle = Profiles(default_config(), cache).first
    state = CycleState()
    if not cycle.pre_filter(state, pod).status.is_success:
        return
    budgets = Budgets(cache.objects.lister(PodDisruptionBudget).list())
    found = [
        search_one(cycle.handle, state, pod, node, budgets, PodVictims(cycle.handle)) for node in cache.table.nodes
    ]
    candidates = [each for each in found if isinstance(each, Candidate)]
    rows = np.arange(len(cache.table))
    harvest = search_together(cycle.handle, state, pod, rows, budgets, NodeStatuses(cache.table))
    assert harvest.count == len(candidates)
    if candidates:
        now = cycle.handle.clock()
        assert harvest.candidates
        assert harvest.candidates[0].rank(now) == best(candidates, now).rank(now)
