"""The scheduling cycle: what each verdict at each point does."""

from __future__ import annotations

import collections

import msgspec
import numpy as np
import pytest

from mooring.api.pod import PodSchedulingGroup
from mooring.framework import Code, Plugin, PreFilterResult, Status, Verdicts
from mooring.scheduler.attempt_results import ScheduleFailure, ScheduleResult
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.schedule_pod import schedule_pod
from mooring.testing import make_node, make_pod
from tests.scheduler.profiles import make_runner

NODES = tuple(make_node(f"n{number}").capacity(cpu="4", memory="8Gi", pods="10").obj() for number in range(4))
POD = make_pod("p").req(cpu="1").obj()


class Even(Plugin):
    """Passes even nodes."""

    def filter(self, state, pod, node):
        return None if int(node.name[1:]) % 2 == 0 else "odd node"


class Low(Plugin):
    """Passes nodes below 3, in columns."""

    def filter_nodes(self, state, pod, nodes):
        return Verdicts.reject(np.array([int(name[1:]) >= 3 for name in nodes.names]), Status.unresolvable("high node"))


class Number(Plugin):
    """Scores by number."""

    def score(self, state, pod, node):
        return int(node.name[1:]) * 10


class NumberInColumns(Plugin):
    """The same for all at once."""

    def score_nodes(self, state, pod, nodes):
        return np.array([int(name[1:]) * 10 for name in nodes.names])


def placed_on(cycle: PluginRunner, pod=POD) -> str:
    decision = schedule_pod(cycle, pod)
    assert isinstance(decision, ScheduleResult), decision
    return decision.node_name


def unplaced(cycle: PluginRunner, pod=POD) -> ScheduleFailure:
    decision = schedule_pod(cycle, pod)
    assert isinstance(decision, ScheduleFailure), decision
    return decision


@pytest.mark.parametrize("scorer", [Number, NumberInColumns])
@pytest.mark.parametrize(("filters", "node"), [((Even,), "n2"), ((Low,), "n2"), ((Even, Low), "n2"), ((), "n3")])
def test_both_forms_of_filters_and_scores(filters, node, scorer):
    assert placed_on(make_runner(*filters, scorer, objects=NODES)) == node


def test_a_string_is_a_reason():
    class Never(Plugin):
        def filter(self, state, pod, node):
            return f"never on {node.name}"

    failed = unplaced(make_runner(Never, objects=NODES[:2]))
    assert failed.message == "0/2 nodes are available: 1 never on n0, 1 never on n1."
    assert failed.rejectors == {"Never"}


def test_the_first_plugin_in_configured_order_is_blamed_whatever_its_form():
    class NotLow(Plugin):
        def filter(self, state, pod, node):
            return "not low" if node.name != "n3" else None

    for order in ((NotLow, Low), (Low, NotLow)):
        failed = unplaced(make_runner(*order, objects=NODES))
        assert failed.statuses is not None
        assert failed.statuses.get("n0").reasons == ("not low",)
        assert failed.statuses.get("n3").reasons == ("high node",)
        assert failed.message == "0/4 nodes are available: 1 high node, 3 not low."


def test_a_pod_of_a_native_group_is_not_placed_on_its_own():
    spec = msgspec.structs.replace(POD.spec, scheduling_group=PodSchedulingGroup(pod_group_name="gang"))
    failure = unplaced(make_runner(Even, objects=NODES), msgspec.structs.replace(POD, spec=spec))
    assert failure.message.startswith("spec.schedulingGroup is set, but groups of scheduling.k8s.io are not scheduled")
    assert failure.rejectors == {"SchedulingGates"}, "only an update of the pod can help"


def test_no_nodes():
    failed = unplaced(make_runner(Even))
    assert failed.message == "no nodes available to schedule pods"
    assert failed.rejectors == frozenset()


