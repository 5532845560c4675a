"""The rules of the scheduling queue: whose turn it is, what becomes of attempts, updates and deletions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.pod import Pod, PodSchedulingGroup
from mooring.framework import ActionType
from mooring.scheduler.queue import GroupAttempt, Place, QueuedPod
from mooring.testing import make_pod
from tests.scheduler.queue.helpers import PROFILE, START, Gate, QueueUnderTest, on

A = ActionType


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
    queue.node_added()
    queue.add_unschedulable(queued, unschedulable_plugins=plugins)
    assert queue.place("p") == "backoff"
    assert queue.ready is bool(popped)
    queue.add(make_pod("other").obj())
    assert queue.drain() == ["other", *popped]


def test_maximum_back_off_of_zero_switches_it_off() -> None:
    queue = QueueUnderTest(pod_max_backoff=0.0)
    queue.add_unschedulable(queue.popped("p"))
    assert queue.place("p") == "active"


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


@pytest.mark.parametrize(
    ("seconds", "place"), [(0.5, "unschedulable"), (5.0, "active")], ids=["backs off", "backoff is over"]
)
def test_a_pod_that_was_activated_by_another_leaves_others_their_backoff(seconds: float, place: str) -> None:
    queue = QueueUnderTest({"Fit": []})
    for name in ("first", "second", "third"):
        queue.rejected(name, "Fit")
    starter = queue.popped("starter")
    queue.activate(["default/second"], by=starter)
    second = queue.pop()
    assert second is not None
    assert (second.pod.name, second.activated, starter.activated) == ("second", True, False)
    queue.clock.now += seconds
    queue.activate(["default/first"], by=second)
    assert queue.place("first") == place
    # The attempt of a pod that was not activated itself, and plugins, activate others at once.
    queue.activate(["default/first"], by=starter)
    queue.activate(["default/third"])
    assert (queue.place("first"), queue.place("third")) == ("active", "active")


def test_a_pod_activates_others_at_once_after_an_event() -> None:
    queue = QueueUnderTest()
    queue.rejected("other", "Fit")
    queue.rejected("p", "Fit")
    starter = queue.popped("starter")
    queue.activate(["default/p"], by=starter)
    # It counts as activated, also if it is ready for another reason.
    queue.add(make_pod("new").obj())
    queue.activate(["default/new"], by=starter)
    for name in ("p", "new"):
        queued = queue.pop()
        assert queued is not None
        assert (queued.pod.name, queued.activated) == (name, True)
        queue.add_unschedulable(queued, unschedulable_plugins=["Fit"])
    queue.node_added()
    while (queued := queue.pop()) is not None:
        assert not queued.activated


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
    queue.node_added()
    for queued in pods:
        queue.add_unschedulable(queued, unschedulable_plugins=["Fit"])
    queue.update(pods[1].pod, make_pod("second").priority(9).obj())
    assert queue.drain() == ["second", "first"]


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    queue = QueueUnderTest()
    queue.update(make_pod("p").obj(), make_pod("p").label(a="b").obj())
    assert queue.drain() == ["p"]
    assert queue.counters.incoming == {("active", "UnscheduledPodAdd"): 1}


def test_a_namesake_of_another_profile_is_woken_by_that_profiles_plugins() -> None:
    queue = QueueUnderTest(hint_map={PROFILE: {"Fit": [on("Pod", A.ADD)]}, "other": {"Fit": [on("Node", A.ADD)]}})
    queued = queue.rejected("p", "Fit")
    queue.update(queued.pod, make_pod("p").uid("namesake").scheduler("other").obj())
    assert queue.counters.rejected[("Fit", "other")] == 1
    assert queue.assigned_pod_added(make_pod("q").node("n").obj()) == 0
    assert queue.node_added() == 1


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
    queue.node_added()
    queue.pop()
    queue.add_unschedulable(queue.popped("broken"))
    queue.pass_time(2)
    gate.held.clear()
    queue.activate(["default/gated"])
    assert queue.counters.incoming == {
        ("unschedulable", "UnscheduledPodAdd"): 1,
        ("active", "UnscheduledPodAdd"): 2,
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
    queue.node_added()
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
    assert queue.node_added() == 1
    assert reports == [("Fit", "hint")]


def test_a_queued_pod_is_its_own_identity() -> None:
    pod = make_pod("p").obj()
    assert QueuedPod.new(pod, 0.0) != QueuedPod.new(pod, 0.0)


# Groups of scheduling.k8s.io


def _member(name: str, group: str = "g") -> Pod:
    pod = make_pod(name).obj()
    spec = msgspec.structs.replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name=group))
    return msgspec.structs.replace(pod, spec=spec)


def _attempt(queue: QueueUnderTest, *, plugins: tuple[str, ...] = (), **result: bool) -> list[QueuedPod]:
    """Pop the pod that is next with its group, and return all of them to the queue."""
    first = queue.pop()
    assert first is not None
    others = [queued.key for _, queued in queue if queued.pod.spec.scheduling_group == first.pod.spec.scheduling_group]
    members = [first, *(queue.pop_group(key for key in others if key != first.key) or ())]
    attempt = GroupAttempt(
        size=len(members),
        timestamp=min(queued.timestamp for queued in members),
        rejections=max(queued.unschedulable_count for queued in members),
        errors=max(queued.consecutive_errors for queued in members),
        **result,
    )
    for queued in members:
        queue.add_unschedulable(queued, unschedulable_plugins=plugins, group=attempt)
    return members


def test_a_failed_group_waits_for_its_backoff_and_not_for_events() -> None:
    queue = QueueUnderTest()
    queue.add(_member("a"))
    queue.add(_member("b"))
    _attempt(queue, rejected=True)
    assert queue.node_added() == 0
    assert not queue.ready  # it is not retried early either
    assert (queue.place("a"), queue.place("b")) == ("backoff", "backoff")
    assert queue.pass_time(1) == 0
    assert queue.pass_time(1) == 2
    assert queue.drain() == ["a", "b"]


def test_new_pods_of_a_failed_group_wait_for_its_backoff() -> None:
    queue = QueueUnderTest()
    queue.add(_member("a"))
    _attempt(queue, rejected=True)
    queue.add(_member("b"))
    queue.add(_member("other", "h"))
    assert (queue.place("a"), queue.place("b")) == ("backoff", "backoff")
    assert queue.drain() == ["other"]
    assert queue.pass_time(2) == 2
    (first, second) = _attempt(queue, rejected=True)
    assert (first.unschedulable_count, second.unschedulable_count) == (2, 2)
    assert queue.backoff_ends(first) == queue.backoff_ends(second) == queue.clock.now + 2


def test_new_pods_do_not_wait_for_a_group_that_is_gone() -> None:
    queue = QueueUnderTest()
    queue.add(_member("a"))
    (failed,) = _attempt(queue, rejected=True)
    queue.delete(failed.pod)
    queue.add(_member("b"))
    assert queue.drain() == ["b"]


def test_activating_one_pod_ends_the_backoff_for_new_pods() -> None:
    queue = QueueUnderTest()
    queue.add(_member("a"))
    _attempt(queue, rejected=True)
    queue.activate(["default/a"])
    queue.add(_member("b"))
    assert queue.drain() == ["a", "b"]


def test_what_a_scheduled_group_leaves_over_keeps_its_place() -> None:
    queue = QueueUnderTest()
    queue.add(_member("a"))
    queue.clock.now += 1
    queue.add(make_pod("later").obj())
    queue.clock.now += 1
    (left,) = _attempt(queue)
    assert (left.unschedulable_count, left.consecutive_errors) == (0, 0)
    assert queue.drain() == ["a", "later"]


def test_the_backoff_of_a_group_counts_errors_apart_and_grows_with_its_size() -> None:
    queue = QueueUnderTest()
    for index in range(4):
        queue.add(_member(f"p{index}"))
    waits = []
    results: list[dict[str, bool]] = [{"rejected": True}] * 5 + [{"failed": True}, {"rejected": True}, {}]
    for result in [*results, {"rejected": True}]:
        (first, *_) = _attempt(queue, **result)
        ends = queue.backoff_ends(first)
        waits.append(ends - queue.clock.now if ends > 0 else 0)
        queue.pass_time(60)
    assert waits == [1, 2, 4, 8, 16, 1, 20, 0, 1]  # the longest backoff of one pod is 10 s


def test_a_replaced_pod_leaves_the_group_that_it_waited_with() -> None:
    queue = QueueUnderTest()
    queue.add(_member("a"))
    (failed,) = _attempt(queue, rejected=True)
    namesake = msgspec.structs.replace(_member("a", "h"), metadata=make_pod("a").uid("namesake").obj().metadata)
    queue.update(failed.pod, namesake)
    assert queue.pass_time(2) == 1
    queue.add(_member("b"))
    assert queue.drain() == ["a", "b"]
