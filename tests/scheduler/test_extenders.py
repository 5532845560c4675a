"""What extenders are asked and what their answers do to decisions, without HTTP."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from mooring.api.codec import cache_json, raw_json
from mooring.config import load_config
from mooring.framework import Status
from mooring.framework.api_clients import Binding
from mooring.observe.decision_records import DecisionRecords
from mooring.observe.scheduler_metrics import SchedulerMetrics
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt, PendingAttempt
from mooring.scheduler.decision_log import DecisionLog
from mooring.scheduler.engine import Engine
from mooring.scheduler.extenders import Extenders, Reply, Request
from mooring.scheduler.observer import Observer
from mooring.scheduler.pod_explanation import explain
from mooring.scheduler.queue import Place
from mooring.testing import make_node, make_pod
from tests.log_capture import capture_logs

Answer = Callable[[dict[str, Any]], Any]
ONE = {"urlPrefix": "http://one/x/", "nodeCacheCapable": True}
TWO = {"urlPrefix": "http://two", "nodeCacheCapable": True}


class FakeExtenders:
    """Answers by URL."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def send(self, request: Request) -> Reply:
        body = json.loads(request.body())
        self.asked.append((request.url, body))
        await asyncio.sleep(0)
        answer = self.answers[request.url]
        if callable(answer):
            answer = answer(body)
        if isinstance(answer, Reply):
            return answer
        return Reply(body=answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    def urls(self) -> list[str]:
        return [url for url, _ in self.asked]


class FakeBinder:
    def __init__(self) -> None:
        self.bound: list[Binding] = []

    def bind(self, binding: Binding) -> Status | None:
        self.bound.append(binding)
        return None


class World:
    """An engine with extenders and three nodes of falling size: without extenders, n0 is the best."""

    def __init__(self, extenders: list[dict[str, Any]], answers: dict[str, Any], *, nodes: int = 3) -> None:
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "extenders": extenders,
        }
        loaded = load_config(json.dumps(config), source="config")
        self.fake = FakeExtenders(answers)
        self.binder = FakeBinder()
        self.observer = Observer(records=DecisionRecords(), metrics=SchedulerMetrics())
        self.engine = Engine(
            loaded,
            rng=random.Random(0),
            binder=self.binder,
            observer=self.observer,
            extenders=Extenders(loaded.extenders, self.fake.send),
        )
        for number in range(nodes):
            cpu = str(16 - 4 * number) if nodes == 3 else "8"
            self.engine.put(make_node(f"n{number}").capacity(cpu=cpu, memory="32Gi", pods="110").obj())

    def put(self, *pods: Any) -> None:
        for pod in pods:
            self.engine.put(pod.obj() if hasattr(pod, "obj") else pod)

    def schedule(self) -> AssumedPod | FailedAttempt | None:
        return asyncio.run(self._schedule())

    async def _schedule(self) -> AssumedPod | FailedAttempt | None:
        outcome = self.engine.schedule_one()
        return await self.engine.complete(outcome) if isinstance(outcome, PendingAttempt) else outcome

    def decide(self, pod: Any = None) -> AssumedPod | FailedAttempt | None:
        self.put(pod or make_pod("p").req(cpu="1"))
        return self.schedule()


def names(body: dict[str, Any]) -> dict[str, Any]:
    return {"NodeNames": body["NodeNames"]}


def without(*refused: str, why: str = "no", key: str = "FailedNodes") -> Answer:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        left = [name for name in body["NodeNames"] if name not in refused]
        return {"NodeNames": left, key: dict.fromkeys(refused, why)}

    return answer


def test_filter_is_asked_about_names_and_obeyed() -> None:
    world = World([{**ONE, "filterVerb": "filter"}], {"http://one/x/filter": without("n0", "n2")})
    decided = world.decide()
    assert isinstance(decided, AssumedPod)
    assert decided.node_name == "n1"
    ((url, body),) = world.fake.asked
    assert url == "http://one/x/filter"
    assert set(body) == {"Pod", "Nodes", "NodeNames"}
    assert body["Nodes"] is None
    assert sorted(body["NodeNames"]) == ["n0", "n1", "n2"]
    assert body["Pod"]["metadata"]["name"] == "p"
    assert "kind" not in body["Pod"]


