"""Arithmetic for scorers: integer division as Go does it, and normalization of scores to 0..100."""

from __future__ import annotations

from typing import overload

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

#: The highest score that a plugin can give a node.
MAX_SCORE = 100


def truncated(dividend: int, divisor: int) -> int:
    """Divide integers, rounding toward zero as Go does (Python's ``//`` rounds down)."""
    quotient = dividend // divisor
    return quotient + 1 if quotient < 0 and quotient * divisor != dividend else quotient


def truncated_all(dividends: Ints, divisor: Ints | int) -> Ints:
    """Apply ``truncated`` to an array."""
    quotients: Ints = dividends // divisor
    if len(quotients) and quotients.min() < 0:
        quotients += (quotients < 0) & (quotients * divisor != dividends)
    return quotients


@overload
def default_normalize(scores: Ints, *, reverse: bool = False) -> Ints | int: ...
@overload
def default_normalize(scores: int, *, reverse: bool = False) -> int: ...
def default_normalize(scores: Ints | int, *, reverse: bool = False) -> Ints | int:
    """Scale scores so that the highest becomes 100; with ``reverse``, the highest becomes 0 and 0 becomes 100.

    A number instead of an array means that all nodes have that score; the result is a number if all are equal.
    """
    if isinstance(scores, int):
        top = max(scores, 0)
        if top == 0:
            return MAX_SCORE if reverse else scores
        return 0 if reverse else MAX_SCORE
    top = max(int(scores.max()), 0) if len(scores) else 0
    if top == 0:
        return MAX_SCORE if reverse else scores
    scaled = truncated_all(scores * MAX_SCORE, top)
    return np.subtract(MAX_SCORE, scaled, out=scaled) if reverse else scaled
