"""Locks of nodes: when one counts."""

from __future__ import annotations

import pytest

from mooring.api.meta import parse_time
from mooring.batch.node_locks import locked

NOW = parse_time("2026-01-01T12:00:00Z")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, ""),
        ("2026-01-01T11:54:59Z", ""),
        ("2026-01-01T12:54:59+01:00", ""),
        ("2026-01-01T11:55:01Z", "within 5 minutes"),
        ("2199-01-01T00:00:00Z", "within 5 minutes"),
        ("yesterday", "is not a time"),
        ("", "is not a time"),
    ],
)
def test_locks(value: str | None, problem: str) -> None:
    found = locked({} if value is None else {"hamivgpu": value, "other": "x"}, "hamivgpu", NOW)
    assert problem in found
    assert bool(found) is bool(problem)
