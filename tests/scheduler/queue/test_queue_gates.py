"""The rules of the scheduling queue: pods that are held back."""

from __future__ import annotations

import pytest

from mooring.framework import ActionType
from mooring.scheduler.queue import Place
from mooring.testing import make_pod
from tests.scheduler.queue.helpers import PROFILE, START, Asked, Gate, QueueUnderTest, on

A = ActionType


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


def test_gates_are_asked_once_for_all_deferred_events() -> None:
    """While all objects are listed, the work is not the product of gated pods and events."""
    gate = Gate("p", "q")
    queue = QueueUnderTest({"Gate": [on("Node")]}, {"Gate": gate})
    queue.defer_events()
    for name in ("p", "q"):
        queue.add(make_pod(name).obj())
    for _ in range(100):
        assert queue.node_added() == 0
    assert gate.asked == ["p", "q"]
    gate.held.remove("q")
    assert queue.resume_events() == 1
    assert gate.asked == ["p", "q"] * 2
    assert (queue.place("p"), queue.place("q")) == ("gated", "active")
    gate.held.clear()
    assert queue.node_added() == 1


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
    queue.node_added()
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
    assert queue.node_added() == 0
    hint.names.add("p")
    assert queue.node_added() == 1
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


# Retries that a plugin requests


@pytest.mark.parametrize(
    ("plugins", "pending", "place"),
    [
        (("Mine",), (), "backoff"),
        (("Fit", "Mine"), (), "backoff"),
        ((), ("Mine",), "active"),
        (("Fit",), (), "unschedulable"),
    ],
    ids=["rejected by it", "by others too", "pending", "by another"],
)
def test_a_plugin_requeues_the_pods_that_it_rejected(
    plugins: tuple[str, ...], pending: tuple[str, ...], place: str
) -> None:
    queue = QueueUnderTest({"Fit": [on("Node")], "Mine": []}, pop_from_backoff=False)
    queue.rejected("p", *plugins, pending=pending)
    assert queue.place("p") == "unschedulable"
    assert queue.retry("another-profile", "Mine") == 0
    assert queue.retry(PROFILE, "Mine") == (place != "unschedulable")
    assert queue.place("p") == place


def test_a_retry_after_the_backoff_is_immediate() -> None:
    queue = QueueUnderTest({"Mine": []})
    queue.rejected("p", "Mine")
    queue.clock.now += 60
    assert queue.retry(PROFILE, "Mine") == 1
    assert queue.place("p") == "active"


def test_a_retry_opens_the_gate_of_the_plugin_only() -> None:
    mine, other = Gate("p"), Gate("q")
    queue = QueueUnderTest({"Mine": [], "Other": []}, {"Mine": mine, "Other": other})
    queue.add(make_pod("p").obj())
    queue.add(make_pod("q").obj())
    assert queue.retry(PROFILE, "Mine") == 0
    mine.held.clear()
    other.held.clear()
    assert queue.retry(PROFILE, "Mine") == 1
    assert (queue.place("p"), queue.place("q")) == ("active", "gated")


def test_a_retry_during_the_attempt_counts() -> None:
    queue = QueueUnderTest({"Fit": [on("Node")], "Mine": []})
    first, second = queue.popped("p"), queue.popped("q")
    queue.retry(PROFILE, "Mine")
    queue.add_unschedulable(first, unschedulable_plugins=["Mine"])
    queue.add_unschedulable(second, unschedulable_plugins=["Fit"])
    assert (queue.place("p"), queue.place("q")) == ("backoff", "unschedulable")
