"""How long a failed pod waits, to the second."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mooring.scheduler.queue.backoff_queue import BackoffQueue
from mooring.scheduler.queue.queued_pod import QueuedPod, priority_key
from mooring.testing import make_pod


def make_backoff(**options: Any) -> BackoffQueue:
    return BackoffQueue(**{"initial": 1.0, "maximum": 10.0, "sort_key": priority_key, **options})


def failed(name: str = "p", *, at: float, rejections: int = 0, errors: int = 0, priority: int = 0) -> QueuedPod:
    queued = QueuedPod.new(make_pod(name).priority(priority).obj(), at)
    queued.unschedulable_count, queued.consecutive_errors = rejections, errors
    queued.unschedulable_plugins = frozenset() if errors else frozenset({"Fit"})
    return queued


@pytest.mark.parametrize(
    ("initial", "maximum", "expected"),
    [
        (1.0, 10.0, [0, 1, 2, 4, 8, 10, 10, 10]),
        (2.0, 10.0, [0, 2, 4, 8, 10, 10, 10, 10]),
        (1.0, 1.0, [0, 1, 1, 1, 1, 1, 1, 1]),
        (10.0, 5.0, [0, 5, 5, 5, 5, 5, 5, 5]),
        (3.0, 12.0, [0, 3, 6, 12, 12, 12, 12, 12]),
        (0.5, 60.0, [0, 0.5, 1, 2, 4, 8, 16, 32]),
        (0.0, 10.0, [0, 0, 0, 0, 0, 0, 0, 0]),
    ],
)
def test_duration_doubles_up_to_the_maximum(initial: float, maximum: float, expected: list[float]) -> None:
    backoff = make_backoff(initial=initial, maximum=maximum)
    assert [backoff.duration(failures) for failures in range(8)] == expected


def test_no_number_of_failures_is_too_large() -> None:
    assert make_backoff().duration(10_000) == 10.0


@pytest.mark.parametrize(
    ("case", "options", "expected"),
    [
        ({"at": 100.0, "rejections": 1}, {}, 101.0),
        ({"at": 100.9, "rejections": 1}, {}, 101.0),
        ({"at": 100.9, "rejections": 3}, {}, 104.0),
        ({"at": 100.9, "rejections": 3, "errors": 1}, {}, 101.0),
        ({"at": 100.0, "rejections": 1, "errors": 4}, {}, 108.0),
        ({"at": 100.0}, {}, -math.inf),
        ({"at": 100.0, "rejections": 5}, {"maximum": 0.0}, -math.inf),
        ({"at": 100.25, "rejections": 1}, {"aligned": False}, 101.25),
    ],
    ids=[
        "one second",
        "cut to the second",
        "third time",
        "errors count alone",
        "more errors than rejections",
        "never failed",
        "switched off",
        "not cut",
    ],
)
def test_expiration(case: dict[str, Any], options: dict[str, Any], expected: float) -> None:
    assert make_backoff(**options).expiration(failed(**case)) == expected


@pytest.mark.parametrize(
    ("now", "aligned", "expected"),
    [
        (100.5, True, True),
        (101.0, True, True),
        (101.999, True, True),
        (102.0, True, False),
        (101.5, False, True),
        (101.500001, False, False),
    ],
)
def test_the_second_in_which_it_ends_still_counts(now: float, aligned: bool, expected: bool) -> None:
    backoff = make_backoff(aligned=aligned)
    assert backoff.is_backing_off(failed(at=100.5, rejections=1), now) is expected


def test_pods_of_one_second_are_ordered_by_priority() -> None:
    backoff = make_backoff()
    for queued in (
        failed("late", at=102.0, rejections=1, priority=9),
        failed("low", at=100.1, rejections=1),
        failed("high", at=100.9, rejections=1, priority=5),
        failed("broken", at=90.0, errors=1, priority=99),
    ):
        backoff.push(queued)
    assert backoff.next_completion == 92.0
    assert [queued.pod.name for queued in backoff] == ["high", "low", "late", "broken"]
    early = backoff.pop_early()
    assert early is not None
    assert early.pod.name == "high"
    assert [queued.pod.name for queued in backoff.pop_completed(102.0)] == ["low", "broken"]
    assert (len(backoff), backoff.may_pop_early) == (1, True)
    assert backoff.next_completion == 104.0


def test_pods_whose_attempt_broke_are_not_popped_early() -> None:
    backoff = make_backoff()
    backoff.push(failed(at=100.0, errors=1))
    assert backoff.pop_early() is None
    assert not backoff.may_pop_early
    assert "default/p" in backoff
    assert backoff.get("default/p") is backoff.remove("default/p")
    assert len(backoff) == 0
    assert backoff.next_completion == math.inf


def test_without_alignment_priority_plays_no_part() -> None:
    backoff = make_backoff(aligned=False)
    backoff.push(failed("b", at=100.5, rejections=1, priority=9))
    backoff.push(failed("a", at=100.25, rejections=1))
    assert [queued.pod.name for queued in backoff.pop_completed(101.4)] == ["a"]
    assert 101.5 < backoff.next_completion < 101.501
    assert [queued.pod.name for queued in backoff.pop_completed(backoff.next_completion)] == ["b"]
