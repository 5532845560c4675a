"""Unexpected exceptions are logged at once, and repeats at growing intervals."""

from __future__ import annotations

from mooring.unexpected_errors import UnexpectedErrors, error_text, shortened
from tests.log_capture import capture_logs


def raised(text: str) -> Exception:
    try:
        raise ValueError(text)
    except ValueError as error:
        return error


def test_a_repeated_failure_is_logged_with_backoff() -> None:
    now = 0.0
    reports = UnexpectedErrors(lambda: now)
    times = []
    with capture_logs() as logs:
        for second in range(0, 10_000, 10):
            now = float(second)
            reports.report("it failed", raised(f"for the time {second}"), object="default/a")
            times += [second] * (len(logs) - len(times))
    assert times == [0, 60, 180, 420, 900, 1860, 3780, 7380]
    assert logs[0]["object"] == "default/a"
    assert "in raised" in logs[0]["traceback"]
    assert (logs[1]["times"], "traceback" in logs[1]) == (7, False)


def test_failures_at_other_places_are_others() -> None:
    reports = UnexpectedErrors(lambda: 0.0)
    with capture_logs() as logs:
        reports.report("it failed", raised("a"))
        reports.report("it failed again", raised("a"))
        reports.report("it failed", KeyError("a"))
        reports.report("it failed", raised("b"))
    assert [each["error"] for each in logs] == ["ValueError: a", "ValueError: a", "KeyError: 'a'"]


def test_memory_and_texts_are_bounded() -> None:
    reports = UnexpectedErrors(lambda: 0.0)
    with capture_logs() as logs:
        for number in range(2000):
            reports.report(f"failure {number}", raised("x" * 10**6), object="y" * 10**6)
    assert len(reports._seen) == 1024
    assert all(len(str(each)) < 2000 for each in logs)
    assert error_text(raised("short")) == "ValueError: short"
    assert shortened("abcdef", 3) == "abc..."
