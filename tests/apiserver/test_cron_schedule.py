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
    ],
)
def test_the_next_time(text: str, zone: str, after: float) -> None:
    assert parse_schedule(text, zone).after(NOON) == after


def test_local_time() -> None:
    assert parse_schedule("@daily").local_time(NOON) == "2026-01-01T12:00:00Z"
    assert parse_schedule("@daily", "Europe/Berlin").local_time(NOON) == "2026-01-01T13:00:00+01:00"


@pytest.mark.parametrize("text", ["61 * * * *", "* * *", "@every 1m", "a * * * *"])
def test_invalid_schedules(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_schedule(text)