def test_filter_is_shown_whole_nodes_unless_it_has_its_own() -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        return {"nodes": {"ITEMS": [node for node in body["Nodes"]["items"] if node["metadata"]["name"] == "n2"]}}

    world = World([{"urlPrefix": "http://one", "filterVerb": "f"}], {"http://one/f": answer})
    decided = world.decide()
    assert isinstance(decided, AssumedPod)
    assert decided.node_name == "n2"
    body = world.fake.asked[0][1]
    assert body["NodeNames"] is None
    assert [node["status"]["allocatable"]["cpu"] for node in body["Nodes"]["items"]] == ["16", "12", "8"]


def test_extenders_are_asked_one_after_the_other_those_that_may_fail_last() -> None:
    world = World(
        [{**ONE, "filterVerb": "f", "ignorable": True}, {**TWO, "filterVerb": "f"}],
        {"http://one/x/f": names, "http://two/f": without("n1")},
    )
    decided = world.decide()
    assert isinstance(decided, AssumedPod)
    assert world.fake.urls() == ["http://two/f", "http://one/x/f"]
    assert sorted(world.fake.asked[1][1]["NodeNames"]) == ["n0", "n2"]


def test_when_nothing_is_left_the_rest_is_not_asked_and_any_event_wakes_the_pod() -> None:
    everything = without("n0", "n1", "n2", why="taken")
    world = World(
        [{**ONE, "filterVerb": "f"}, {**TWO, "filterVerb": "f"}], {"http://one/x/f": everything, "http://two/f": names}
    )
    failed = world.decide()
    assert isinstance(failed, FailedAttempt)
    assert world.fake.urls() == ["http://one/x/f"]
    assert failed.failure.message.startswith("0/3 nodes are available: 3 taken. ")
    assert failed.failure.rejectors == {"Extender"}
    assert failed.reason == "Unschedulable"
    world.put(make_node("n9").capacity(cpu="1", pods="1"))
    found = world.engine.queue.find("default/p")
    assert found is not None
    assert found[0] is not Place.UNSCHEDULABLE


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"NodeNames": []}, "0/3 nodes are available: preemption: "),
        (
            {"NodeNames": [], "FailedNodes": {"n0": "a", "n1": "b"}},
            "0/3 nodes are available: 1 a, 1 b. preemption: ",
        ),
        (
            {"FailedNodes": {"n0": "soft", "n1": "soft"}, "FailedAndUnresolvableNodes": {"n0": "hard"}},
            "0/3 nodes are available: 1 hard, 1 soft. ",
        ),
        ({"NodeNames": None, "FailedNodes": {"ghost": "boo"}}, "0/3 nodes are available: 1 boo. "),
    ],
    ids=["silently", "some", "both maps", "a stranger"],
)
def test_reasons(answer: dict[str, Any], message: str) -> None:
    failed = World([{**ONE, "filterVerb": "f"}], {"http://one/x/f": answer}).decide()
    assert isinstance(failed, FailedAttempt)
    assert failed.failure.message.startswith(message)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"Error": "out of order"}, "out of order"),
        (Reply(error="failed f with extender at URL http://one/x/f, code 500"), "failed f with extender at URL"),
        (b"", "EOF"),
        (b"<html>", "invalid character '<' looking for beginning of value"),
        (b"nonsense", "invalid character 'o' in literal null (expecting 'u')"),
        (b'{"NodeNames": ["n0"', "unexpected EOF"),
        (b"[]", "json: cannot unmarshal array into Go value of type v1.ExtenderFilterResult"),
        ({"NodeNames": "n0"}, "json: cannot unmarshal string into Go struct field ExtenderFilterResult.NodeNames"),
        ({"FailedNodes": {"n0": 3}}, "json: cannot unmarshal number into Go struct field"),
        ({"NodeNames": ["n0", "n7"]}, 'extender "http://one/x/" claims a filtered node "n7" which is not found in the'),
    ],
)
def test_a_filter_that_fails_fails_the_attempt_unless_it_may(answer: Any, message: str) -> None:
    failed = World([{**ONE, "filterVerb": "f"}], {"http://one/x/f": answer}).decide()
    assert isinstance(failed, FailedAttempt)
    assert failed.failure.message.startswith(message)
    assert failed.reason == "SchedulerError"
    assert failed.failure.rejectors == frozenset()
    allowed = World([{**ONE, "filterVerb": "f", "ignorable": True}], {"http://one/x/f": answer}).decide()
    assert isinstance(allowed, AssumedPod)


