"""PrioritySort orders pods by priority, then by the time they were queued."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from mooring.api.pod import Pod
from mooring.plugins.priority_sort import PrioritySort
from mooring.testing import PluginHarness, make_pod


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
