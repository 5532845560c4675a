"""InterPodAffinity on random, changing clusters, compared with looking at every pod."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.pod import Pod
from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS, Code
from mooring.plugins.inter_pod_affinity import InterPodAffinity
from mooring.testing import PodBuilder, check_what_if
from tests.plugins.reference import inter_pod_affinity as reference
from tests.plugins.topology_world import Maker, World, squeezed


@pytest.mark.parametrize(
    ("hard_weight", "ignore_preferred", "small"), [(1, False, False), (7, False, True), (0, True, False)]
)
@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_answers_are_those_of_the_reference(hard_weight, ignore_preferred, small, seed):
    args = {"hardPodAffinityWeight": hard_weight, "ignorePreferredTermsOfExistingPods": ignore_preferred}
    with squeezed(small):
        maker, world = Maker(seed), World(InterPodAffinity, args)

        def placed() -> PodBuilder:
            return maker.with_terms(maker.plain_pod(), most=1)

        world.populate(maker, placed)
        pods = [maker.with_terms(maker.plain_pod()).obj() for _ in range(5)]
        for _ in range(8):
            for pod in pods:
                check_filter(world, maker, pod)
                check_scores(world, maker, pod, hard_weight, ignore_preferred)
            for _ in range(maker.random.randint(1, 3)):
                world.change(maker, placed)


def check_filter(world: World, maker: Maker, pod: Pod) -> None:
    expected = reference.Filter(pod, world.cluster)
    state = CycleState()
    verdict, _ = world.harness.pre_filter(state, pod)
    assert verdict.code is (Code.SKIP if expected.skips else Code.SUCCESS)
    if expected.skips:
        return
    answered = world.harness.filter(state, pod, world.view(maker))
    assert answered == {name: expected.verdict(world.cluster.nodes[name]) for name in answered}
    for name, node in world.cluster.nodes.items():
        gone = [other for other in world.cluster.on(node) if maker.chance(0.5)]
        come = [maker.with_terms(maker.plain_pod()).named("new").obj() for _ in range(maker.random.randint(0, 1))]
        model = copy.copy(expected)
        model.near, model.anti, model.existing = expected.near.copy(), expected.anti.copy(), expected.existing.copy()
        for other in gone:
            model.shift(other, node, -1)
        for other in come:
            model.shift(other, node, 1)
        uids = [other.uid for other in gone]
        assert world.harness.filter_what_if(state, pod, name, without=uids, with_pods=come) == model.verdict(node)
    victims = {name: [other.uid for other in world.cluster.on(node)] for name, node in world.cluster.nodes.items()}
    check_what_if(world.harness, pod, victims, trials=2)


def check_scores(world: World, maker: Maker, pod: Pod, hard_weight: int, ignore_preferred: bool) -> None:
    view = world.view(maker)
    if not len(view):
        return
    expected = reference.scores(
        pod, world.cluster, list(view.names), hard_weight=hard_weight, ignore_preferred=ignore_preferred
    )
    status, raw, final = world.harness.score(CycleState(), pod, view)
    if expected is None:
        assert status.code is Code.SKIP
    else:
        assert (status, raw, final) == (SUCCESS, *expected)
