from __future__ import annotations

import pytest

from mooring.apiserver.cron_schedule import parse_schedule

NOON = 1_767_268_800.0  # 2026-01-01T12:00:00Z, a Thursday


@pytest.mark.parametrize(
    ("text", "zone", "after"),
    [
        ("*/5 * * * *", "", NOON + 300),
        ("@daily", "", NOON + 12 * 3600),
        ("0 13 * * *", "Europe/Berlin", NOON + 24 * 3600),
        ("30 12 * * thu", "", NOON + 1800),
        ("@hourly", "", NOON + 3600),
        ("@midnight", "", NOON + 12 * 3600),
        ("@weekly", "", NOON + (2 * 24 + 12) * 3600),
        ("@monthly", "", NOON + (30 * 24 + 12) * 3600),
        ("@annually", "", NOON + (364 * 24 + 12) * 3600),
        ("@every 1h30m", "", NOON + 5400),
        ("@every 90.7s", "", NOON + 90),
        ("@every 5ms", "", NOON + 1),
        ("@every -5m", "", NOON + 1),
    ],
)
def test_the_next_time(text: str, zone: str, after: float) -> None:
    assert parse_schedule(text, zone).after(NOON) == after


def test_local_time() -> None:
    assert parse_schedule("@daily").local_time(NOON) == "2026-01-01T12:00:00Z"
    assert parse_schedule("@daily", "Europe/Berlin").local_time(NOON) == "2026-01-01T13:00:00+01:00"


def test_intervals_are_counted_from_the_last_time() -> None:
    schedule = parse_schedule("@every 5m", "Europe/Berlin")
    assert schedule.latest(NOON + 299, NOON) == float("-inf")
    assert schedule.latest(NOON + 300, NOON) == NOON + 300
    assert (schedule.latest(NOON + 1000, NOON), schedule.after(NOON + 1000, NOON)) == (NOON + 900, NOON + 1200)
    assert schedule.after(NOON + 0.7) == NOON + 300
    assert schedule.local_time(NOON) == "2026-01-01T13:00:00+01:00"


@pytest.mark.parametrize("text", ["61 * * * *", "* * *", "@every", "@every x", "@every 5", "@often", "a * * * *"])
def test_invalid_schedules(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_schedule(text)