class TestPreFilter:
    def test_skip_leaves_the_filter_out(self):
        class Skipper(Plugin):
            def pre_filter(self, state, pod, nodes):
                return Status.skip()

            def filter(self, state, pod, node):
                return "never reached"

        assert placed_on(make_runner(Skipper, Number, objects=NODES)) == "n3"

    def test_narrowing(self):
        class Narrow(Plugin):
            def pre_filter(self, state, pod, nodes):
                return PreFilterResult.only({"n1", "n2", "missing"})

        assert placed_on(make_runner(Narrow, Number, objects=NODES)) == "n2"

    def test_narrowed_and_rejected(self):
        class Narrow(Plugin):
            def pre_filter(self, state, pod, nodes):
                return PreFilterResult.only({"n1", "n3"})

        failed = unplaced(make_runner(Narrow, Even, objects=NODES))
        assert failed.message == ("0/4 nodes are available: 2 node(s) didn't satisfy plugin(s) [Narrow], 2 odd node.")
        assert failed.rejectors == {"Narrow", "Even"}

    def test_nothing_left(self):
        class A(Plugin):
            def pre_filter(self, state, pod, nodes):
                return PreFilterResult.only({"n1"})

        class B(Plugin):
            def pre_filter(self, state, pod, nodes):
                return PreFilterResult.only({"n2"})

        failed = unplaced(make_runner(B, A, objects=NODES))
        assert failed.message == "0/4 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously."

    @pytest.mark.parametrize(
        ("status", "message"),
        [
            (Status.unschedulable("not now"), "0/4 nodes are available: not now."),
            (Status.unresolvable("never"), "0/4 nodes are available: never."),
            (Status.pending("later"), 'running PreFilter plugin "P": later'),
            (Status.error("broken"), 'running PreFilter plugin "P": broken'),
        ],
    )
    def test_rejections(self, status, message):
        class P(Plugin):
            def pre_filter(self, state, pod, nodes):
                return status

        assert unplaced(make_runner(P, objects=NODES)).message == message

    def test_unschedulable_lets_the_others_run_and_unresolvable_does_not(self):
        calls = []

        class P(Plugin):
            def pre_filter(self, state, pod, nodes):
                return self.args["status"]

        class After(Plugin):
            def pre_filter(self, state, pod, nodes):
                calls.append(pod.name)

        for status, count in ((Status.unschedulable("x"), 1), (Status.unresolvable("x"), 0)):
            calls.clear()
            unplaced(make_runner(P, After, objects=NODES, args={"P": {"status": status}}))
            assert len(calls) == count


class TestScores:
    def test_weights(self):
        class Last(Plugin):
            def score(self, state, pod, node):
                return 100 if node.name == "n0" else 0

        assert placed_on(make_runner(Number, Last, objects=NODES)) == "n0"
        assert placed_on(make_runner(Number, Last, objects=NODES, weights={"Number": 5})) == "n3"

    def test_normalised_and_in_range(self):
        class Wild(Plugin):
            def score(self, state, pod, node):
                return 1000 - int(node.name[1:])

            def normalize_scores(self, state, pod, scores):
                return scores - scores.min()

        assert placed_on(make_runner(Wild, objects=NODES)) == "n0"

    @pytest.mark.parametrize("value", [-1, 101])
    def test_out_of_range(self, value):
        class Wrong(Plugin):
            def score(self, state, pod, node):
                return value

        assert unplaced(make_runner(Wrong, objects=NODES)).message == (
            f'plugin "Wrong" returns an invalid score {value}, it should in the range of [0, 100] after normalizing'
        )

    def test_pre_score_skip(self):
        class Wrong(Plugin):
            def pre_score(self, state, pod, nodes):
                return Status.skip()

            def score(self, state, pod, node):
                return 1000

        assert placed_on(make_runner(Wrong, Number, objects=NODES)) == "n3"

    def test_one_feasible_node_is_not_scored(self):
        class Wrong(Plugin):
            def score(self, state, pod, node):
                return 1000

        assert placed_on(make_runner(Wrong, objects=NODES[:1])) == "n0"

    def test_ties_are_broken_evenly_and_repeatably(self):
        class Same(Plugin):
            def score_nodes(self, state, pod, nodes):
                return 5

        counts = collections.Counter()
        cycle = make_runner(Same, objects=NODES, seed=7)
        for _ in range(2000):
            counts[placed_on(cycle)] += 1
        assert set(counts) == {"n0", "n1", "n2", "n3"}
        assert min(counts.values()) > 400
        again = make_runner(Same, objects=NODES, seed=7)
        first = [placed_on(again) for _ in range(20)]
        repeat = make_runner(Same, objects=NODES, seed=7)
        assert first == [placed_on(repeat) for _ in range(20)]


