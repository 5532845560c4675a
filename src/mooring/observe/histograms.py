"""Histograms for the hot path, converted to Prometheus metric families on a scrape.

Hand-written because prometheus-client's histograms take a lock and iterate over their buckets, about 2 us per
observation, and a decision makes a dozen observations. These are used by one thread only and need no lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from prometheus_client.core import HistogramMetricFamily
from prometheus_client.utils import floatToGoString


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return exponential bucket bounds."""
    bounds, bound = [], start
    for _ in range(count):
        bounds.append(bound)
        bound *= factor
    return tuple(bounds)


def exponential_range(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return exponential bucket bounds from the lowest to the highest, as client_golang computes them."""
    return exponential(low, (high / low) ** (1 / (count - 1)), count)


class Histogram:
    """One series: the number of observations in each bucket, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        #: The last bucket is +Inf.
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, amount: float) -> None:
        """Count one observation; bounds are inclusive."""
        self.counts[bisect_left(self.bounds, amount)] += 1
        self.total += amount

    def cumulative(self) -> list[tuple[str, float]]:
        """Return the cumulative buckets in the Prometheus format."""
        found, seen = [], 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            seen += count
            found.append((str(floatToGoString(bound)), float(seen)))  # type: ignore[no-untyped-call]  # it has no types
        return found


class Histograms:
    """A metric with labels: one histogram per combination of label values."""

    def __init__(self, name: str, text: str, labels: Sequence[str], bounds: tuple[float, ...]) -> None:
        self.name = name
        self._text = text
        self._labels = tuple(labels)
        self._bounds = bounds
        self._children: dict[tuple[str, ...], Histogram] = {}

    def child(self, *values: str) -> Histogram:
        """Return the histogram of some label values; callers in the hot path store it."""
        found = self._children.get(values)
        if found is None:
            found = self._children[values] = Histogram(self._bounds)
        return found

    def children(self) -> Iterator[tuple[tuple[str, ...], Histogram]]:
        """Yield the label values and the histogram of each series."""
        yield from self._children.items()

    def family(self) -> HistogramMetricFamily:
        """Return the metric family for a scrape, without empty histograms."""
        family = HistogramMetricFamily(self.name, self._text, labels=self._labels)
        for values, child in self._children.items():
            if any(child.counts):
                family.add_metric(values, child.cumulative(), child.total)
        return family
