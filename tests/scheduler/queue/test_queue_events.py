"""The rules of the scheduling queue: what wakes pods that wait, and what pods in flight hear of."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mooring.api.pod import Pod
from mooring.framework import ActionType, Hint
from mooring.testing import make_pod
from tests.scheduler.queue.helpers import NODE, START, Asked, Gate, QueueUnderTest, on

A = ActionType


# Events


@pytest.mark.parametrize(
    ("seconds", "pending", "place"),
    [(0.5, [], "backoff"), (1.5, [], "backoff"), (2.0, [], "active"), (0.5, ["Fit"], "active")],
    ids=["at once", "in its last second", "back-off is over", "pending pods do not wait"],
)
def test_an_event_moves_a_pod(seconds: float, pending: list[str], place: str) -> None:
    queue = QueueUnderTest()
    queue.rejected("p", *([] if pending else ["Fit"]), pending=pending)
    queue.clock.now += seconds
    assert queue.node_added() == 1
    assert queue.place("p") == place


@pytest.mark.parametrize(
    ("resource", "action"),
    [("Node", A.DELETE), ("PersistentVolume", A.ADD), ("AssignedPod", A.ADD)],
)
def test_an_event_that_nobody_wants_moves_nothing_and_is_not_kept(resource: str, action: ActionType) -> None:
    queue = QueueUnderTest({"Fit": [on("Node", A.ADD)]})
    queue.rejected("p", "Fit")
    queue.popped("flying")
    assert queue.on_event(resource, action, NODE, NODE) == 0
    assert queue.place("p") == "unschedulable"
    assert queue.in_flight_events() == {}


def test_events_are_no_concern_of_pods_in_backoff() -> None:
    hint = Asked("p")
    queue = QueueUnderTest({"Fit": [on("Node", A.ADD, hint)]})
    queue.rejected("p", "Fit")
    assert (queue.node_added(), queue.node_added()) == (1, 0)
    assert hint.pods == ["p"]


def test_an_event_asks_only_the_pods_of_the_plugins_concerned() -> None:
    fit, ports = Asked("p7"), Asked()
    queue = QueueUnderTest({"Fit": [on("Node", A.ADD, fit)], "Ports": [on("Pod", A.DELETE, ports)]})
    for number in range(5_000):
        queue.rejected(f"p{number}", "Fit" if number % 1000 == 7 else "Ports")
    assert queue.node_added() == 1
    assert fit.pods == ["p7", "p1007", "p2007", "p3007", "p4007"]
    assert ports.pods == []


def test_an_event_may_be_meant_for_some_pods_only() -> None:
    queue = QueueUnderTest({"Fit": [on("Pod", A.DELETE)]})
    for name, priority in [("low", 0), ("high", 10)]:
        queue.add(make_pod(name).priority(priority).obj())
        queued = queue.pop()
        assert queued is not None
        queue.add_unschedulable(queued, unschedulable_plugins=["Fit"])
    assert queue.assigned_pod_deleted(make_pod("gone").node("n").obj(), only=lambda pod: pod.priority <= 5) == 1
    assert (queue.place("low"), queue.place("high")) == ("backoff", "unschedulable")


@pytest.mark.parametrize(
    ("registered", "tell", "moved"),
    [
        (A.ADD, lambda queue, pod: queue.assigned_pod_added(pod), 1),
        (A.DELETE, lambda queue, pod: queue.assigned_pod_deleted(pod), 1),
        (A.DELETE, lambda queue, pod: queue.assigned_pod_added(pod), 0),
        (A.UPDATE_POD_LABEL, lambda queue, pod: queue.assigned_pod_updated(pod, relabelled(pod)), 1),
        (A.UPDATE_POD_SCALE_DOWN, lambda queue, pod: queue.assigned_pod_updated(pod, relabelled(pod)), 0),
    ],
)
def test_pods_on_nodes_are_events_too(registered: ActionType, tell: Any, moved: int) -> None:
    queue = QueueUnderTest({"Fit": [on("Pod", registered)]})
    queue.rejected("p", "Fit")
    assert tell(queue, make_pod("other").node("n").obj()) == moved


def relabelled(pod: Pod) -> Pod:
    return make_pod(pod.name).node(pod.node_name).label(new="label").obj()


def test_a_hint_may_activate_a_pod_that_the_event_concerns_too() -> None:
    queue = QueueUnderTest({"Fit": [on("Node", A.ADD, lambda *_: activate_b())]})

    def activate_b() -> Hint:
        queue.activate(["default/b"])
        return Hint.QUEUE

    queue.rejected("a", "Fit")
    queue.rejected("b", "Fit")
    assert queue.node_added() == 1
    assert [(place.value, queued.pod.name) for place, queued in queue] == [("active", "b"), ("backoff", "a")]


# Events while a pod is in flight


@pytest.mark.parametrize(
    ("events", "plugins", "pending", "place"),
    [
        ([], ["Fit"], [], "unschedulable"),
        (["Node"], ["Fit"], [], "backoff"),
        (["Node"], ["Ports"], [], "unschedulable"),
        (["Pod", "Node"], ["Ports"], [], "backoff"),
        (["Node"], [], ["Fit"], "active"),
        (["Node", "Pod"], ["Fit"], ["Ports"], "active"),
        (["Node"], ["Fit"], ["Ports"], "backoff"),
        (["Node"], [], [], "backoff"),
    ],
)
def test_a_pod_hears_of_what_it_missed(events: list[str], plugins: list[str], pending: list[str], place: str) -> None:
    queue = QueueUnderTest({"Fit": [on("Node")], "Ports": [on("Pod", A.DELETE)]})
    queue.node_added()
    queued = queue.popped("p")
    for event in events:
        queue.on_event(event, A.ADD if event == "Node" else A.DELETE, None, NODE)
    queue.add_unschedulable(queued, unschedulable_plugins=plugins, pending_plugins=pending)
    assert queue.place("p") == place


def test_a_pod_does_not_hear_of_what_was_before() -> None:
    queue = QueueUnderTest()
    queue.popped("other")
    queue.node_added()
    queue.rejected("p", "Fit")
    assert queue.place("p") == "unschedulable"


def test_an_update_in_flight_is_replayed_and_the_new_version_requeued() -> None:
    queue = QueueUnderTest({"Fit": [on("Pod", A.UPDATE_POD_TOLERATION)]})
    queued = queue.popped("p")
    new = make_pod("p").toleration("t").obj()
    queue.update(queued.pod, new)
    assert queue.in_flight_events() == {"TargetPodUpdatePodToleration": 1}
    queue.add_unschedulable(queued, unschedulable_plugins=["Fit"], pod=new)
    assert queued.pod is new
    assert queue.place("p") == "backoff"


def test_after_done_nothing_is_heard_so_the_pod_is_tried_again() -> None:
    queue = QueueUnderTest()
    queued = queue.popped("p")
    queue.done(queued.uid)
    queue.add_unschedulable(queued, unschedulable_plugins=["Fit"])
    assert queue.place("p") == "backoff"


# A pod that waited at Permit is rejected


def test_a_rejection_at_permit_requeues_others_when_their_backoff_ends() -> None:
    queue = QueueUnderTest({"Fit": [on("Pod", A.DELETE)], "Ports": [on("Node")]})
    queue.rejected("fit", "Fit")
    queue.rejected("ports", "Ports")
    assert queue.waiting_pod_rejected(make_pod("held").obj()) == 0
    assert (queue.place("fit"), queue.ready) == ("unschedulable", False)
    assert queue.next_tick == START + 2
    assert [queue.pass_time(1.9), queue.pass_time(0.1)] == [0, 1]
    assert (queue.place("fit"), queue.place("ports")) == ("active", "unschedulable")


def test_a_rejection_at_permit_does_not_delay_others() -> None:
    queue = QueueUnderTest({"Fit": [on("Pod", A.DELETE), on("Node")]})
    queue.rejected("old", "Fit")
    queue.pass_time(5)
    queue.rejected("new", "Fit")
    queue.rejected("pending", pending=["Fit"])
    # Those that do not back off are ready at once.
    assert queue.waiting_pod_rejected(make_pod("held").obj()) == 2
    assert [queue.place(name) for name in ("old", "new", "pending")] == ["active", "unschedulable", "active"]
    # Another event makes the others ready if no other pod is.
    queue.node_added()
    assert queue.place("new") == "backoff"
    assert queue.drain() == ["old", "pending", "new"]
    assert queue.pass_time(5) == 0


@pytest.mark.parametrize("event", ["activated", "Node", "none"])
def test_a_pod_that_is_rejected_at_permit_hears_of_what_it_missed_when_its_backoff_ends(event: str) -> None:
    queue = QueueUnderTest({"Gang": [on("Node")]})
    queued = queue.popped("p")
    if event == "Node":
        queue.node_added()
    elif event == "activated":
        queue.activate([queued.key])
    queue.add_unschedulable(queued, unschedulable_plugins=["Gang"], waited=True)
    assert (queue.place("p"), queue.ready) == ("unschedulable", False)
    assert queue.pass_time(2) == (event != "none")


def test_a_pod_that_is_gated_when_its_backoff_ends_waits_for_its_gate() -> None:
    gate = Gate()
    queue = QueueUnderTest({"Fit": [on("Pod", A.DELETE)]}, {"Gate": gate})
    queue.rejected("p", "Fit")
    queue.waiting_pod_rejected(make_pod("held").obj())
    gate.held.add("p")
    assert queue.pass_time(2) == 0
    assert queue.place("p") == "gated"
    gate.held.clear()
    assert queue.pass_time(2) == 0


def test_a_pod_that_is_activated_does_not_wait_for_its_backoff() -> None:
    queue = QueueUnderTest({"Fit": [on("Pod", A.DELETE)]})
    queue.rejected("p", "Fit")
    queue.waiting_pod_rejected(make_pod("held").obj())
    queue.activate(["default/p"])
    assert queue.drain() == ["p"]
    assert queue.pass_time(5) == 0


# Time


def flushes(queue: QueueUnderTest, *moments: float) -> list[int]:
    moved = []
    for moment in moments:
        queue.clock.now = START + moment
        moved.append(queue.tick(queue.clock.now))
    return moved


def test_a_pod_that_waits_too_long_is_woken_whatever_the_hints_say() -> None:
    queue = QueueUnderTest({"Fit": []})
    queued = queue.rejected("p", "Fit")
    # Looked for every 30 seconds, so after 299 not before 329.
    assert flushes(queue, 299, 301, 328.5) == [0, 0, 0]
    assert (queue.place("p"), queued.was_flushed) == ("unschedulable", False)
    assert flushes(queue, 329) == [1]
    assert (queue.place("p"), queued.was_flushed, queued.flush_timestamp) == ("active", True, START + 329)
    assert queued.timestamp == START


@pytest.mark.parametrize(
    ("moments", "moved"),
    [((300,), [0]), ((300.5,), [1]), ((290, 301, 319), [0, 0, 0]), ((290, 320), [0, 1])],
    ids=["five minutes are not more than five", "more than five", "between two looks", "at the next look"],
)
def test_when_waiting_is_too_long(moments: tuple[float, ...], moved: list[int]) -> None:
    queue = QueueUnderTest({"Fit": []})
    queue.rejected("p", "Fit")
    assert flushes(queue, *moments) == moved


def test_a_gated_pod_that_is_woken_by_time_waits_another_five_minutes() -> None:
    gate = Gate("p")
    queue = QueueUnderTest({}, {"Gate": gate})
    queue.add(make_pod("p").obj())
    found = queue.find("default/p")
    assert found is not None
    flushes(queue, 301)
    assert (gate.asked, found[1].was_flushed, found[1].flush_timestamp) == (["p", "p"], False, START + 301)
    flushes(queue, 340, 590)
    assert gate.asked == ["p", "p"]
    gate.held.clear()
    assert flushes(queue, 640) == [1]


def test_pods_in_flight_hear_of_the_flush_too() -> None:
    queue = QueueUnderTest({"Fit": []})
    queue.rejected("waiting", "Fit")
    flying = queue.popped("flying")
    flushes(queue, 301)
    queue.add_unschedulable(flying, unschedulable_plugins=["Fit"])
    assert queue.place("flying") == "backoff"


def test_next_tick_is_when_something_may_happen() -> None:
    queue = QueueUnderTest({"Fit": []})
    assert queue.next_tick == math.inf
    queue.add_unschedulable(queue.popped("broken"))
    assert queue.next_tick == START + 2
    queue.rejected("p", "Fit")
    assert flushes(queue, 2) == [1]
    assert queue.drain() == ["broken"]
    assert START + 300 < queue.next_tick < START + 300.001
    queue.clock.now = queue.next_tick
    assert queue.tick() == 1
    assert queue.next_tick == math.inf


def test_next_tick_waits_for_the_next_look() -> None:
    queue = QueueUnderTest({"Fit": []})
    queue.rejected("p", "Fit")
    flushes(queue, 290)
    assert queue.next_tick == START + 320
