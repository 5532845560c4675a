"""The engine: from events to decisions, through reserve, permit and bind, without any I/O."""

from __future__ import annotations

import random

import pytest

from mooring.config import load_config
from mooring.framework import Code, PermitWait, Plugin, Status
from mooring.framework.api_clients import Binding
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.engine import Engine
from mooring.scheduler.queue import Place
from mooring.testing import make_node, make_pod


class Recorder(Plugin):
    """Notes the calls of all late points."""

    name = "Recorder"
    calls: list[str] = []  # noqa: RUF012

    def setup(self):
        self.answers = self.args if isinstance(self.args, dict) else {}

    def _note(self, point):
        self.calls.append(point)
        return self.answers.get(point)

    def reserve(self, state, pod, node_name):
        return self._note("reserve")

    def unreserve(self, state, pod, node_name):
        self._note("unreserve")

    def permit(self, state, pod, node_name):
        return self._note("permit")

    async def pre_bind(self, state, pod, node_name):
        return self._note("pre_bind")

    def bind(self, state, pod, node_name):
        answer = self._note("bind")
        return answer if answer is not None else Status.skip()

    def post_bind(self, state, pod, node_name):
        self._note("post_bind")


class FakeBinder:
    def __init__(self) -> None:
        self.bound: list[Binding] = []

    def bind(self, binding: Binding) -> Status | None:
        self.bound.append(binding)
        return None


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [{name: Recorder}]}
"""


def make_engine(answers=None, *objects, binder=None):
    from mooring.config import PluginSpec
    from mooring.framework.points import points_of

    specs = {"Recorder": PluginSpec("Recorder", points_of(Recorder), None)}
    config = load_config(CONFIG, source="test", plugins=specs)
    Recorder.calls.clear()
    answered = type("Recorder", (Recorder,), {"setup": lambda self: setattr(self, "answers", answers or {})})
    now = [1000.0]
    engine = Engine(
        config,
        plugins={"Recorder": answered},
        clock=lambda: now[0],
        rng=random.Random(0),
        binder=binder or FakeBinder(),
    )
    for item in objects:
        engine.put(item)
    return engine, now


NODE = make_node("n").capacity(cpu="2", memory="4Gi", pods="5").obj()
POD = make_pod("p").req(cpu="1").obj()


async def test_a_pod_goes_all_the_way():
    binder = FakeBinder()
    engine, _ = make_engine(None, NODE, POD, binder=binder)
    decided = engine.schedule_one()
    assert isinstance(decided, AssumedPod)
    assert (decided.node_name, decided.evaluated, decided.feasible) == ("n", 1, 1)
    assert decided.pod.node_name == "n"
    assert await engine.bind(decided) is None
    assert [(binding.name, binding.target.name) for binding in binder.bound] == [("p", "n")]
    assert Recorder.calls == ["reserve", "permit", "pre_bind", "post_bind"]  # DefaultBinder comes first at Bind
    assert engine.queue.pending() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}


@pytest.mark.parametrize(
    ("point", "calls", "reason"),
    [
        ("reserve", ["reserve", "unreserve"], "Unschedulable"),
        ("permit", ["reserve", "permit", "unreserve"], "Unschedulable"),
    ],
)
def test_turned_down_before_binding(point, calls, reason):
    engine, _ = make_engine({point: Status.unschedulable("no thanks")}, NODE, POD)
    failed = engine.schedule_one()
    assert isinstance(failed, FailedAttempt)
    assert failed.reason == reason
    assert failed.failure.message == "0/1 nodes are available: 1 no thanks."
    assert failed.failure.rejectors == {"Recorder"}
    assert Recorder.calls == calls
    assert engine.cache.table.pods == {}
    assert engine.queue.find("default/p")[0] is Place.UNSCHEDULABLE


class BrokenBinder:
    async def bind(self, binding: Binding) -> Status:
        raise ConnectionError("API server on holiday")


@pytest.mark.parametrize(
    ("answers", "binder"),
    [({"pre_bind": Status.error("API server on holiday")}, FakeBinder()), ({}, BrokenBinder())],
)
async def test_a_broken_binding_is_undone(answers, binder):
    engine, _ = make_engine(answers, NODE, POD, binder=binder)
    decided = engine.schedule_one()
    failed = await engine.bind(decided)
    assert failed is not None
    assert failed.reason == "SchedulerError"
    assert "API server on holiday" in failed.failure.message
    assert engine.cache.table.pods == {}
    assert "unreserve" in Recorder.calls
    assert engine.queue.find("default/p")[0] is Place.BACKOFF


async def test_permit_waits_until_allowed():
    import asyncio

    engine, _ = make_engine({"permit": PermitWait(30)}, NODE, POD)
    decided = engine.schedule_one()
    assert decided.waits
    task = asyncio.create_task(engine.bind(decided))
    await asyncio.sleep(0)
    waiting = engine.profiles.waiting_pods.get(POD.uid)
    assert waiting.pending_plugins == ("Recorder",)
    waiting.allow("Recorder")
    assert await task is None
    assert len(engine.profiles.waiting_pods) == 0


async def test_permit_times_out():
    import asyncio

    engine, now = make_engine({"permit": PermitWait(30)}, NODE, POD)
    decided = engine.schedule_one()
    task = asyncio.create_task(engine.bind(decided))
    await asyncio.sleep(0)
    now[0] += 31
    engine.profiles.waiting_pods.expire(now[0])
    failed = await task
    assert failed.failure.status.code is Code.UNSCHEDULABLE
    assert "rejected due to timeout after waiting 30s at plugin Recorder" in failed.failure.message


def test_preemption_nominates_and_names_the_victims():
    low = make_pod("low").req(cpu="2").node("n").priority(1).obj()
    engine, _ = make_engine(None, NODE, low)
    engine.put(make_pod("high").req(cpu="2").priority(10).obj())
    failed = engine.schedule_one()
    assert isinstance(failed, FailedAttempt)
    assert (failed.nominated_node, failed.victims) == ("n", (low.uid,))
    engine.remove(low)
    assert engine.queue.find("default/high")[0] in (Place.BACKOFF, Place.ACTIVE)
    decided = engine.schedule_one()
    assert decided is not None
    assert decided.node_name == "n"


def test_an_event_that_helps_wakes_a_pod():
    engine, now = make_engine(None, make_node("tiny").capacity(cpu="500m", pods="5").obj(), POD)
    assert isinstance(engine.schedule_one(), FailedAttempt)
    assert engine.queue.find("default/p")[0] is Place.UNSCHEDULABLE
    engine.put(make_node("still-tiny").capacity(cpu="600m", pods="5").obj())
    assert engine.queue.find("default/p")[0] is Place.UNSCHEDULABLE
    engine.put(NODE)
    assert engine.queue.find("default/p")[0] is Place.BACKOFF
    now[0] += 5
    engine.queue.tick()
    assert engine.schedule_one().node_name == "n"


def test_pods_of_other_schedulers_and_finished_pods_are_left_alone():
    engine, _ = make_engine(None, NODE)
    engine.put(make_pod("other").scheduler("someone-else").obj())
    engine.put(make_pod("done").phase("Succeeded").node("n").obj())
    assert engine.schedule_one() is None
    assert engine.cache.table.pods == {}


def test_a_binding_seen_by_the_watch_confirms_the_assumption():
    engine, _ = make_engine(None, NODE, POD)
    decided = engine.schedule_one()
    assert engine.cache.assumed == {POD.uid}
    engine.put(decided.pod)
    assert engine.cache.assumed == set()
    assert engine.cache.table.check() == []


def test_a_queue_sort_that_breaks_harms_nobody():
    from mooring.config import PluginSpec

    class Sorter(Plugin):
        def less(self, a, b):
            raise RuntimeError("boom")

    text = CONFIG.replace(
        "multiPoint: {enabled: [{name: Recorder}]}",
        "queueSort: {enabled: [{name: Sorter}], disabled: [{name: PrioritySort}]}\n"
        "    multiPoint: {disabled: [{name: PrioritySort}]}",
    )
    config = load_config(text, source="test", plugins={"Sorter": PluginSpec("Sorter", frozenset({"queueSort"}), None)})
    told = []
    engine = Engine(config, plugins={"Sorter": Sorter}, on_error=lambda *what: told.append(what), binder=FakeBinder())
    engine.put(NODE)
    for name in ("one", "two", "three"):
        engine.put(make_pod(name).req(cpu="100m").obj())
    placed = [engine.schedule_one().pod.name for _ in range(3)]
    assert sorted(placed) == ["one", "three", "two"]
    assert told[0][:2] == ("Sorter", "less")
