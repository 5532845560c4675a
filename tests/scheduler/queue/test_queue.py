"""The rules of the scheduling queue, one by one."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mooring.api.pod import Pod
from mooring.framework import ActionType, Hint
from mooring.scheduler.queue import Place, QueuedPod, SchedulingQueue
from mooring.testing import make_node, make_pod
from tests.scheduler.queue.helpers import PROFILE, START, Asked, Gate, QueueUnderTest, on

A = ActionType
NODE = make_node("n").obj()


def node_added(queue: SchedulingQueue) -> int:
    return queue.on_event("Node", A.ADD, None, NODE)


# Order


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sort_key": lambda queued: (-queued.pod.priority, queued.timestamp)},
        {"less": lambda a, b: (-a.pod.priority, a.timestamp) < (-b.pod.priority, b.timestamp)},
    ],
    ids=["default", "key", "less"],
)
def test_pods_are_popped_by_priority_then_time_then_arrival(options: dict[str, Any]) -> None:
    queue = QueueUnderTest(**options)
    for name, priority, seconds in [("a", 0, 5), ("b", 5, 3), ("c", 5, 2), ("d", -1, 0), ("e", 5, 2)]:
        queue.clock.now = START + seconds
        queue.add(make_pod(name).priority(priority).obj())
    assert [queued.pod.name for place, queued in queue] == ["c", "e", "b", "a", "d"]
    assert queue.drain() == ["c", "e", "b", "a", "d"]


@pytest.mark.parametrize("how", ["key", "less"])
def test_a_queue_sort_of_ones_own(how: str) -> None:
    options: dict[str, Any] = (
        {"sort_key": lambda queued: queued.pod.labels["turn"]}
        if how == "key"
        else {"less": lambda a, b: a.pod.labels["turn"] < b.pod.labels["turn"]}
    )
    queue = QueueUnderTest(**options)
    pods = {name: make_pod(name).label(turn=turn).obj() for name, turn in [("a", "3"), ("b", "1"), ("c", "2")]}
    for pod in pods.values():
        queue.add(pod)
    queue.update(pods["b"], make_pod("b").label(turn="9").obj())
    assert queue.drain() == ["c", "a", "b"]


# Attempts


def test_popping_counts_attempts_and_cycles() -> None:
    queue = QueueUnderTest()
    assert (queue.pop(), queue.ready, queue.cycle) == (None, False, 0)
    queue.add(make_pod("p").obj())
    assert queue.ready
    queued = queue.pop()
    assert queued is not None
    assert (queued.attempts, queue.cycle, queue.place("p")) == (1, 1, "in-flight")
    assert (queued.timestamp, queued.initial_attempt_timestamp) == (START, START)
    queue.done(queued.uid)
    assert queue.find(queued.key) is None


@pytest.mark.parametrize(
    ("plugins", "pending", "counts", "place"),
    [
        (["Fit"], [], (1, 0), "unschedulable"),
        ([], ["Fit"], (1, 0), "unschedulable"),
        ([], [], (0, 1), "backoff"),
    ],
    ids=["rejected", "pending", "broken"],
)
def test_where_a_failed_pod_goes(plugins: list[str], pending: list[str], counts: tuple[int, int], place: str) -> None:
    queue = QueueUnderTest()
    queued = queue.popped("p")
    queue.clock.now += 7.5
    went = queue.add_unschedulable(queued, unschedulable_plugins=plugins, pending_plugins=pending)
    assert went is not None
    assert went.value == queue.place("p") == place
    assert (queued.unschedulable_count, queued.consecutive_errors) == counts
    assert queued.timestamp == START + 7.5
    assert queued.initial_attempt_timestamp == START
    assert (set(queued.unschedulable_plugins), set(queued.pending_plugins)) == (set(plugins), set(pending))


def test_errors_in_a_row_are_counted_apart_from_rejections() -> None:
    queue = QueueUnderTest()
    queue.add(make_pod("p").obj())
    history = []
    for plugins in (["Fit"], [], [], [], ["Fit"], []):
        queue.activate(["default/p"])
        queued = queue.pop()
        assert queued is not None
        queue.add_unschedulable(queued, unschedulable_plugins=plugins)
        waits = queue.backoff_ends(queued) - queue.clock.now
        history.append((queued.unschedulable_count, queued.consecutive_errors, waits))
    assert history == [(1, 0, 1.0), (1, 1, 1.0), (1, 2, 2.0), (1, 3, 4.0), (2, 0, 2.0), (2, 1, 1.0)]


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (lambda queue, pod: None, "unschedulable"),
        (lambda queue, pod: queue.delete(pod), None),
        (lambda queue, pod: queue.update(pod, make_pod("p").node("n").obj()), None),
        (lambda queue, pod: queue.add(make_pod("p").uid("namesake").obj()), "active"),
    ],
    ids=["all is well", "deleted", "bound by somebody", "replaced"],
)
def test_a_failed_pod_that_is_of_no_concern_any_more_is_dropped(spoil: Any, expected: str | None) -> None:
    queue = QueueUnderTest()
    queued = queue.popped("p")
    spoil(queue, queued.pod)
    went = queue.add_unschedulable(queued, unschedulable_plugins=["Fit"])
    assert (went is None) is (expected != "unschedulable")
    assert queue.place("p") == expected
    assert [place for place, _ in queue if place is Place.IN_FLIGHT] == []


@pytest.mark.parametrize(
    ("pod", "place"),
    [
        (make_pod("p").label(version="2").obj(), "unschedulable"),
        (make_pod("p").uid("namesake").obj(), None),
        (make_pod("p").node("n").obj(), None),
    ],
    ids=["newer", "replaced", "bound"],
)
def test_the_caller_may_know_a_newer_version(pod: Pod, place: str | None) -> None:
    queue = QueueUnderTest()
    queued = queue.popped("p")
    queue.done(queued.uid)
    queue.add_unschedulable(queued, unschedulable_plugins=[], pod=pod)
    found = queue.find("default/p")
    assert (found and found[1].pod) is (pod if place else None)


def test_a_pod_is_not_tried_twice_at_a_time() -> None:
    queue = QueueUnderTest()
    queued = queue.popped("p")
    queue.add(queued.pod)
    assert queue.pop() is None
    assert queue.place("p") == "in-flight"


# Back-off


def test_back_off_is_over_in_the_second_after_it_ends() -> None:
    queue = QueueUnderTest()
    queue.clock.now = START + 0.75
    queue.add_unschedulable(queue.popped("p"))
    assert queue.next_tick == START + 2
    assert [queue.pass_time(seconds) for seconds in (0.25, 0.99)] == [0, 0]
    assert queue.place("p") == "backoff"
    assert queue.pass_time(START + 2 - queue.clock.now) == 1
    assert queue.place("p") == "active"


@pytest.mark.parametrize(
    ("option", "plugins", "popped"),
    [(True, ["Fit"], ["p"]), (True, [], []), (False, ["Fit"], [])],
    ids=["rejected", "broken", "switched off"],
)
def test_when_nothing_else_is_to_do_a_rejected_pod_is_tried_early(
    option: bool, plugins: list[str], popped: list[str]
) -> None:
    queue = QueueUnderTest(pop_from_backoff=option)
    queued = queue.popped("p")
    node_added(queue)
    queue.add_unschedulable(queued, unschedulable_plugins=plugins)
    assert queue.place("p") == "backoff"
    assert queue.ready is bool(popped)
    queue.add(make_pod("other").obj())
    assert queue.drain() == ["other", *popped]


def test_maximum_back_off_of_zero_switches_it_off() -> None:
    queue = QueueUnderTest(pod_max_backoff=0.0)
    queue.add_unschedulable(queue.popped("p"))
    assert queue.place("p") == "active"


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
    assert node_added(queue) == 1
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
    assert (node_added(queue), node_added(queue)) == (1, 0)
    assert hint.pods == ["p"]


def test_an_event_asks_only_the_pods_of_the_plugins_concerned() -> None:
    fit, ports = Asked("p7"), Asked()
    queue = QueueUnderTest({"Fit": [on("Node", A.ADD, fit)], "Ports": [on("Pod", A.DELETE, ports)]})
    for number in range(5_000):
        queue.rejected(f"p{number}", "Fit" if number % 1000 == 7 else "Ports")
    assert node_added(queue) == 1
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
    assert node_added(queue) == 1
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
    node_added(queue)
    queued = queue.popped("p")
    for event in events:
        queue.on_event(event, A.ADD if event == "Node" else A.DELETE, None, NODE)
    queue.add_unschedulable(queued, unschedulable_plugins=plugins, pending_plugins=pending)
    assert queue.place("p") == place


def test_a_pod_does_not_hear_of_what_was_before() -> None:
    queue = QueueUnderTest()
    queue.popped("other")
    node_added(queue)
    queue.rejected("p", "Fit")
    assert queue.place("p") == "unschedulable"


def test_a_pod_hears_of_its_own_update_and_comes_back_with_it() -> None:
    queue = QueueUnderTest({"Fit": [on("Pod", A.UPDATE_POD_TOLERATION)]})
    queued = queue.popped("p")
    new = make_pod("p").toleration("t").obj()
    queue.update(queued.pod, new)
    assert queue.in_flight_events() == {"UnschedulablePodUpdatePodToleration": 1}
    queue.add_unschedulable(queued, unschedulable_plugins=["Fit"])
    assert queued.pod is new
    assert queue.place("p") == "backoff"


def test_after_done_nothing_is_heard_so_the_pod_is_tried_again() -> None:
    queue = QueueUnderTest()
    queued = queue.popped("p")
    queue.done(queued.uid)
    queue.add_unschedulable(queued, unschedulable_plugins=["Fit"])
    assert queue.place("p") == "backoff"


# Activate


@pytest.mark.parametrize("start", ["unschedulable", "backoff", "active", "in-flight", "unknown"])
def test_activate(start: str) -> None:
    queue = QueueUnderTest()
    if start == "unschedulable":
        queue.rejected("p", "Fit")
    elif start == "backoff":
        queue.add_unschedulable(queue.popped("p"))
    elif start == "active":
        queue.add(make_pod("p").obj())
    elif start == "in-flight":
        queue.popped("p")
    queue.activate(["default/p", "default/q"])
    expected = {"unknown": None, "in-flight": "in-flight"}.get(start, "active")
    assert (queue.place("p"), queue.place("q")) == (expected, None)


@pytest.mark.parametrize("pop_from_backoff", [True, False])
def test_activating_a_pod_in_back_off_asks_its_gates_unless_they_were_asked(pop_from_backoff: bool) -> None:
    gate = Gate()
    queue = QueueUnderTest(gates={"Gate": gate}, pop_from_backoff=pop_from_backoff)
    queue.add_unschedulable(queue.popped("p"))
    gate.asked.clear()
    gate.held.add("p")
    queue.activate(["default/p"])
    assert (queue.place("p"), gate.asked) == (("active", []) if pop_from_backoff else ("gated", ["p"]))


def test_a_pod_activated_in_flight_is_tried_again_after_its_back_off() -> None:
    queue = QueueUnderTest({"Fit": []})
    first, second = queue.popped("first"), queue.popped("second")
    queue.activate([second.key])
    for queued in (first, second):
        queue.add_unschedulable(queued, unschedulable_plugins=["Fit"])
    assert (queue.place("first"), queue.place("second")) == ("unschedulable", "backoff")


# Update and delete


@pytest.mark.parametrize(
    ("new", "place"),
    [
        (make_pod("p").label(a="b").obj(), "unschedulable"),
        (make_pod("p").toleration("t").obj(), "backoff"),
        (make_pod("p").label(a="b").toleration("t").obj(), "backoff"),
    ],
    ids=["of no use", "useful", "both"],
)
def test_an_update_of_a_waiting_pod_wakes_it_if_a_hint_says_so(new: Pod, place: str) -> None:
    queue = QueueUnderTest({"Fit": [on("Pod", A.UPDATE_POD_TOLERATION)]})
    queued = queue.rejected("p", "Fit")
    queue.update(queued.pod, new)
    assert queue.place("p") == place
    assert queued.pod is new


def test_an_update_wakes_a_pod_once_also_without_popping_from_back_off() -> None:
    queue = QueueUnderTest({"Fit": [on("Pod", A.UPDATE_POD_LABEL)]}, pop_from_backoff=False)
    queued = queue.rejected("p", "Fit")
    queue.update(queued.pod, make_pod("p").label(a="b").toleration("t").obj())
    assert [place.value for place, _ in queue] == ["backoff"]


def test_an_update_of_a_pod_in_line_keeps_its_history() -> None:
    queue = QueueUnderTest()
    ready, waiting = make_pod("ready").obj(), queue.popped("waiting")
    queue.add_unschedulable(waiting)
    queue.add(ready)
    for pod in (ready, waiting.pod):
        queue.update(pod, make_pod(pod.name).priority(7).obj())
    found = {queued.pod.name: (place.value, queued.pod.priority, queued.attempts) for place, queued in queue}
    assert found == {"ready": ("active", 7, 0), "waiting": ("backoff", 7, 1)}


def test_an_update_of_a_pod_in_back_off_may_change_its_turn() -> None:
    queue = QueueUnderTest()
    pods = [queue.popped(name) for name in ("first", "second")]
    node_added(queue)
    for queued in pods:
        queue.add_unschedulable(queued, unschedulable_plugins=["Fit"])
    queue.update(pods[1].pod, make_pod("second").priority(9).obj())
    assert queue.drain() == ["second", "first"]


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    queue = QueueUnderTest()
    queue.update(make_pod("p").obj(), make_pod("p").label(a="b").obj())
    assert queue.drain() == ["p"]
    assert queue.counters.incoming == {("active", "UnschedulablePodUpdate"): 1}


def test_a_namesake_of_another_profile_is_woken_by_that_profiles_plugins() -> None:
    queue = QueueUnderTest(hint_map={PROFILE: {"Fit": [on("Pod", A.ADD)]}, "other": {"Fit": [on("Node", A.ADD)]}})
    queued = queue.rejected("p", "Fit")
    queue.update(queued.pod, make_pod("p").uid("namesake").scheduler("other").obj())
    assert queue.counters.rejected[("Fit", "other")] == 1
    assert queue.assigned_pod_added(make_pod("q").node("n").obj()) == 0
    assert node_added(queue) == 1


@pytest.mark.parametrize("start", ["active", "backoff", "unschedulable", "gated"])
def test_delete(start: str) -> None:
    queue = QueueUnderTest(gates={"Gate": Gate("p") if start == "gated" else Gate()})
    if start == "backoff":
        queue.add_unschedulable(queue.popped("p"))
    elif start == "unschedulable":
        queue.rejected("p", "Fit")
    else:
        queue.add(make_pod("p").obj())
    assert queue.place("p") == start
    queue.delete(make_pod("p").obj())
    queue.delete(make_pod("p").obj())
    assert list(queue) == []
    assert sum(queue.pending().values()) == sum(queue.counters.rejected.values()) == 0


# Gates


def test_a_gated_pod_waits_outside() -> None:
    gate = Gate("p")
    queue = QueueUnderTest(gates={"Gate": gate})
    queue.add(make_pod("p").obj())
    found = queue.find("default/p")
    assert found is not None
    place, queued = found
    assert (place, queued.gating_plugin, queued.gating_reasons) == (Place.GATED, "Gate", ("closed",))
    assert queued.initial_attempt_timestamp is None
    assert not queue.ready
    gate.held.clear()
    queue.clock.now += 3
    queue.activate(["default/p"])
    assert (queue.place("p"), queued.gated, queued.initial_attempt_timestamp) == ("active", False, START + 3)
    assert queued.timestamp == START


@pytest.mark.parametrize(
    ("resource", "asked_again"),
    [("Node", False), ("PersistentVolume", True), ("StorageClass", False), ("*", True)],
    ids=["of another plugin", "of the gate", "of nobody", "of all"],
)
def test_a_gated_pod_hears_only_what_its_gate_registered_for(resource: str, asked_again: bool) -> None:
    gate = Gate()
    queue = QueueUnderTest({"Fit": [on("Node")], "Gate": [on("PersistentVolume")]}, {"Gate": gate})
    queued = queue.popped("p")
    gate.held.add("p")
    node_added(queue)
    queue.add_unschedulable(queued, unschedulable_plugins=["Fit"])
    assert queue.place("p") == "gated"
    gate.asked.clear()
    queue.on_event(resource, A.ALL if resource == "*" else A.ADD, None, None)
    assert bool(gate.asked) is asked_again
    assert queue.place("p") == "gated"


def test_a_gates_hint_decides_whether_it_is_asked_again() -> None:
    hint, gate = Asked(), Gate("p")
    queue = QueueUnderTest({"Gate": [on("Node", A.ADD, hint)]}, {"Gate": gate})
    queue.add(make_pod("p").obj())
    gate.held.clear()
    assert node_added(queue) == 0
    hint.names.add("p")
    assert node_added(queue) == 1
    assert queue.place("p") == "active"


def test_gates_are_asked_before_back_off_and_not_again_after() -> None:
    gate = Gate()
    queue = QueueUnderTest(gates={"Gate": gate})
    queue.add_unschedulable(queue.popped("p"))
    assert gate.asked == ["p", "p"]
    gate.held.add("p")
    queue.pass_time(2)
    assert gate.asked == ["p", "p"]
    assert queue.place("p") == "active"


def test_without_popping_from_back_off_gates_are_asked_after_it() -> None:
    gate = Gate()
    queue = QueueUnderTest(gates={"Gate": gate}, pop_from_backoff=False)
    queue.add_unschedulable(queue.popped("p"))
    assert gate.asked == ["p"]
    gate.held.add("p")
    queue.pass_time(2)
    assert gate.asked == ["p", "p"]
    assert queue.place("p") == "gated"


def test_adding_a_gated_namesake_leaves_the_pod_in_line_alone() -> None:
    gate = Gate()
    queue = QueueUnderTest(gates={"Gate": gate})
    queue.add(make_pod("p").obj())
    gate.held.add("p")
    queue.add(make_pod("p").uid("namesake").obj())
    assert [(place.value, queued.uid) for place, queued in queue] == [("active", make_pod("p").obj().uid)]
    assert queue.counters.rejected[("Gate", PROFILE)] == 0


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


# Numbers


def test_pending_counts_by_place() -> None:
    queue = QueueUnderTest(gates={"Gate": Gate("g1", "g2")})
    queue.rejected("u", "Fit")
    queue.add_unschedulable(queue.popped("b"))
    queue.popped("flying")
    for name in ("g1", "g2", "a1", "a2", "a3"):
        queue.add(make_pod(name).obj())
    assert queue.pending() == {"active": 3, "backoff": 1, "unschedulable": 1, "gated": 2}


def test_incoming_pods_are_counted_by_queue_and_event() -> None:
    gate = Gate("gated")
    queue = QueueUnderTest(gates={"Gate": gate})
    queue.add(make_pod("gated").obj())
    queue.rejected("p", "Fit")
    node_added(queue)
    queue.pop()
    queue.add_unschedulable(queue.popped("broken"))
    queue.pass_time(2)
    gate.held.clear()
    queue.activate(["default/gated"])
    assert queue.counters.incoming == {
        ("unschedulable", "UnschedulablePodAdd"): 1,
        ("active", "UnschedulablePodAdd"): 2,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "PopFromBackoffQ"): 1,
        ("backoff", "ScheduleAttemptFailure"): 1,
        ("active", "BackoffComplete"): 1,
        ("active", "ForceActivate"): 1,
    }


def test_waiting_pods_are_counted_by_the_plugins_that_turned_them_down() -> None:
    queue = QueueUnderTest({"Fit": [on("Node")]}, {"Gate": Gate("g")})
    queue.add(make_pod("g").obj())
    queue.rejected("a", "Fit", "Ports")
    queue.rejected("b", "Fit", pending=["Ports"])
    rejected = queue.counters.rejected
    assert rejected == {("Gate", PROFILE): 1, ("Fit", PROFILE): 2, ("Ports", PROFILE): 2}
    node_added(queue)
    assert rejected[("Fit", PROFILE)] == 2
    queue.drain()
    assert (rejected[("Fit", PROFILE)], rejected[("Ports", PROFILE)], rejected[("Gate", PROFILE)]) == (0, 0, 1)


def test_a_namesake_takes_the_place_of_a_waiting_pod() -> None:
    queue = QueueUnderTest()
    queue.rejected("p", "Fit")
    queue.add(make_pod("p").uid("namesake").obj())
    assert [(place.value, queued.uid) for place, queued in queue] == [("active", "namesake")]
    assert queue.counters.rejected[("Fit", PROFILE)] == 0


def test_errors_of_plugins_are_reported() -> None:
    reports: list[tuple[str, str]] = []

    def broken(*_: object) -> Any:
        raise ValueError("oops")

    queue = QueueUnderTest(
        {"Fit": [on("Node", A.ADD, broken)]}, on_error=lambda plugin, point, pod, error: reports.append((plugin, point))
    )
    queue.rejected("p", "Fit")
    assert node_added(queue) == 1
    assert reports == [("Fit", "hint")]


def test_a_queued_pod_is_its_own_identity() -> None:
    pod = make_pod("p").obj()
    assert QueuedPod.new(pod, 0.0) != QueuedPod.new(pod, 0.0)
