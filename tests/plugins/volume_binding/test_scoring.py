"""Scores of nodes by the use of their storage."""

from __future__ import annotations

import pytest

from mooring.plugins.shape_score import ShapePoint
from mooring.plugins.volume_binding.scoring import StorageScorer, StorageUse


class TestScorer:
    RISING = (ShapePoint(utilization=0, score=0), ShapePoint(utilization=100, score=10))
    FALLING = (ShapePoint(utilization=0, score=10), ShapePoint(utilization=100, score=0))

    @pytest.mark.parametrize(
        ("shape", "uses", "expected"),
        [
            (RISING, {}, 0),
            (RISING, {"s": (50, 100)}, 50),
            (RISING, {"s": (1, 3)}, 33),
            (RISING, {"s": (200, 100)}, 100),
            (RISING, {"s": (0, 0)}, 100),
            (RISING, {"s": (30, 100), "t": (35, 100)}, 33),
            (RISING, {"s": (30, 100), "t": (31, 100), "u": (31, 100)}, 31),
            (FALLING, {"s": (1, 3)}, 67),
            (FALLING, {"s": (30, 100), "t": (35, 100)}, 68),
            ((ShapePoint(utilization=20, score=3), ShapePoint(utilization=50, score=8)), {"s": (10, 100)}, 30),
            ((ShapePoint(utilization=20, score=3), ShapePoint(utilization=50, score=8)), {"s": (33, 100)}, 51),
            ((ShapePoint(utilization=20, score=3), ShapePoint(utilization=50, score=8)), {"s": (90, 100)}, 80),
        ],
    )
    def test_scores(self, shape, uses, expected):
        assert StorageScorer(shape).score({name: StorageUse(*use) for name, use in uses.items()}) == expected