def test_what_follows_the_first_value_is_of_no_interest() -> None:
    world = World([{**ONE, "filterVerb": "f"}], {"http://one/x/f": b' {"nodenames":["n1"]} trailing'})
    decided = world.decide()
    assert isinstance(decided, AssumedPod)
    assert decided.node_name == "n1"


def scores(**each: int) -> list[dict[str, Any]]:
    return [{"Host": name, "Score": score} for name, score in each.items()]


@pytest.mark.parametrize(
    ("first", "second", "node"),
    [
        (scores(n2=10), scores(n1=1), "n2"),
        (scores(n2=10), scores(n1=10, n2=-10), "n1"),
        (b"broken", scores(n1=9), "n1"),
        (scores(n0=10), {"not": "a list"}, "n0"),
        ([{"Host": "n2", "Score": 10.5}], scores(n1=9), "n1"),
        (scores(elsewhere=10, n2=9), None, "n2"),
        (scores(n2=5) + scores(n2=5), scores(n1=2), "n2"),
    ],
)
def test_scores_are_weighed_and_added_and_failures_are_passed_over(first: Any, second: Any, node: str) -> None:
    extenders = [{**ONE, "prioritizeVerb": "p", "weight": 2}, {**TWO, "prioritizeVerb": "p", "weight": 5}]
    world = World(extenders, {"http://one/x/p": first, "http://two/p": second})
    decided = world.decide()
    assert isinstance(decided, AssumedPod)
    assert decided.node_name == node
    assert world.fake.urls() == ["http://one/x/p", "http://two/p"]


def test_one_node_needs_no_scores() -> None:
    extenders = [{**ONE, "filterVerb": "f", "prioritizeVerb": "p", "weight": 1}]
    world = World(extenders, {"http://one/x/f": {"NodeNames": ["n2"]}})
    decided = world.decide()
    assert isinstance(decided, AssumedPod)
    assert (decided.node_name, decided.feasible) == ("n2", 1)


