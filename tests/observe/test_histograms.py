"""Histograms count as prometheus-client's do."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client import Histogram as ClientHistogram

from mooring.observe.histograms import _MANY, Histogram, Histograms, exponential


@pytest.mark.parametrize(
    ("amount", "bucket"), [(0.0005, 0), (0.001, 0), (0.0010001, 1), (0.002, 1), (0.5, 9), (16.384, 14), (17.0, 15)]
)
def test_a_bound_belongs_to_the_bucket_below_it(amount, bucket):
    histogram = Histogram(exponential(0.001, 2, 15))
    histogram.observe(amount)
    assert histogram.counts.index(1) == bucket


def test_histograms_count_as_the_client_library_does():
    bounds, amounts = exponential(0.0001, 2, 12), [0.00005, 0.0001, 0.003, 0.003, 0.2, 0.3, 5.0]
    ours, registry = Histogram(bounds), CollectorRegistry()
    theirs = ClientHistogram("x", "x", buckets=bounds, registry=registry)
    for amount in amounts:
        ours.observe(amount)
        theirs.observe(amount)
    for bound, count in ours.cumulative():
        assert registry.get_sample_value("x_bucket", {"le": bound}) == count
    assert registry.get_sample_value("x_sum") == ours.total


def test_stored_observations_are_counted_before_there_are_too_many():
    histograms = Histograms("x", "x", (), exponential(0.001, 2, 15))
    for _ in range(3 * _MANY):
        histograms.child().observe(0.5)
        assert len(histograms.child()._stored) < _MANY
    assert histograms.child().counts[9] == 3 * _MANY
    assert histograms.child().total == 0.5 * 3 * _MANY
