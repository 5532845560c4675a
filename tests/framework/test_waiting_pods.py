"""Pods held back at Permit: allowed by somebody, by the clock, or turned down."""

from __future__ import annotations

import pytest

from mooring.framework.waiting_pods import WaitingPod, WaitingPods
from mooring.testing import make_pod


@pytest.mark.parametrize(
    ("allowed", "moments", "verdict"),
    [
        ({}, [9.0], None),
        ({}, [10.0], "rejected due to timeout after waiting 10s at plugin A"),
        ({"A": 3.0}, [2.9], None),
        ({"A": 3.0}, [3.0], ""),
        ({"A": 3.0}, [11.0], ""),
        ({"A": 12.0}, [11.0], "rejected due to timeout after waiting 10s at plugin A"),
    ],
)
def test_time_decides(allowed: dict[str, float], moments: list[float], verdict: str | None) -> None:
    pods = WaitingPods()
    waiting = WaitingPod(make_pod("p").obj(), "n1", {"A": (10.0, 10.0)}, dict(allowed))
    pods.add(waiting)
    assert pods.next_deadline == min(10.0, *allowed.values(), 10.0)
    for moment in moments:
        pods.expire(moment)
    assert (None if waiting.verdict is None else waiting.verdict.message) == verdict


def test_one_plugin_still_objects() -> None:
    waiting = WaitingPod(make_pod("p").obj(), "n1", {"A": (10.0, 10.0), "B": (10.0, 10.0)}, {"A": 1.0})
    waiting.expire(2.0)
    assert (waiting.pending_plugins, waiting.verdict) == (("B",), None)
    waiting.allow("B")
    assert waiting.verdict is not None
    assert waiting.verdict.is_success
