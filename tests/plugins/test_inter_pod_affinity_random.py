"""InterPodAffinity on random, changing clusters, compared with looking at every pod."""

from __future__ import annotations

import copy

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS, Code
from mooring.plugins.inter_pod_affinity import InterPodAffinity
from mooring.testing import check_what_if
from tests.plugins.reference import inter_pod_affinity as reference
from tests.plugins.topology_world import (
    NAMESPACES,
    NODES,
    World,
    labelled_pods,
    namespaces,
    nodes,
    relax,
    squeeze,
    with_terms,
)


@st.composite
def pods(draw: st.DrawFn):
    return with_terms(draw, draw(labelled_pods()))


class AffinityMachine(RuleBasedStateMachine):
    """Events and questions in any order; every answer must be the reference's."""

    hard_weight = 1
    ignore_preferred = False
    squeezed = False

    def __init__(self) -> None:
        super().__init__()
        self.before = squeeze() if self.squeezed else []
        args = {
            "hardPodAffinityWeight": self.hard_weight,
            "ignorePreferredTermsOfExistingPods": self.ignore_preferred,
        }
        self.world = World(InterPodAffinity, args)

    def teardown(self) -> None:
        relax(self.before)

    @rule(node=nodes())
    def put_node(self, node):
        self.world.put(node)

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name):
        self.world.remove_node(name)

    @rule(namespace=namespaces())
    def put_namespace(self, namespace):
        self.world.put(namespace)

    @rule(name=st.sampled_from(NAMESPACES))
    def remove_namespace(self, name):
        self.world.remove_namespace(name)

    @rule(pod=pods(), node=st.sampled_from(NODES), count=st.integers(1, 3))
    def put_pods(self, pod, node, count):
        for _ in range(count):
            self.world.put(pod.named(self.world.name()).node(node).obj())

    @rule(data=st.data())
    def remove_pod(self, data):
        if self.world.cluster.pods:
            self.world.remove_pod(data.draw(st.sampled_from(sorted(self.world.cluster.pods))))

    @rule(pod=pods(), data=st.data())
    def ask_filter(self, pod, data):
        world, incoming = self.world, pod.obj()
        state = CycleState()
        verdict, _ = world.harness.pre_filter(state, incoming)
        expected = reference.Filter(incoming, world.cluster)
        assert (verdict.code is Code.SKIP) == expected.skips
        if verdict.code is Code.SKIP:
            return
        names = data.draw(st.sampled_from([None, [name for name in reversed(NODES) if name in world.cluster.nodes]]))
        answered = world.harness.filter(state, incoming, world.harness.nodes(names))
        assert answered == {name: expected.verdict(world.cluster.nodes[name]) for name in answered}
        self.ask_what_if(state, incoming, expected, data)

    def ask_what_if(self, state, incoming, expected, data):
        world = self.world
        for name, node in world.cluster.nodes.items():
            gone = [pod for pod in world.cluster.on(node) if data.draw(st.booleans())]
            come = [data.draw(pods()).named(world.name()).obj() for _ in range(data.draw(st.integers(0, 1)))]
            model = copy.deepcopy(expected)
            for pod in gone:
                model.shift(pod, node, -1)
            for pod in come:
                model.shift(pod, node, 1)
            answered = world.harness.filter_what_if(
                state, incoming, name, without=[pod.uid for pod in gone], with_pods=come
            )
            assert answered == model.verdict(node)
        victims = {name: [pod.uid for pod in world.cluster.on(node)] for name, node in world.cluster.nodes.items()}
        check_what_if(world.harness, incoming, victims)

    @rule(pod=pods(), data=st.data())
    def ask_scores(self, pod, data):
        world, incoming = self.world, pod.obj()
        known = [node.name for node in world.harness.nodes()]
        feasible = data.draw(st.lists(st.sampled_from(known), unique=True, min_size=1)) if known else []
        if not feasible:
            return
        expected = reference.scores(
            incoming,
            world.cluster,
            feasible,
            hard_weight=self.hard_weight,
            ignore_preferred=self.ignore_preferred,
        )
        view = world.harness.nodes(None if feasible == known else feasible)
        status, raw, final = world.harness.score(CycleState(), incoming, view)
        if expected is None:
            assert status.code is Code.SKIP
        else:
            assert (status, raw, final) == (SUCCESS, *expected)


class SqueezedAffinityMachine(AffinityMachine):
    squeezed = True
    hard_weight = 7


class ModestAffinityMachine(AffinityMachine):
    hard_weight = 0
    ignore_preferred = True


SETTINGS = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestAffinity = AffinityMachine.TestCase
TestAffinity.settings = SETTINGS
TestSqueezedAffinity = SqueezedAffinityMachine.TestCase
TestSqueezedAffinity.settings = SETTINGS
TestModestAffinity = ModestAffinityMachine.TestCase
TestModestAffinity.settings = SETTINGS
