"""SchedulingGates keeps pods with gates out of the queue."""

from __future__ import annotations

import pytest

from mooring.framework import Hint, Status
from mooring.plugins.scheduling_gates import SchedulingGates
from mooring.testing import PluginHarness, PodBuilder, make_pod


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
