"""PodTopologySpread on random, changing clusters, compared with recounting node by node."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from mooring.api.affinity import TopologySpreadConstraint
from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS, Code
from mooring.plugins.pod_topology_spread import PodTopologySpread
from mooring.testing import check_what_if, make_replica_set, make_replication_controller, make_service, make_stateful_set
from tests.plugins.reference import pod_topology_spread as reference
from tests.plugins.topology_world import NODES, World, labelled_pods, nodes, relax, squeeze, with_constraints

LISTED = [
    {"topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 1},
    {"topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway", "maxSkew": 2, "nodeTaintsPolicy": "Honor"},
]
LISTED_ARGS = {"defaultingType": "List", "defaultConstraints": LISTED}
LISTED_REFERENCE = (
    TopologySpreadConstraint(
        topology_key="topology.kubernetes.io/zone", when_unsatisfiable="DoNotSchedule", max_skew=1
    ),
    TopologySpreadConstraint(
        topology_key="rack", when_unsatisfiable="ScheduleAnyway", max_skew=2, node_taints_policy="Honor"
    ),
)


@st.composite
def pods(draw: st.DrawFn):
    pod = with_constraints(draw, draw(labelled_pods()))
    kind = draw(st.sampled_from([None, None, "ReplicaSet", "StatefulSet", "ReplicationController"]))
    if kind is not None:
        pod = pod.owner(kind, "owner", api_version="v1" if kind == "ReplicationController" else "apps/v1")
    return pod


class SpreadMachine(RuleBasedStateMachine):
    """Events and questions in any order; every answer must be the reference's."""

    args: object = None
    defaults = reference.SYSTEM
    squeezed = False

    def __init__(self) -> None:
        super().__init__()
        self.before = squeeze() if self.squeezed else []
        self.world = World(PodTopologySpread, self.args)

    def teardown(self) -> None:
        relax(self.before)

    @rule(node=nodes())
    def put_node(self, node):
        self.world.put(node)

    @rule(name=st.sampled_from(NODES))
    def remove_node(self, name):
        self.world.remove_node(name)

    @rule(pod=labelled_pods(), node=st.sampled_from(NODES), count=st.integers(1, 3), leaving=st.booleans())
    def put_pods(self, pod, node, count, leaving):
        for _ in range(count):
            made = pod.named(self.world.name()).node(node)
            self.world.put((made.terminating() if leaving and count == 1 else made).obj())

    @rule(data=st.data())
    def remove_pod(self, data):
        if self.world.cluster.pods:
            self.world.remove_pod(data.draw(st.sampled_from(sorted(self.world.cluster.pods))))

    @rule(
        namespace=st.sampled_from(["one", "two"]),
        chosen=st.sampled_from([None, {}, {"app": "web"}, {"tier": "1"}]),
        kind=st.sampled_from(["service", "other service", "controller", "set", "stateful"]),
    )
    def put_owner(self, namespace, chosen, kind):
        match kind:
            case "controller":
                made = make_replication_controller("owner", chosen, namespace)
            case "set":
                made = make_replica_set("owner", chosen, namespace)
            case "stateful":
                made = make_stateful_set("owner", chosen, namespace)
            case _:
                made = make_service(kind, chosen, namespace)
        self.world.put(made.obj())

    @rule(pod=pods(), data=st.data())
    def ask_filter(self, pod, data):
        world, incoming = self.world, pod.obj()
        constraints = reference.constraints_of(incoming, world.cluster, "DoNotSchedule", self.defaults)
        state = CycleState()
        verdict, _ = world.harness.pre_filter(state, incoming)
        assert (verdict.code is Code.SKIP) == (not constraints)
        if verdict.code is Code.SKIP:
            return
        expected = reference.Filter(incoming, world.cluster, constraints)
        names = data.draw(st.sampled_from([None, [name for name in reversed(NODES) if name in world.cluster.nodes]]))
        answered = world.harness.filter(state, incoming, world.harness.nodes(names))
        assert answered == {name: expected.verdict(world.cluster.nodes[name]) for name in answered}
        self.ask_what_if(state, incoming, expected, data)

    def ask_what_if(self, state, incoming, expected, data):
        world = self.world
        for name, node in world.cluster.nodes.items():
            gone = [pod for pod in world.cluster.on(node) if data.draw(st.booleans())]
            come = [data.draw(labelled_pods()).named(world.name()).obj() for _ in range(data.draw(st.integers(0, 1)))]
            model = expected
            for pod in gone:
                model = model.shifted(pod, node, -1)
            for pod in come:
                model = model.shifted(pod, node, 1)
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
        expected = reference.scores(incoming, world.cluster, feasible, self.defaults)
        view = world.harness.nodes(None if feasible == known else feasible)
        status, raw, final = world.harness.score(CycleState(), incoming, view)
        if expected is None:
            assert status.code is Code.SKIP
        else:
            assert (status, raw, final) == (SUCCESS, *expected)


class SqueezedSpreadMachine(SpreadMachine):
    squeezed = True


class ListedSpreadMachine(SpreadMachine):
    args = LISTED_ARGS
    defaults = LISTED_REFERENCE


SETTINGS = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestSpread = SpreadMachine.TestCase
TestSpread.settings = SETTINGS
TestSqueezedSpread = SqueezedSpreadMachine.TestCase
TestSqueezedSpread.settings = SETTINGS
TestListedSpread = ListedSpreadMachine.TestCase
TestListedSpread.settings = SETTINGS
