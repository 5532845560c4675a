"""PrioritySort and SchedulingGates: who is next, and who is not let in."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mooring.api.pod import Pod
from mooring.framework import Hint, Status
from mooring.plugins.priority_sort import PrioritySort
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.testing import PluginHarness, PodBuilder, make_pod


@dataclass
class Queued:
    pod: Pod
    timestamp: float


def queued(timestamp: float, priority: int | None = None) -> Queued:
    pod = make_pod("p")
    return Queued((pod if priority is None else pod.priority(priority)).obj(), timestamp)


@pytest.mark.parametrize(
    ("first", "second", "before"),
    [
        (queued(2, 10), queued(1, 5), True),
        (queued(1, 5), queued(2, 10), False),
        (queued(1, 5), queued(2, 5), True),
        (queued(2, 5), queued(1, 5), False),
        (queued(1, 5), queued(1, 5), False),
        (queued(1), queued(2, 0), True),
        (queued(2), queued(1, -1), True),
    ],
)
def test_priority_sort(first: Queued, second: Queued, before: bool) -> None:
    """Higher priority first, then who came first; no priority is 0."""
    assert PluginHarness(PrioritySort).plugin.less(first, second) is before


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        (make_pod("p"), None),
        (make_pod("p").gate("a"), Status.unresolvable("waiting for scheduling gates: [a]")),
        (make_pod("p").gate("b", "a"), Status.unresolvable("waiting for scheduling gates: [b a]")),
    ],
)
def test_scheduling_gates(pod: PodBuilder, expected: Status | None) -> None:
    """Gates are listed as written."""
    assert PluginHarness(SchedulingGates).plugin.pre_enqueue(pod.obj()) == expected


def test_gates_going_away() -> None:
    """Worth an attempt if they were the pod's own."""
    (event,) = PluginHarness(SchedulingGates).plugin.events_to_register()
    pod = make_pod("p").gate("a").obj()
    assert event.hint(pod, pod, make_pod("p").obj()) is Hint.QUEUE
    assert event.hint(pod, pod, make_pod("other").obj()) is Hint.SKIP
