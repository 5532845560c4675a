"""The scoring strategies of NodeResourcesFit: LeastAllocated, MostAllocated and RequestedToCapacityRatio.

Each strategy has three equivalent forms: for one resource of one node in integers (``rate``), for a column of floats
(``limit_floats``, then ``rate_floats``; in place, fast) and for a column of integers (``rate_ints``, for amounts beyond
floats).

"""

from __future__ import annotations

from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.framework import MAX_SCORE
from mooring.framework.normalize import truncated, truncated_all
from mooring.plugins.shape_score import ShapePoint, score_table

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_HUNDRED = np.float64(100)
_ZERO = np.float64(0)
_LARGEST = 2**63 - 1


class ResourceSpec(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A resource and its weight in scoring."""

    name: str
    weight: int = 1


class Ratio(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """The shape of RequestedToCapacityRatio."""

    shape: tuple[ShapePoint, ...] = ()


class ScoringStrategy(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """A strategy and its resources."""

    type: str = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))
    requested_to_capacity_ratio: Ratio | None = None


def _percent(amount: int) -> int:
    """Return 100 times an amount in 64 bits: kube-scheduler's product overflows for amounts beyond 80 PiB."""
    product = amount * MAX_SCORE
    return product if product <= _LARGEST else (product + _LARGEST + 1) % (2 * (_LARGEST + 1)) - _LARGEST - 1


class Strategy(Protocol):
    """Rates one resource; the node's score is the weighted mean over resources."""

    #: The dividend: 100 x free (-1) or 100 x used (+1).
    sign: int
    #: Whether a resource rated 0 is left out of the mean, and the mean is rounded instead of truncated.
    picky: bool

    def rate(self, requested: int, capacity: int) -> int:
        """Return the rating for a requested amount; ``capacity`` is not 0."""

    def limit_floats(self, quotients: Floats, *, overcommitted: bool) -> None:
        """Limit 100 x free (or used) / capacity to 0 to 100, in place.

        Without ``overcommitted``, no quotient is that of an overcommitted node.
        """

    def rate_floats(self, quotients: Floats) -> None:
        """Convert these quotients to ratings, in place. Unless the strategy is picky, this rounds down."""

    def rate_ints(self, requested: Ints, capacity: Ints) -> Ints:
        """Apply ``rate`` to a column."""


class LeastAllocated:
    """Prefers nodes with more free resources."""

    sign = -1
    picky = False

    def rate(self, requested: int, capacity: int) -> int:
        """Return the free share in percent."""
        if requested > capacity:
            return 0
        dividend = (capacity - requested) * MAX_SCORE
        return dividend // capacity if dividend <= _LARGEST else truncated(_percent(capacity - requested), capacity)

    def limit_floats(self, quotients: Floats, *, overcommitted: bool) -> None:
        """Rate an overcommitted node 0."""
        if overcommitted:
            np.maximum(quotients, _ZERO, out=quotients)

    def rate_floats(self, quotients: Floats) -> None:
        """Round down."""
        np.floor(quotients, out=quotients)

    def rate_ints(self, requested: Ints, capacity: Ints) -> Ints:
        """Apply ``rate`` to a column."""
        rated = truncated_all((capacity - requested) * MAX_SCORE, capacity)
        rated[requested > capacity] = 0
        return rated


class MostAllocated:
    """Prefers nodes with fewer free resources."""

    sign = 1
    picky = False

    def rate(self, requested: int, capacity: int) -> int:
        """Return the used share in percent."""
        return truncated(_percent(min(requested, capacity)), capacity)

    def limit_floats(self, quotients: Floats, *, overcommitted: bool) -> None:
        """Rate an overcommitted node 100."""
        if overcommitted:
            np.minimum(quotients, _HUNDRED, out=quotients)

    def rate_floats(self, quotients: Floats) -> None:
        """Round down."""
        np.floor(quotients, out=quotients)

    def rate_ints(self, requested: Ints, capacity: Ints) -> Ints:
        """Apply ``rate`` to a column."""
        return truncated_all(np.minimum(requested, capacity) * MAX_SCORE, capacity)


class RequestedToCapacityRatio:
    """Rates by a configured function of the utilization."""

    sign = 1
    picky = True

    def __init__(self, shape: tuple[ShapePoint, ...]) -> None:
        self._table = score_table(shape)
        self._floats: Floats = np.array(self._table, dtype=np.float64)
        self._ints: Ints = np.array(self._table, dtype=np.int64)

    def rate(self, requested: int, capacity: int) -> int:
        """Return the function's value at the utilization."""
        used = MAX_SCORE if requested > capacity else truncated(_percent(requested), capacity)
        return self._table[max(used, 0)]  # an overflowed product is below the first point

    def limit_floats(self, quotients: Floats, *, overcommitted: bool) -> None:
        """Treat an overcommitted node as full."""
        if overcommitted:
            np.minimum(quotients, _HUNDRED, out=quotients)

    def rate_floats(self, quotients: Floats) -> None:
        """Look up the function's values."""
        quotients[:] = self._floats[quotients.astype(np.intp)]

    def rate_ints(self, requested: Ints, capacity: Ints) -> Ints:
        """Apply ``rate`` to a column."""
        used = truncated_all(np.minimum(requested, capacity) * MAX_SCORE, capacity)
        return self._ints[np.maximum(used, 0)]


def make_strategy(args: ScoringStrategy) -> Strategy:
    """Return the configured strategy."""
    if args.type == "LeastAllocated":
        return LeastAllocated()
    if args.type == "MostAllocated":
        return MostAllocated()
    if args.type == "RequestedToCapacityRatio":
        if args.requested_to_capacity_ratio is None or not args.requested_to_capacity_ratio.shape:
            raise ValueError("scoringStrategy.requestedToCapacityRatio.shape: give at least one point")
        return RequestedToCapacityRatio(args.requested_to_capacity_ratio.shape)
    raise ValueError(f"scoring strategy {args.type} is not supported")
