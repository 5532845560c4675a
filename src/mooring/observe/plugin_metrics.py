"""Metrics of plugins: calls, durations, failures, time over budget, and open circuit breakers.

Every call is counted. One cycle in ten is timed, as in kube-scheduler, to limit the cost. The timed cycles are chosen
by counting, not at random, because metrics must not change the decisions with a given seed.
"""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from time import perf_counter
from typing import TYPE_CHECKING, Any

from mooring.framework.status import Code, Status
from mooring.observe import metric_families
from mooring.observe.histograms import Histograms, exponential

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class PluginHealth:
    """Counters by plugin and method. They survive reloads."""

    def __init__(self) -> None:
        self.failures: Counter[tuple[str, str]] = Counter()
        self.over_budget: Counter[tuple[str, str]] = Counter()
        self.hangs: Counter[tuple[str, str]] = Counter()
        #: Calls that were skipped because the circuit breaker was open.
        self.skipped: Counter[tuple[str, str]] = Counter()
        #: Plugins whose circuit breaker is open.
        self.open: set[str] = set()
        #: The plugins that have been guarded.
        self._plugins: set[str] = set()
        #: ok or failed -> number of reloads of plugins and configuration.
        self.reloads: Counter[str] = Counter(ok=0, failed=0)

    def add(self, plugin: str, method: str) -> None:
        """Start the counters of a method at 0, so that rates and alerts include the first failure."""
        self._plugins.add(plugin)
        for counts in (self.failures, self.over_budget, self.hangs, self.skipped):
            counts[plugin, method] += 0

    def families(self) -> Iterator[Metric]:
        """Yield the metric families."""
        for name, text, counts in (
            ("mooring_plugin_failures", "Plugin calls that raised or returned an invalid value.", self.failures),
            ("mooring_plugin_over_budget", "Plugin calls that exceeded their budget.", self.over_budget),
            ("mooring_plugin_hangs", "Plugin calls that exceeded their timeout.", self.hangs),
            ("mooring_plugin_skipped", "Plugin calls skipped because the circuit breaker is open.", self.skipped),
        ):
            family = metric_families.CounterMetricFamily(name, text, labels=("plugin", "method"))
            for labels, count in counts.items():
                family.add_metric(labels, count)
            yield family
        opened = metric_families.GaugeMetricFamily(
            "mooring_plugin_switched_off",
            "Plugins whose circuit breaker is open after many failures.",
            labels=("plugin",),
        )
        for plugin in sorted(self._plugins | self.open):
            opened.add_metric((plugin,), int(plugin in self.open))
        yield opened
        reloads = metric_families.CounterMetricFamily(
            "mooring_plugin_reloads", "Reloads of plugins and configuration.", labels=("result",)
        )
        for result, count in self.reloads.items():
            reloads.add_metric((result,), count)
        yield reloads


#: One in this number of cycles is timed.
_EVERY = 10


class PluginTimes:
    """Counters and timings of the plugin calls of all profiles."""

    def __init__(self) -> None:
        self.durations = Histograms(
            "scheduler_plugin_execution_duration_seconds",
            "Duration of a plugin at an extension point, in seconds; sampled from one cycle in ten.",
            ("plugin", "extension_point", "status"),
            exponential(1e-5, 1.5, 20),
        )
        #: Whether the current cycle is timed.
        self.sampling = False
        self._cycles = 0
        self._calls: dict[tuple[str, str, str], list[int]] = {}

    def begin(self) -> int:
        """Start a scheduling cycle; return its number."""
        self._cycles += 1
        self.sampling = self._cycles % _EVERY == 1
        return self._cycles

    def calls(self) -> Iterator[tuple[str, str, str, int]]:
        """Yield plugin, extension point, profile and number of calls."""
        for (plugin, point, profile), count in self._calls.items():
            yield plugin, point, profile, count[0]

    def mean_micros(self) -> dict[str, float]:
        """Return by plugin the mean duration of its timed calls in microseconds, over all extension points."""
        count: Counter[str] = Counter()
        seconds: dict[str, float] = {}
        for (plugin, *_), child in self.durations.children():
            count[plugin] += sum(child.counts)
            seconds[plugin] = seconds.get(plugin, 0.0) + child.total
        return {plugin: 1e6 * total / count[plugin] for plugin, total in seconds.items() if count[plugin]}

    def called(self, plugin: str, point: str) -> int:
        """Return the number of calls of a plugin at an extension point, in all profiles."""
        return sum(count for name, at, _, count in self.calls() if (name, at) == (plugin, point))

    def wrap(self, call: Callable[..., Any], plugin: str, point: str, profile: str) -> Callable[..., Any]:
        """Return a wrapper that counts the calls and times some of them."""
        count = self._calls.setdefault((plugin, point, profile), [0])

        @functools.wraps(call)  # keeps @depends_on declarations
        def watched(*args: Any) -> Any:
            count[0] += 1
            if not self.sampling:
                return call(*args)
            return self._timed(call, args, plugin, point)

        return watched

    def _timed(self, call: Callable[..., Any], args: tuple[Any, ...], plugin: str, point: str) -> Any:
        started = perf_counter()
        try:
            answer = call(*args)
        except BaseException:
            self._observe(plugin, point, Code.ERROR.title, started)
            raise
        if inspect.isawaitable(answer):
            return self._awaited(answer, plugin, point, started)
        self._observe(plugin, point, status_of(answer), started)
        return answer

    async def _awaited(self, answer: Awaitable[Any], plugin: str, point: str, started: float) -> Any:
        try:
            result = await answer
        except BaseException:
            self._observe(plugin, point, Code.ERROR.title, started)
            raise
        self._observe(plugin, point, status_of(result), started)
        return result

    def _observe(self, plugin: str, point: str, status: str, started: float) -> None:
        self.durations.child(plugin, point, status).observe(perf_counter() - started)


def status_of(answer: object) -> str:
    """Return the status label of a plugin's return value; results and verdicts for many nodes count as Success."""
    if isinstance(answer, tuple) and len(answer) == 2:
        answer = answer[1] if isinstance(answer[1], Status) else answer[0]
    if isinstance(answer, Status):
        return answer.code.title
    return Code.UNSCHEDULABLE.title if isinstance(answer, str) else Code.SUCCESS.title