def test_only_pods_that_ask_for_what_is_managed_are_asked_about() -> None:
    managed = {"managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}]}
    world = World([{**ONE, "filterVerb": "f", **managed}], {"http://one/x/f": without("n0")})
    world.put(make_pod("plain").req(cpu="1"))
    decided = world.engine.schedule_one()
    assert isinstance(decided, AssumedPod)
    assert decided.node_name == "n0"
    gpu = make_pod("gpu").req({"cpu": "1", "example.com/gpu": "3"})
    decided = world.decide(gpu)
    assert isinstance(decided, AssumedPod), "no node has any, but NodeResourcesFit does not look at it"
    assert decided.node_name == "n1"
    assert len(world.fake.asked) == 1


def victims(world: World) -> None:
    """Fill the nodes with unimportant pods, and make an important one that fits nowhere."""
    for number in range(3):
        node = f"n{number}"
        world.put(make_pod(f"low{number}").req(cpu="8").priority(number).node(node))
    world.put(make_pod("high").req(cpu="9").priority(100))


def test_preemption_is_left_to_extenders_to_agree_to() -> None:
    def agree(body: dict[str, Any]) -> dict[str, Any]:
        found = body["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {name: found[name] for name in found if name != "n0"}}

    world = World([{**ONE, "preemptVerb": "pre"}], {"http://one/x/pre": agree})
    victims(world)
    failed = world.schedule()
    assert isinstance(failed, FailedAttempt)
    assert failed.nominated_node == "n1"
    (low1,) = (info.pod for info in world.engine.cache.table.pods.values() if info.name == "low1")
    assert failed.victims == (low1.uid,)
    ((_, body),) = world.fake.asked
    assert set(body) == {"Pod", "NodeNameToVictims", "NodeNameToMetaVictims"}
    assert body["NodeNameToVictims"] is None
    assert body["NodeNameToMetaVictims"]["n1"] == {"Pods": [{"UID": low1.uid}], "NumPDBViolations": 0}
    assert sorted(body["NodeNameToMetaVictims"]) == ["n0", "n1"], "n2 is too small even when it is empty"


def test_preemption_shows_whole_victims_to_extenders_without_nodes_of_their_own() -> None:
    world = World(
        [{"urlPrefix": "http://one", "preemptVerb": "pre"}], {"http://one/pre": {"nodeNameToMetaVictims": {}}}
    )
    victims(world)
    failed = world.schedule()
    assert isinstance(failed, FailedAttempt)
    body = world.fake.asked[0][1]
    assert body["NodeNameToMetaVictims"] is None
    assert [pod["metadata"]["name"] for pod in body["NodeNameToVictims"]["n0"]["Pods"]] == ["low0"]
    assert failed.failure.message.endswith("preemption: no candidate node for preemption")
    assert failed.nominated_node is None


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Reply(error="it broke"), "it broke"),
        ({"NodeNameToMetaVictims": {"n9": {}}}, 'nodeinfo not found for node name "n9"'),
        ({"NodeNameToMetaVictims": {"n0": {}}}, 'expected at least one victim pod on node "n0"'),
        (
            {"NodeNameToMetaVictims": {"n0": {"Pods": [{"UID": "x"}]}}},
            "claims to preempt pod (UID: &{x}) on node: n0, but the pod is not found on that node",
        ),
    ],
)
def test_preemption_fails_where_an_extender_does_unless_it_may(answer: Any, message: str) -> None:
    world = World([{**ONE, "preemptVerb": "pre"}], {"http://one/x/pre": answer})
    victims(world)
    failed = world.schedule()
    assert isinstance(failed, FailedAttempt)
    assert failed.failure.message.endswith(message)
    assert failed.victims == ()
    world = World([{**ONE, "preemptVerb": "pre", "ignorable": True}], {"http://one/x/pre": answer})
    victims(world)
    failed = world.schedule()
    assert isinstance(failed, FailedAttempt)
    nothing_left = answer == {"NodeNameToMetaVictims": {"n0": {}}}
    assert failed.nominated_node == (None if nothing_left else "n0")


def test_nodes_an_extender_turned_down_can_be_made_room_on_unless_it_says_no() -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        return {"FailedNodes": {"n0": "full"}, "FailedAndUnresolvableNodes": {"n1": "never", "n2": "never"}}

    world = World([{**ONE, "filterVerb": "f"}], {"http://one/x/f": answer})
    for number in range(3):
        world.put(make_pod(f"low{number}").req(cpu="1").node(f"n{number}"))
    failed = world.decide(make_pod("high").req(cpu="1").priority(10))
    assert isinstance(failed, FailedAttempt)
    assert failed.failure.message.startswith("0/3 nodes are available: 1 full, 2 never. ")
    assert 'expected at least one victim pod on node "n0"' in failed.failure.message


