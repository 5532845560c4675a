"""Histograms for the hot path, converted to Prometheus metric families on a scrape.

Hand-written because prometheus-client's histograms take a lock and iterate over their buckets, about 2 us per
observation, and a pod takes two dozen observations. These only store an observation, and count many of them together.
They are used by one thread only and need no lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from mooring.observe import metric_families

#: How many observations of a series are stored before they are counted.
_MANY = 512


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

    __slots__ = ("_counts", "_stored", "_total", "bounds", "observe")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self._counts = np.zeros(len(bounds) + 1, dtype=np.int64)
        self._total = 0.0
        #: The observations that are not counted yet.
        self._stored: list[float] = []
        #: Adds one observation; bounds are inclusive. Who keeps a series also calls ``count`` from time to time.
        self.observe: Callable[[float], None] = self._stored.append

    @property
    def counts(self) -> list[int]:
        """The number of observations in each bucket. The last bucket is +Inf."""
        self.count()
        counts: list[int] = self._counts.tolist()
        return counts

    @property
    def total(self) -> float:
        """The sum of all observations."""
        self.count()
        return self._total

    def observe_many(self, values: Iterable[float]) -> None:
        """Add observations and count them."""
        self._stored.extend(values)
        self.count()

    def count(self) -> None:
        """Count the stored observations."""
        stored = self._stored
        if stored:
            self._counts += np.bincount(np.array(self.bounds).searchsorted(stored), minlength=len(self._counts))
            self._total = sum(stored, self._total)
            stored.clear()

    def count_many(self) -> None:
        """Count the stored observations if there are many."""
        if len(self._stored) >= _MANY:
            self.count()

    def cumulative(self) -> list[tuple[str, float]]:
        """Return the cumulative buckets in the Prometheus format."""
        from prometheus_client.utils import floatToGoString

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
        """Return the histogram of some label values. Callers in the hot path keep it, and call ``count_many``."""
        found = self._children.get(values)
        if found is None:
            found = self._children[values] = Histogram(self._bounds)
        found.count_many()
        return found

    def count_many(self) -> None:
        """Count the stored observations of the series that have many."""
        for child in self._children.values():
            child.count_many()

    def children(self) -> Iterator[tuple[tuple[str, ...], Histogram]]:
        """Yield the label values and the histogram of each series."""
        yield from self._children.items()

    def family(self) -> metric_families.HistogramMetricFamily:
        """Return the metric family for a scrape, without empty histograms."""
        family = metric_families.HistogramMetricFamily(self.name, self._text, labels=self._labels)
        for values, child in self._children.items():
            if any(child.counts):
                family.add_metric(values, child.cumulative(), child.total)
        return family
