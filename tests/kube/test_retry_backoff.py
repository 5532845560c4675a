"""Tests of exponential backoff."""

from random import Random

from mooring.kube.retry_backoff import Backoff


def test_delays_grow_to_the_cap_and_start_again_after_a_reset() -> None:
    backoff = Backoff(first=1, cap=10, factor=3, jitter=0)
    assert [backoff.next() for _ in range(4)] == [1, 3, 9, 10]
    backoff.reset()
    assert backoff.next() == 1


def test_jitter_only_shortens_delays() -> None:
    backoff = Backoff(first=4, cap=4, jitter=0.5, random=Random(1))
    delays = [backoff.next() for _ in range(50)]
    assert all(2 <= delay <= 4 for delay in delays)
    assert len(set(delays)) > 1


def test_many_failures_do_not_overflow() -> None:
    backoff = Backoff(first=1, cap=30, jitter=0, tries=10_000)
    assert backoff.next() == 30