class TestBrokenPlugins:
    @pytest.mark.parametrize(
        ("answer", "text"),
        [
            (5, "filter plugin: BadAnswerError: returned int"),
            (object(), "filter plugin: BadAnswerError: returned object"),
            (Status.error("disk on fire"), 'running "Broken" filter plugin: disk on fire'),
        ],
    )
    def test_nonsense_from_filter(self, answer, text):
        class Broken(Plugin):
            def filter(self, state, pod, node):
                return answer

        failed = unplaced(make_runner(Broken, objects=NODES))
        assert failed.status.code is Code.ERROR
        assert text in failed.message

    def test_wrong_length(self):
        class Broken(Plugin):
            def filter_nodes(self, state, pod, nodes):
                return Verdicts.reject(np.zeros(2, dtype=bool), Status.unschedulable("x"))

        assert "filter_nodes returned Verdicts of 2" in unplaced(make_runner(Broken, objects=NODES)).message

    @pytest.mark.parametrize("value", [float("nan"), "high", None, True])
    def test_nonsense_from_score(self, value):
        class Broken(Plugin):
            def score(self, state, pod, node):
                return value

        failed = unplaced(make_runner(Broken, objects=NODES))
        assert failed.message.startswith('running Score plugin "Broken": BadAnswerError')

    @pytest.mark.parametrize("point", ["pre_filter", "filter", "filter_nodes", "pre_score", "score", "score_nodes"])
    def test_exceptions_name_the_plugin(self, point):
        def explode(self, *_arguments):
            raise RuntimeError("boom")

        broken = type("Broken", (Plugin,), {point: explode})
        classes = (broken,) if "score" in point and point != "pre_score" else (broken, Number)
        failed = unplaced(make_runner(*classes, objects=NODES))
        assert "Broken" in failed.message
        assert "RuntimeError: boom" in failed.message
        assert failed.status.plugin == "Broken"


class TestNominatedPods:
    def test_room_is_kept_for_more_important_pods(self):
        from mooring.plugins.node_resources.fit import NodeResourcesFit

        nominated = make_pod("big").req(cpu="4").priority(10).nominated("n0").obj()
        cycle = make_runner(NodeResourcesFit, objects=(NODES[0], nominated))
        assert unplaced(cycle).message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
        important = make_pod("vip").req(cpu="1").priority(20).obj()
        assert placed_on(cycle, important) == "n0"

    def test_a_nominated_node_is_taken_without_looking_further(self):
        cycle = make_runner(Number, objects=NODES)
        assert placed_on(cycle, make_pod("p").nominated("n1").obj()) == "n1"
        assert placed_on(make_runner(Even, Number, objects=NODES), make_pod("p").nominated("n1").obj()) == "n2"


class TestSampling:
    MANY = tuple(make_node(f"m{number:04d}").capacity(cpu="1").obj() for number in range(1000))

    def test_off_where_all_plugins_are_columnar(self):
        class All(Plugin):
            def score_nodes(self, state, pod, nodes):
                self.handle.seen = len(nodes)
                return 0

        cycle = make_runner(All, objects=self.MANY)
        assert schedule_pod(cycle, POD).feasible == 1000

    def test_on_with_a_per_node_plugin(self):
        asked = []

        class Each(Plugin):
            def filter(self, state, pod, node):
                asked.append(node.name)

        class Same(Plugin):
            def score_nodes(self, state, pod, nodes):
                return 0

        cycle = make_runner(Each, Same, objects=self.MANY)
        assert schedule_pod(cycle, POD).feasible == 420
        assert asked == [f"m{number:04d}" for number in range(420)]
        asked.clear()
        schedule_pod(cycle, POD)
        assert asked[0] == "m0420"

    @pytest.mark.parametrize(("percentage", "feasible"), [(20, 200), (100, 1000), (1, 100)])
    def test_a_setting_overrides(self, percentage, feasible):
        class Same(Plugin):
            def score_nodes(self, state, pod, nodes):
                return 0

        assert schedule_pod(make_runner(Same, objects=self.MANY, percentage=percentage), POD).feasible == feasible


class BrokenOnHighNodes(Plugin):
    """Fails on nodes from 3 on, in columns."""

    def filter_nodes(self, state, pod, nodes):
        return Verdicts.reject(np.array([int(name[1:]) >= 3 for name in nodes.names]), Status.error("broken"))


@pytest.mark.parametrize("first", [Even, Low])
def test_an_error_on_a_node_that_an_earlier_filter_rejects_does_not_count(first):
    """As in kube-scheduler, which does not call the later filter for this node."""
    assert placed_on(make_runner(first, BrokenOnHighNodes, Number, objects=NODES)) == "n2"
    failed = unplaced(make_runner(BrokenOnHighNodes, first, Number, objects=NODES))
    assert failed.message == 'running "BrokenOnHighNodes" filter plugin: broken'
