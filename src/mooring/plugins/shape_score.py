"""Piecewise linear functions of the utilization, configured by shape points."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mooring.framework.normalize import truncated

#: Scores of shape points range to 10, scores of nodes to 100.
_SCALE = 10


class ShapePoint(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A utilization (0-100) and its score (0-10)."""

    utilization: int = 0
    score: int = 0


def broken_line(points: Sequence[ShapePoint], utilization: int) -> int:
    """Return the score (0-100) at a utilization, interpolated between points; constant outside of them."""
    last = points[0]
    for point in points:
        if utilization <= point.utilization:
            rise = (point.score - last.score) * _SCALE
            run = point.utilization - last.utilization
            return last.score * _SCALE + (truncated(rise * (utilization - last.utilization), run) if run else 0)
        last = point
    return last.score * _SCALE


def score_table(points: Sequence[ShapePoint]) -> list[int]:
    """Return the scores at 0 to 100 percent."""
    return [broken_line(points, utilization) for utilization in range(101)]
