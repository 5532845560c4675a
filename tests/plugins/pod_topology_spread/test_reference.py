"""PodTopologySpread on random, changing clusters, compared with recounting node by node."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.api.affinity import TopologySpreadConstraint
from mooring.api.pod import Pod
from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS, Code
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.testing import check_what_if
from tests.plugins.reference import pod_topology_spread as reference
from tests.plugins.topology_world import RACK, ZONE, Maker, World, squeezed

LISTED = (
    TopologySpreadConstraint(topology_key=ZONE, when_unsatisfiable="DoNotSchedule", max_skew=1),
    TopologySpreadConstraint(
        topology_key=RACK, when_unsatisfiable="ScheduleAnyway", max_skew=2, node_taints_policy="Honor"
    ),
)
LISTED_ARGS = {
    "defaultingType": "List",
    "defaultConstraints": [
        {"topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1},
        {"topologyKey": RACK, "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 2, "nodeTaintsPolicy": "Honor"},
    ],
}


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(("args", "defaults"), [(None, reference.SYSTEM), (LISTED_ARGS, LISTED)])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None)
def test_answers_are_those_of_the_reference(args, defaults, small, seed):
    with squeezed(small):
        maker, world = Maker(seed), World(PodTopologySpread, args)
        world.populate(maker, maker.plain_pod)
        pods = [maker.owned(maker.with_constraints(maker.plain_pod())).obj() for _ in range(5)]
        for _ in range(8):
            for pod in pods:
                check_filter(world, maker, pod, defaults)
                check_scores(world, maker, pod, defaults)
            for _ in range(maker.random.randint(1, 3)):
                world.change(maker, maker.plain_pod)


def check_filter(world: World, maker: Maker, pod: Pod, defaults: tuple[TopologySpreadConstraint, ...]) -> None:
    constraints = reference.constraints_of(pod, world.cluster, "DoNotSchedule", defaults)
    state = CycleState()
    verdict, _ = world.harness.pre_filter(state, pod)
    assert verdict.code is (Code.SUCCESS if constraints else Code.SKIP)
    if not constraints:
        return
    expected = reference.Filter(pod, world.cluster, constraints)
    answered = world.harness.filter(state, pod, world.view(maker))
    assert answered == {name: expected.verdict(world.cluster.nodes[name]) for name in answered}
    for name, node in world.cluster.nodes.items():
        gone = [other for other in world.cluster.on(node) if maker.chance(0.5)]
        come = [maker.plain_pod().named("new").obj() for _ in range(maker.random.randint(0, 1))]
        model = expected
        for other in gone:
            model = model.shifted(other, node, -1)
        for other in come:
            model = model.shifted(other, node, 1)
        uids = [other.uid for other in gone]
        assert world.harness.filter_what_if(state, pod, name, without=uids, with_pods=come) == model.verdict(node)
    victims = {name: [other.uid for other in world.cluster.on(node)] for name, node in world.cluster.nodes.items()}
    check_what_if(world.harness, pod, victims, trials=2)


def check_scores(world: World, maker: Maker, pod: Pod, defaults: tuple[TopologySpreadConstraint, ...]) -> None:
    view = world.view(maker)
    if not len(view):
        return
    expected = reference.scores(pod, world.cluster, list(view.names), defaults)
    status, raw, final = world.harness.score(CycleState(), pod, view)
    if expected is None:
        assert status.code is Code.SKIP
    else:
        assert (status, raw, final) == (SUCCESS, *expected)
