"""The classes of prometheus_client, which is imported when metrics are read first.

It takes as long to import as a hundred modules of Mooring, and most schedulers are not scraped while they start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

__all__ = ["CounterMetricFamily", "GaugeMetricFamily", "HistogramMetricFamily"]


def __getattr__(name: str) -> object:
    """Import the classes on use."""
    if name in __all__:
        from prometheus_client import core

        return getattr(core, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
