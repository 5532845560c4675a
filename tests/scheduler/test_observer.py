"""Watching the engine: records, metrics and the story agree with what was decided, and change nothing about it."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bench.workloads import WORKLOADS, node, standing
from mooring.config import PluginSpec, default_config, load_config
from mooring.framework import Code, PermitWait, Plugin, Status
from mooring.framework.points import points_of
from mooring.observe.decision_records import DecisionRecords, best_places
from mooring.observe.scheduler_metrics import SchedulerMetrics
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.decision_log import DecisionLog
from mooring.scheduler.engine import Engine
from mooring.scheduler.observer import Observer
from mooring.scheduler.pod_explanation import explain
from mooring.testing import make_node, make_pod
from tests.log_capture import capture_logs


class OkBinder:
    async def bind(self, binding):
        return None


class BadBinder:
    async def bind(self, binding):
        return Status.error("connection refused")


class Oddity(Plugin):
    """A user's plugin: scores node by node, and does at other points what the test says."""

    answers: dict[str, object] = {}  # noqa: RUF012

    def score(self, state, pod, node):
        return len(node.name) % 7

    def pre_filter(self, state, pod, nodes):
        answer = self.answers.get("pre_filter")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def permit(self, state, pod, node_name):
        return self.answers.get("permit")


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles: [{plugins: {multiPoint: {enabled: [{name: Oddity, weight: 3}]}}}]
"""


def make_engine(*objects, binder=None, answers=None, clock=lambda: 1000.0, **watch):
    specs = {"Oddity": PluginSpec("Oddity", points_of(Oddity), None)}
    config = load_config(CONFIG, source="test", plugins=specs)
    plugin = type("Oddity", (Oddity,), {"answers": answers or {}})
    engine = Engine(
        config,
        plugins={"Oddity": plugin},
        rng=random.Random(0),
        clock=clock,
        binder=binder or OkBinder(),
        observer=Observer(records=DecisionRecords(), metrics=SchedulerMetrics(), clock=clock, **watch),
    )
    for item in objects:
        engine.put(item)
    return engine


def sample(engine, name, **labels):
    return engine.observer.metrics.registry.get_sample_value(name, labels)


NODES = tuple(make_node(f"n{i * '0'}{i}").capacity(cpu=str(2 + i), memory="8Gi", pods="10").obj() for i in range(6))
POD = make_pod("p").req(cpu="1").obj()


@given(
    arrays.arrays(np.int64, st.integers(1, 40), elements=st.integers(-5, 5)),
    st.integers(1, 6),
    st.lists(st.integers(0, 60), max_size=5, unique=True),
)
def test_best_places_are_the_highest_and_the_vector_stays(totals, count, guess):
    chosen = int(totals.argmax())
    before = totals.copy()
    places = best_places(totals, chosen, count, guess)
    assert np.array_equal(totals, before)
    assert places[0] == chosen
    assert len(set(places)) == len(places) == min(count, len(totals))
    assert [before[place] for place in places] == sorted(before, reverse=True)[:count]
    if not guess:
        rest = sorted((-int(total), place) for place, total in enumerate(before) if place != chosen)
        assert places == [chosen, *(place for _, place in rest[: count - 1])]


def test_a_vector_that_cannot_be_written_to():
    totals = np.array([3, 9, 5])
    totals.flags.writeable = False
    assert best_places(totals, 1, 3) == [1, 2, 0]


async def test_a_bound_pod_has_its_scores():
    engine = make_engine(*NODES, POD)
    decided = engine.schedule_one()
    assert await engine.bind(decided) is None
    decision = engine.observer.records.get("default/p")
    assert (decision.node, decision.outcome, decision.attempt) == (decided.node_name, "bound", 1)
    assert (decision.evaluated, decision.feasible, len(decision.candidates)) == (6, 6, 4)
    assert decision.candidates[0].node == decided.node_name
    assert all(each.total == sum(each.scores) for each in decision.candidates)
    totals = [each.total for each in decision.candidates]
    assert totals == sorted(totals, reverse=True)
    assert "Oddity" in decision.scorers
    phases = decision.phases
    assert None not in (phases.pre_filter, phases.filter, phases.score, phases.reserve, phases.bind)


@pytest.mark.parametrize("workload", ["basic", "mixed", "spread", "affinity", "nodeaffinity"])
def test_recorded_scores_are_those_asked_afresh(workload):
    """Whatever was kept from the decision before, the scores are what every plugin says of the node just then."""
    from mooring.columns.nodes import Nodes
    from mooring.framework.state import CycleState

    engine = Engine(default_config(), rng=random.Random(3), observer=Observer(records=DecisionRecords()))
    for number in range(40):
        engine.put(node(number))
    for pod, where in standing(workload, 40):
        engine.cache.table.add_pod(pod, engine.cache.table.nodes[where].name)
    cycle = engine.profiles.first
    for number in range(60):
        pod = WORKLOADS[workload](number)
        state = CycleState()
        before = cycle.pre_filter(state, pod)
        _, feasible = cycle.filtering.diagnose(state, pod, cycle.rows_of(before.names), None)
        cycle.scoring.pre_score(state, pod, Nodes(cycle.table, feasible))
        fresh = cycle.scoring.by_plugin(state, pod, feasible)
        place = {cycle.table.nodes[row].name: place for place, row in enumerate(feasible.tolist())}
        engine.put(pod)
        assert isinstance(engine.schedule_one(), AssumedPod)
        decision = engine.observer.records.get(pod.key)
        assert len(decision.candidates) == min(4, len(feasible))
        assert set(decision.scorers) == set(fresh)
        for candidate in decision.candidates:
            told = dict(zip(decision.scorers, candidate.scores, strict=True))
            assert told == {plugin: int(scores[place[candidate.node]]) for plugin, scores in fresh.items()}


@pytest.mark.parametrize("workload", ["basic", "mixed"])
def test_watching_changes_no_decision(workload):
    def places(watch):
        engine = Engine(default_config(), rng=random.Random(5), observer=watch)
        for number in range(30):
            engine.put(node(number))
        found = []
        for number in range(60):
            engine.put(WORKLOADS[workload](number))
            found.append(engine.schedule_one().node_name)
        return found

    silent = capture_logs
    with silent():
        watched = places(
            Observer(records=DecisionRecords(), metrics=SchedulerMetrics(), decision_log=DecisionLog.at(5))
        )
    assert watched == places(None)


def test_a_pod_without_a_node_has_each_plugins_verdict():
    tainted = make_node("t").capacity(cpu="9", pods="9").taint("k", "v", "NoSchedule").obj()
    engine = make_engine(*NODES[:3], tainted, make_pod("p").req(cpu="50").obj())
    assert isinstance(engine.schedule_one(), FailedAttempt)
    decision = engine.observer.records.get("default/p")
    assert (decision.outcome, decision.node) == ("unschedulable", "")
    assert {(each.plugin, each.reasons, each.count, each.nodes) for each in decision.verdicts} == {
        ("TaintToleration", ("node(s) had untolerated taint(s)",), 1, ("t",)),
        ("NodeResourcesFit", ("Insufficient cpu",), 3, ("n0", "n01", "n002")),
    }
    assert decision.message.startswith("0/4 nodes are available")
    assert decision.preemption.code == "Unschedulable"
    assert decision.preemption.nominated_node == ""


def test_preemption_names_its_victims():
    small = make_node("n").capacity(cpu="2", memory="4Gi", pods="5").obj()
    low = make_pod("low").req(cpu="2").priority(1).node("n").obj()
    high = make_pod("high").req(cpu="2").priority(9).obj()
    engine = make_engine(small, low, high)
    assert isinstance(engine.schedule_one(), FailedAttempt)
    preemption = engine.observer.records.get("default/high").preemption
    assert (preemption.nominated_node, preemption.victims) == ("n", ("default/low",))
    assert sample(engine, "scheduler_preemption_attempts_total") == 1
    assert sample(engine, "scheduler_preemption_victims_count") == 1
    explained = explain(engine, "default/high")
    assert (explained.state, explained.waiting.nominated_node) == ("pending", "n")


async def test_a_failed_binding_is_told():
    engine = make_engine(NODES[0], POD, binder=BadBinder())
    assert isinstance(await engine.bind(engine.schedule_one()), FailedAttempt)
    decision = engine.observer.records.get("default/p")
    assert decision.outcome == "error"
    assert "connection refused" in decision.message
    labels = {"result": "error", "profile": "default-scheduler"}
    assert sample(engine, "scheduler_schedule_attempts_total", **labels) == 1


async def test_what_is_counted_on_the_way_of_a_bound_pod():
    engine = make_engine(*NODES, POD)
    await engine.bind(engine.schedule_one())
    profile = {"profile": "default-scheduler"}
    assert sample(engine, "scheduler_schedule_attempts_total", result="scheduled", **profile) == 1
    for point in ("PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBind", "Bind", "PostBind"):
        count = sample(
            engine,
            "scheduler_framework_extension_point_duration_seconds_count",
            extension_point=point,
            status="Success",
            **profile,
        )
        assert count == 1, point
    assert sample(engine, "scheduler_scheduling_algorithm_duration_seconds_count") == 1
    assert sample(engine, "scheduler_pod_scheduling_attempts_count") == 1
    assert sample(engine, "scheduler_pod_scheduling_sli_duration_seconds_count", attempts="1") == 1
    assert sample(engine, "scheduler_cache_size", type="nodes") == 6
    assert sample(engine, "scheduler_cache_size", type="assumed_pods") == 1
    assert sample(engine, "scheduler_pending_pods", queue="active") == 0
    assert sample(engine, "scheduler_queue_incoming_pods_total", queue="active", event="UnscheduledPodAdd") == 1
    evaluations = sample(
        engine, "scheduler_plugin_evaluation_total", plugin="Oddity", extension_point="Score", **profile
    )
    assert evaluations == 6


@pytest.mark.parametrize(
    ("answer", "code", "result"),
    [
        (Status.unresolvable("no"), Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "unschedulable"),
        (ValueError("broken"), Code.ERROR, "error"),
    ],
)
def test_what_is_counted_when_pre_filter_ends_it(answer, code, result):
    engine = make_engine(NODES[0], POD, answers={"pre_filter": answer})
    assert isinstance(engine.schedule_one(), FailedAttempt)
    labels = {"extension_point": "PreFilter", "status": code.title, "profile": "default-scheduler"}
    assert sample(engine, "scheduler_framework_extension_point_duration_seconds_count", **labels) == 1
    assert sample(engine, "scheduler_schedule_attempts_total", result=result, profile="default-scheduler") == 1
    (verdict,) = engine.observer.records.get("default/p").verdicts
    assert verdict.plugin == "Oddity"


async def test_waiting_at_permit_is_timed():
    engine = make_engine(NODES[0], POD, answers={"permit": PermitWait(60)})
    decided = engine.schedule_one()
    explained = explain(engine, "default/p")
    assert (explained.state, explained.node) == ("held", "n0")
    engine.profiles.waiting_pods.get(decided.pod.uid).allow("Oddity")
    assert await engine.bind(decided) is None
    assert sample(engine, "scheduler_permit_wait_duration_seconds_count", result="Success") == 1


# Why


async def test_states_of_a_pod():
    gated = make_pod("gated").gate("example.com/wait").obj()
    big = make_pod("big").req(cpu="50").obj()
    engine = make_engine(NODES[0], POD, gated, big)
    assert explain(engine, "default/nobody") is None
    untried = explain(engine, "default/p")
    assert (untried.state, untried.decision, untried.waiting.queue) == ("pending", None, "active")
    held = explain(engine, "default/gated")
    assert (held.state, held.waiting.gated_by, held.waiting.gates) == ("gated", "SchedulingGates", ["example.com/wait"])
    assert [wake.plugin for wake in held.waiting.woken_by] == ["SchedulingGates"]
    for outcome in (engine.schedule_one(), engine.schedule_one()):
        if isinstance(outcome, AssumedPod):
            await engine.bind(outcome)
    bound = explain(engine, "default/p")
    assert (bound.state, bound.node, bound.note) == ("bound", "n0", "")
    pending = explain(engine, "default/big")
    assert (pending.state, pending.waiting.queue) == ("pending", "unschedulable")
    assert pending.waiting.backoff_ends == "1970-01-01T00:16:41Z"
    assert pending.waiting.retried_by == "1970-01-01T00:21:40Z"
    events = {wake.plugin: wake.events for wake in pending.waiting.woken_by}
    assert events == {
        "NodeResourcesFit": [
            "Pod deleted, asks for less",
            "Node added, allocatable changed",
            "DeviceClass added, changed",
        ]
    }
    engine.remove(big)
    assert explain(engine, "default/big").state == "gone"


def test_a_pod_that_somebody_else_bound():
    engine = make_engine(NODES[0], make_pod("other").node("n0").obj())
    explained = explain(engine, "default/other")
    assert (explained.state, explained.node, explained.decision) == ("bound", "n0", None)
    assert "Another scheduler" in explained.note


# The story


def test_the_story_at_v5():
    tainted = make_node("t").capacity(cpu="9", pods="9").taint("k", "v", "NoSchedule").obj()
    with capture_logs() as lines:
        engine = make_engine(
            *NODES[:2], tainted, POD, make_pod("big").req(cpu="50").obj(), decision_log=DecisionLog.at(5)
        )
        engine.schedule_one()
        engine.schedule_one()
    told = [(line["event"], line["pod"], line.get("node")) for line in lines]
    assert told[:2] == [
        ("Add event for unscheduled pod", "default/p", None),
        ("Add event for unscheduled pod", "default/big", None),
    ]
    assert ("Attempting to schedule pod", "default/p", None) in told
    assert ("Node rejected", "default/p", "t") in told
    assert ("Node passes all filters", "default/p", "n0") in told
    assert ("Calculated node's final score", "default/p", "n01") in told
    assert ("Node rejected", "default/big", "n0") in told
    assert any(line["event"] == "Attempting to bind pod to node" and line["node"] for line in lines)
    scored = {line["plugin"] for line in lines if line["event"] == "Plugin scored node for pod"}
    assert {"NodeResourcesFit", "Oddity"} <= scored
    rejected = next(line for line in lines if line["event"] == "Node rejected" and line["node"] == "t")
    assert rejected["plugin"] == "TaintToleration"


@pytest.mark.parametrize(
    ("verbosity", "events"),
    [
        (2, set()),
        (3, {"Add event for unscheduled pod", "Attempting to schedule pod"}),
        (
            4,
            {
                "Add event for unscheduled pod",
                "About to try and schedule pod",
                "Attempting to schedule pod",
                "Attempting to bind pod to node",
            },
        ),
    ],
)
def test_less_is_told_at_lower_verbosity(verbosity, events):
    with capture_logs() as lines:
        engine = make_engine(*NODES, POD, decision_log=DecisionLog.at(verbosity))
        engine.schedule_one()
    assert {line["event"] for line in lines} == events


def test_the_story_ends_when_the_pod_is_seen_on_its_node():
    engine = make_engine(*NODES, POD, decision_log=DecisionLog.at(3))
    engine.schedule_one()
    with capture_logs() as lines:
        for _ in range(2):  # of an update nothing is told
            engine.put(make_pod("p").node("n0").obj())
        engine.put(make_pod("somebody-elses").node("n0").obj())
    assert [(line["event"], line["pod"]) for line in lines] == [
        ("Delete event for unscheduled pod", "default/p"),
        ("Add event for scheduled pod", "default/p"),
        ("Add event for scheduled pod", "default/somebody-elses"),
    ]


def test_many_nodes_are_summed_up():
    nodes = [make_node(f"n{i}").capacity(cpu="1", pods="5").obj() for i in range(80)]
    with capture_logs() as lines:
        engine = make_engine(*nodes, make_pod("big").req(cpu="50").obj(), decision_log=DecisionLog.at(5))
        engine.schedule_one()
    rejected = [line for line in lines if line["event"].startswith("Node")]
    assert [(line["event"], line["nodes"]) for line in rejected] == [("Nodes rejected", 80)]
