"""Which event wakes which pod."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.pod import Pod
from mooring.framework import ActionType, ClusterEvent, Hint
from mooring.framework.events import CATCH_ALL
from mooring.releases import V1_36
from mooring.scheduler.queue.queued_pod import QueueCounters, QueuedPod
from mooring.scheduler.queue.queueing_hints import Event, Interests, Strategy
from mooring.testing import make_node, make_pod
from tests.scheduler.queue.helpers import PROFILE, Asked, on

A = ActionType
SKIP, LATER, NOW = Strategy


def make_interests(hints: dict[str, list[ClusterEvent]], profile: str = PROFILE, **options: Any) -> Interests:
    return Interests({profile: hints}, QueueCounters(), **options)


def rejected(*unschedulable: str, pending: tuple[str, ...] = ()) -> QueuedPod:
    queued = QueuedPod.new(make_pod("p").obj(), 0.0)
    queued.unschedulable_plugins, queued.pending_plugins = frozenset(unschedulable), frozenset(pending)
    return queued


@pytest.mark.parametrize(
    ("registered", "resource", "action", "expected"),
    [
        (on("Node", A.ADD), "Node", A.ADD, True),
        (on("Node", A.ADD), "Node", A.DELETE, False),
        (on("Node", A.ADD), "PersistentVolume", A.ADD, False),
        (on("Node", A.UPDATE), "Node", A.UPDATE_NODE_LABEL, True),
        (on("Node", A.UPDATE_NODE_LABEL), "Node", A.UPDATE, False),
        (on("Node", A.DELETE | A.UPDATE_NODE_LABEL), "Node", A.UPDATE_NODE_TAINT, False),
        (on("Pod", A.DELETE), "AssignedPod", A.DELETE, True),
        (on("Pod", A.UPDATE_POD_LABEL), "UnschedulablePod", A.UPDATE_POD_LABEL, True),
        (on("Pod", A.UPDATE_POD_LABEL), "AssignedPod", A.UPDATE, False),
        (on("*", A.ALL), "foos.v1.example.com", A.ADD, True),
        (on("*", A.ADD), "Node", A.ADD, True),
        (on("*", A.ADD), "Node", A.UPDATE_NODE_LABEL, False),
    ],
)
def test_an_event_is_of_interest_if_somebody_registered_for_it(
    registered: ClusterEvent, resource: str, action: ActionType, expected: bool
) -> None:
    interest = make_interests({"Fit": [registered]}).of(resource, action)
    assert interest.exists is expected
    assert interest.plugins == (("Fit",) if expected else ())


@pytest.mark.parametrize(
    ("events", "woken"),
    [
        ([on("Node", A.ADD)], True),
        ([on("Node", A.ADD | A.UPDATE_NODE_LABEL)], True),
        ([on("Node", A.UPDATE_NODE_LABEL)], False),
        ([on("Pod", A.ADD)], False),
        ([on("*", A.ADD)], False),
        ([on("Node", A.ADD | A.UPDATE_NODE_TAINT, Asked())], False),
        ([on("Node", A.ADD), on("Node", A.UPDATE_NODE_TAINT, Asked())], False),
    ],
)
def test_who_wants_new_nodes_is_woken_by_changed_taints_too(events: list[ClusterEvent], woken: bool) -> None:
    interests = make_interests({"Fit": events}, release=V1_36)
    event = Event(interests.of("Node", A.UPDATE_NODE_TAINT))
    assert (interests.strategy(rejected("Fit"), event) is LATER) is woken


def test_a_plugin_that_registers_nothing_particular_is_woken_by_all_but_two_kinds() -> None:
    interests = make_interests({"Custom": list(CATCH_ALL)})
    kinds = ["Node", "AssignedPod", "UnschedulablePod", "StorageClass", "VolumeAttachment", "ResourceSlice"]
    assert [interests.of(kind, A.ADD).exists for kind in kinds] == [True] * 4 + [False] * 2


YES, NO = Asked("p"), Asked()


@pytest.mark.parametrize(
    ("hints", "queued", "expected"),
    [
        pytest.param({"Fit": [on("Node")]}, rejected("Fit"), LATER, id="no hint is yes"),
        pytest.param({"Fit": [on("Node", A.ALL, YES)]}, rejected("Fit"), LATER, id="yes"),
        pytest.param({"Fit": [on("Node", A.ALL, NO)]}, rejected("Fit"), SKIP, id="no"),
        pytest.param({"Fit": [on("Node", A.ALL, NO), on("Node", A.ADD, YES)]}, rejected("Fit"), LATER, id="one of two"),
        pytest.param({"Fit": [on("Node")]}, rejected("Ports"), SKIP, id="rejected by another"),
        pytest.param({"Fit": [on("Pod")]}, rejected("Fit"), SKIP, id="another event"),
        pytest.param({"Fit": [on("Node")]}, rejected(), LATER, id="rejected by nobody"),
        pytest.param({"Fit": [on("Node")]}, rejected(pending=("Fit",)), NOW, id="pending"),
        pytest.param({"Fit": [on("Node", A.ALL, NO)]}, rejected(pending=("Fit",)), SKIP, id="pending, no"),
        pytest.param({"Fit": [on("Node")]}, rejected("Fit", pending=("Fit",)), NOW, id="both"),
        pytest.param(
            {"Fit": [on("Node")], "Wait": [on("Node")]}, rejected("Fit", pending=("Wait",)), NOW, id="later and now"
        ),
        pytest.param(
            {"Fit": [on("Node")], "Wait": [on("Node", A.ALL, NO)]},
            rejected("Fit", pending=("Wait",)),
            LATER,
            id="later and never",
        ),
    ],
)
def test_strategy(hints: dict[str, list[ClusterEvent]], queued: QueuedPod, expected: Strategy) -> None:
    interests = make_interests(hints)
    assert interests.strategy(queued, Event(interests.of("Node", A.ADD), None, make_node("n").obj())) is expected


def test_hints_get_the_pod_and_both_objects() -> None:
    seen: list[tuple[object, ...]] = []

    def hint(*given: object) -> Hint:
        seen.append(given)
        return Hint.SKIP

    queued = rejected("Fit")
    interests = make_interests({"Fit": [on("Node", A.ALL, hint)]})
    interests.strategy(queued, Event(interests.of("Node", A.UPDATE_NODE_LABEL), "old", "new"))
    assert seen == [(queued.pod, "old", "new")]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (ValueError("oops"), "oops"),
        (None, "hint returned NoneType; return Hint.QUEUE or Hint.SKIP"),
        (True, "hint returned bool; return Hint.QUEUE or Hint.SKIP"),
    ],
)
def test_a_hint_that_breaks_counts_as_yes_and_is_reported(answer: Any, message: str) -> None:
    reports: list[tuple[str, str, str, str]] = []

    def report(plugin: str, point: str, pod: Pod, error: Exception) -> None:
        reports.append((plugin, point, pod.name, str(error)))

    def broken(*_: object) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    counters = QueueCounters()
    interests = Interests({PROFILE: {"Fit": [on("Node", A.ALL, broken)]}}, counters, report)
    assert interests.strategy(rejected("Fit"), Event(interests.of("Node", A.ADD))) is LATER
    assert reports == [("Fit", "hint", "p", message)]
    assert counters.hints == {("Fit", "NodeAdd", "Error"): 1}


def test_hints_are_counted_by_answer() -> None:
    counters = QueueCounters()
    interests = Interests({PROFILE: {"Fit": [on("Node", A.ALL, NO)], "Ports": [on("Node", A.ADD, YES)]}}, counters)
    for _ in range(2):
        interests.strategy(rejected("Fit", "Ports"), Event(interests.of("Node", A.ADD)))
    assert counters.hints == {("Fit", "NodeAdd", "QueueSkip"): 2, ("Ports", "NodeAdd", "Queue"): 2}


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (None, LATER),
        (make_pod("p").obj(), LATER),
        (make_pod("other").obj(), SKIP),
        (make_node("n").obj(), SKIP),
    ],
)
def test_a_wildcard_event_needs_no_hint_but_may_mean_one_pod(new: object, expected: Strategy) -> None:
    interests = make_interests({"Fit": [on("Node", A.ALL, NO)]})
    assert interests.strategy(rejected("Fit"), Event(interests.wildcard("ForceActivate"), None, new)) is expected
    assert interests.strategy(rejected("Fit"), Event(interests.of("*", A.ALL), None, new)) is expected


def test_profiles_have_hints_of_their_own() -> None:
    interests = Interests({"one": {"Fit": [on("Node", A.ALL, NO)]}, "two": {"Fit": [on("Node")]}}, QueueCounters())
    event = Event(interests.of("Node", A.ADD))
    answers = {}
    for profile in ("one", "two", "unknown"):
        queued = rejected("Fit")
        queued.profile = profile
        answers[profile] = interests.strategy(queued, event)
    assert answers == {"one": SKIP, "two": LATER, "unknown": LATER}
