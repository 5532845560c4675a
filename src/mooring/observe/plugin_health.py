"""How users' plugins fare: calls, failures, time over budget, and whether they are switched off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric


class PluginHealth:
    """Counts by plugin and method; they outlive reloads of the plugins."""

    def __init__(self) -> None:
        self.failures: Counter[tuple[str, str]] = Counter()
        self.over_budget: Counter[tuple[str, str]] = Counter()
        self.hangs: Counter[tuple[str, str]] = Counter()
        #: Calls that were not made because the plugin was switched off.
        self.skipped: Counter[tuple[str, str]] = Counter()
        #: Plugins that are switched off at the moment.
        self.open: set[str] = set()
        #: ok, failed -> how often plugins or configuration were reloaded.
        self.reloads: Counter[str] = Counter()

    def families(self) -> Iterator[Metric]:
        """The metrics."""
        for name, text, counts in (
            ("mooring_plugin_failures", "Calls of plugins that raised or answered nonsense.", self.failures),
            ("mooring_plugin_over_budget", "Calls of plugins that took longer than their budget.", self.over_budget),
            ("mooring_plugin_hangs", "Calls of plugins that took longer than their timeout.", self.hangs),
            ("mooring_plugin_skipped", "Calls not made because the plugin is switched off.", self.skipped),
        ):
            family = CounterMetricFamily(name, text, labels=("plugin", "method"))
            for labels, count in counts.items():
                family.add_metric(labels, count)
            yield family
        opened = GaugeMetricFamily(
            "mooring_plugin_switched_off", "Plugins that are not asked, after many failures.", labels=("plugin",)
        )
        for plugin in sorted(self.open):
            opened.add_metric((plugin,), 1)
        yield opened
        reloads = CounterMetricFamily(
            "mooring_plugin_reloads", "Reloads of plugins and configuration.", labels=("result",)
        )
        for result, count in self.reloads.items():
            reloads.add_metric((result,), count)
        yield reloads
