"""Counting in the hot path: numbers without locks, made into Prometheus' families when somebody asks.

prometheus-client's own histograms take a lock and walk over their buckets, some 2 us each; a decision makes a dozen
observations. Everything here is touched by one thread only, so a look-up by bisection and two additions will do.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Bucket bounds that grow by a factor."""
    bounds, bound = [], start
    for _ in range(count):
        bounds.append(bound)
        bound *= factor
    return tuple(bounds)


class Histogram:
    """One series: how many observations fell into each bucket, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        #: The last one counts what is above all bounds.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, amount: float) -> None:
        """Count one observation; a bound belongs to the bucket below it."""
        self.counts[bisect_left(self.bounds, amount)] += 1
        self.total += amount

    def cumulative(self) -> list[tuple[str, float]]:
        """The buckets as Prometheus writes them: each counts all below it too."""
        found, seen = [], 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            seen += count
            found.append((str(floatToGoString(bound)), float(seen)))  # type: ignore[no-untyped-call]  # it has no types
        return found


class Histograms:
    """A metric with labels: one histogram for each combination that was observed."""

    def __init__(self, name: str, text: str, labels: Sequence[str], bounds: tuple[float, ...]) -> None:
        self.name = name
        self._text = text
        self._labels = tuple(labels)
        self._bounds = bounds
        self._children: dict[tuple[str, ...], Histogram] = {}

    def child(self, *values: str) -> Histogram:
        """The histogram of some label values; keep it where it is needed often."""
        found = self._children.get(values)
        if found is None:
            found = self._children[values] = Histogram(self._bounds)
        return found

    def family(self) -> HistogramMetricFamily:
        """All of them, for a scrape; those that saw nothing are left out."""
        family = HistogramMetricFamily(self.name, self._text, labels=self._labels)
        for values, child in self._children.items():
            if any(child.counts):
                family.add_metric(values, child.cumulative(), child.total)
        return family