def test_the_nominated_node_is_asked_about_first_and_alone() -> None:
    world = World([{**ONE, "filterVerb": "f", "prioritizeVerb": "p", "weight": 1}], {"http://one/x/f": names})
    decided = world.decide(make_pod("p").req(cpu="1").nominated("n2"))
    assert isinstance(decided, AssumedPod)
    assert decided.node_name == "n2"
    assert [body["NodeNames"] for _, body in world.fake.asked] == [["n2"]]


def test_a_nominated_node_that_the_extender_refuses_is_given_up() -> None:
    world = World([{**ONE, "filterVerb": "f"}], {"http://one/x/f": without("n2")})
    decided = world.decide(make_pod("p").req(cpu="1").nominated("n2"))
    assert isinstance(decided, AssumedPod)
    assert decided.node_name == "n0"
    assert [len(body["NodeNames"]) for _, body in world.fake.asked] == [1, 3]


def test_an_extender_binds_instead_of_the_plugins() -> None:
    world = World([{**ONE, "bindVerb": "bind"}], {"http://one/x/bind": {}})
    decided = world.decide()
    assert isinstance(decided, AssumedPod)
    assert asyncio.run(world.engine.bind(decided)) is None
    uid = decided.pod.uid
    assert world.fake.asked == [
        ("http://one/x/bind", {"PodName": "p", "PodNamespace": "default", "PodUID": uid, "Node": "n0"})
    ]
    assert world.binder.bound == []


@pytest.mark.parametrize("answer", [{"Error": "not today"}, Reply(error="not today")])
@pytest.mark.parametrize("ignorable", [False, True])
def test_a_failed_bind_takes_the_decision_back_unless_somebody_else_may_bind(answer: Any, ignorable: bool) -> None:
    world = World([{**ONE, "bindVerb": "bind", "ignorable": ignorable}], {"http://one/x/bind": answer})
    decided = world.decide()
    assert isinstance(decided, AssumedPod)
    failed = asyncio.run(world.engine.bind(decided))
    if ignorable:
        assert failed is None
        assert len(world.binder.bound) == 1
        return
    assert failed is not None
    assert failed.failure.message == "not today"
    assert failed.reason == "SchedulerError"
    assert not world.engine.cache.assumed


def test_the_cluster_does_not_change_under_an_attempt() -> None:
    """Events that happen while an extender thinks are seen by the next attempt, as with kube-scheduler's snapshot."""
    world = World([{**ONE, "filterVerb": "f"}], {"http://one/x/f": names})

    async def play() -> None:
        world.put(make_pod("p").req(cpu="1"))
        asking = world.engine.schedule_one()
        assert isinstance(asking, PendingAttempt)
        world.engine.remove(make_node("n0").obj())
        world.put(make_node("n5").capacity(cpu="64"))
        assert sorted(world.engine.cache.table.row_of) == ["n0", "n1", "n2"]
        outcome = await world.engine.complete(asking)
        assert isinstance(outcome, AssumedPod)
        assert sorted(world.engine.cache.table.row_of) == ["n1", "n2", "n5"]

    asyncio.run(play())


def test_a_bind_that_fails_meanwhile_is_undone_when_the_attempt_is_over() -> None:
    world = World([{**ONE, "filterVerb": "f", "managedResources": [{"name": "x/y"}]}], {"http://one/x/f": names})
    world.binder.bind = lambda binding: Status.error("conflict")  # type: ignore[method-assign]

    async def play() -> None:
        world.put(make_pod("first").req(cpu="1"), make_pod("second").req({"cpu": "1", "x/y": "1"}))
        for number in range(3):
            world.put(make_node(f"n{number}").capacity({"cpu": "16", "memory": "32Gi", "pods": "10", "x/y": "4"}))
        first = world.engine.schedule_one()
        assert isinstance(first, AssumedPod)
        asking = world.engine.schedule_one()
        assert isinstance(asking, PendingAttempt)
        binding = asyncio.ensure_future(world.engine.bind(first))
        await asyncio.sleep(0.01)
        assert first.pod.uid in world.engine.cache.assumed
        await world.engine.complete(asking)
        assert await binding is not None
        assert first.pod.uid not in world.engine.cache.assumed

    asyncio.run(play())


