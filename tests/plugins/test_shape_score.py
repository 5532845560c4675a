"""Broken lines: between, at and beyond the points, rising and falling."""

from __future__ import annotations

import pytest

from mooring.plugins.shape_score import ShapePoint, broken_line, score_table


def points(*pairs: tuple[int, int]) -> list[ShapePoint]:
    return [ShapePoint(utilization=utilization, score=score) for utilization, score in pairs]


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        (points((0, 0), (100, 10)), {0: 0, 1: 1, 50: 50, 100: 100}),
        (points((0, 10), (100, 0)), {0: 100, 1: 99, 50: 50, 100: 0}),
        (points((10, 2), (90, 8)), {0: 20, 10: 20, 11: 20, 12: 21, 50: 50, 90: 80, 100: 80}),
        (points((10, 8), (40, 1)), {10: 80, 11: 78, 12: 76, 39: 13, 40: 10, 100: 10}),
        (points((50, 7)), {0: 70, 50: 70, 100: 70}),
        (points((0, 0), (30, 10), (60, 5), (100, 5)), {15: 50, 30: 100, 45: 75, 60: 50, 80: 50}),
    ],
)
def test_broken_line(shape: list[ShapePoint], expected: dict[int, int]) -> None:
    """Division cuts towards zero, also on the way down."""
    assert {utilization: broken_line(shape, utilization) for utilization in expected} == expected


def test_table() -> None:
    """All whole percentages."""
    assert score_table(points((0, 0), (100, 10))) == list(range(101))