def test_a_large_cluster_is_sampled_as_kube_scheduler_does() -> None:
    world = World([{**ONE, "filterVerb": "f"}], {"http://one/x/f": names}, nodes=300)
    world.decide()
    assert [len(body["NodeNames"]) for _, body in world.fake.asked] == [300 * 48 // 100]


def test_extenders_are_in_records_and_metrics() -> None:
    extenders = [{**ONE, "filterVerb": "f", "prioritizeVerb": "p", "weight": 3}]
    world = World(extenders, {"http://one/x/f": without("n0", why="busy"), "http://one/x/p": scores(n2=10)})
    decided = world.decide()
    assert isinstance(decided, AssumedPod)
    assert decided.node_name == "n2"
    explained = explain(world.engine, "default/p")
    assert explained is not None
    assert explained.decision is not None
    best, second = explained.decision.candidates
    assert (best.node, best.scores["http://one/x/"], second.scores["http://one/x/"]) == ("n2", 300, 0)
    assert best.total == sum(best.scores.values())
    (verdict,) = explained.decision.verdicts
    assert (verdict.plugin, verdict.reasons, verdict.examples) == ("http://one/x/", ["busy"], ["n0"])
    assert world.observer.metrics is not None
    text = world.observer.metrics.render()[0].decode()
    labels = 'extender="http://one/x/",result="success",verb="f"'
    assert f"mooring_extender_request_duration_seconds_count{{{labels}}} 1.0" in text


def test_the_story_tells_what_extenders_said() -> None:
    extenders = [
        {**ONE, "filterVerb": "f", "prioritizeVerb": "p", "weight": 3},
        {**TWO, "prioritizeVerb": "p", "weight": 1},
    ]
    answers = {
        "http://one/x/f": without("n0", why="busy"),
        "http://one/x/p": scores(n2=10),
        "http://two/p": Reply(error="it broke"),
    }
    world = World(extenders, answers)
    world.observer.decision_log = DecisionLog.at(5)
    with capture_logs() as lines:
        world.decide()
    told = [line for line in lines if "extender" in line]
    assert [(line["event"], line["extender"]) for line in told] == [
        ("Extender rejected node", "http://one/x/"),
        ("Extender scored node for pod", "http://one/x/"),
        ("Extender scored node for pod", "http://one/x/"),
        ("Extender failed", "http://two"),
    ]
    assert (told[0]["node"], told[0]["reason"], told[3]["error"]) == ("n0", "busy", "it broke")


def test_a_pending_pod_names_the_extender() -> None:
    world = World([{**ONE, "filterVerb": "f"}], {"http://one/x/f": without("n0", "n1", "n2", why="busy")})
    world.decide()
    explained = explain(world.engine, "default/p")
    assert explained is not None
    assert explained.decision is not None
    assert explained.waiting is not None
    assert [(each.plugin, each.reasons, each.nodes) for each in explained.decision.verdicts] == [
        ("http://one/x/", ["busy"], 3)
    ]
    assert [wake.plugin for wake in explained.waiting.woken_by] == ["Extender"]


def test_objects_are_shown_as_they_were_read() -> None:
    node, pod = make_node("n").obj(), make_pod("p").obj()
    text = (
        b'{"kind":"%s","apiVersion":"v1","metadata":{"name":"x","managedFields":[1],"selfLink":"s"},'
        b'"spec":{"odd":{"field":[1]}}}'
    )
    cache_json(node, text % b"Node")
    cache_json(pod, text % b"Pod")
    shown = {"metadata": {"name": "x", "selfLink": "s"}, "spec": {"odd": {"field": [1]}}}
    assert json.loads(bytes(raw_json(pod))) == shown
    shown["metadata"]["managedFields"] = [1]  # kube-scheduler drops it of pods only
    assert json.loads(bytes(raw_json(node))) == shown
