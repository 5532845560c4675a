"""SchedulerMetrics: kube-scheduler's stable and beta metrics with their names, labels and buckets, and some more.

Gauges of the queue and the cache are read on a scrape. Only durations and results are recorded during scheduling. Each
scheduler has its own registry, so that several can run in one process.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from mooring.framework.status import Code
from mooring.observe import metric_families
from mooring.observe.claim_metrics import ClaimMetrics
from mooring.observe.group_metrics import GroupMetrics
from mooring.observe.histograms import Histogram, Histograms, exponential
from mooring.observe.plugin_metrics import PluginHealth, PluginTimes

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.metrics_core import Metric
    from prometheus_client.registry import Collector

_ATTEMPT_BOUNDS = exponential(0.001, 2, 15)
#: Stored observations are looked at in one of this many attempts.
_COUNT_EVERY = 512
#: Attempts from this number on share one label value.
_MANY_ATTEMPTS = 15
#: The extension points whose calls are counted.
_EVALUATED = frozenset({"PreFilter", "Filter", "PreScore", "Score"})
_PREEMPTION = ("DefaultPreemption", "PostFilter")

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"


class Readings:
    """The functions that are called on a scrape. The owner of the queue and the cache sets them."""

    def __init__(self) -> None:
        #: queue -> pods.
        self.pending: Callable[[], Mapping[str, int]] = dict
        #: (queue, event) -> pods that were added.
        self.incoming: Callable[[], Mapping[tuple[str, str], int]] = dict
        #: (plugin, profile) -> unschedulable pods.
        self.unschedulable: Callable[[], Mapping[tuple[str, str], int]] = dict
        #: nodes, pods or assumed_pods -> number.
        self.cache_size: Callable[[], Mapping[str, int]] = dict
        #: event -> number recorded for in-flight pods.
        self.inflight_events: Callable[[], Mapping[str, int]] = dict
        #: Operation -> number of running background tasks.
        self.tasks: Callable[[], Mapping[str, int]] = dict


class ProfileMetrics:
    """The cached series of one profile."""

    __slots__ = ("_metrics", "_points", "durations", "filter", "name", "pre_filter", "pre_score", "score")

    def __init__(self, name: str, metrics: SchedulerMetrics) -> None:
        self.name = name
        self._metrics = metrics
        self._points: dict[tuple[str, Code], Histogram] = {}
        self.durations = {
            result: metrics.attempt_duration.child(result, name) for result in (SCHEDULED, UNSCHEDULABLE, ERROR)
        }
        # The series of an attempt that finds a node.
        self.pre_filter, self.filter, self.pre_score, self.score = (
            metrics.point_duration.child(point, Code.SUCCESS.title, name)
            for point in ("PreFilter", "Filter", "PreScore", "Score")
        )

    def point(self, point: str, code: Code, seconds: float) -> None:
        """Record the duration of an extension point."""
        child = self._points.get((point, code))
        if child is None:
            child = self._points[point, code] = self._metrics.point_duration.child(point, code.title, self.name)
        child.observe(seconds)

    def attempted(self, result: str, seconds: float) -> None:
        """Record the duration of an attempt."""
        self.durations[result].observe(seconds)


class SchedulerMetrics:
    """All metrics of one scheduler."""

    def __init__(self, *, entities: bool = False, claims: ClaimMetrics | None = None) -> None:
        """With ``entities``, also count the entities in the queue, as since 1.37."""
        self._entities = entities
        self.claims = claims if claims is not None else ClaimMetrics()
        self.groups = GroupMetrics()
        self.readings = Readings()
        self.plugins = PluginTimes()
        self.health = PluginHealth()
        self.attempt_duration = Histograms(
            "scheduler_scheduling_attempt_duration_seconds",
            "Duration of scheduling attempts, including binding, in seconds.",
            ("result", "profile"),
            _ATTEMPT_BOUNDS,
        )
        self._algorithm = Histograms(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Duration of the scheduling algorithm, in seconds.",
            (),
            _ATTEMPT_BOUNDS,
        )
        self.point_duration = Histograms(
            "scheduler_framework_extension_point_duration_seconds",
            "Duration of all plugins of an extension point, in seconds.",
            ("extension_point", "status", "profile"),
            exponential(0.0001, 2, 12),
        )
        self._pod_attempts = Histograms(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts until a pod was bound.",
            (),
            exponential(1, 2, 5),
        )
        self._sli = Histograms(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from when a pod was first ready for scheduling until it was bound, over all attempts, in seconds.",
            ("attempts",),
            exponential(0.01, 2, 20),
        )
        #: The series by the number of attempts.
        self._sli_of: dict[int, Histogram] = {}
        self._victims = Histograms(
            "scheduler_preemption_victims", "Number of victims of a preemption.", (), exponential(1, 2, 7)
        )
        self._extenders = Histograms(
            "mooring_extender_request_duration_seconds",
            "Duration of requests to extenders, in seconds.",
            ("extender", "verb", "result"),
            _ATTEMPT_BOUNDS,
        )
        self._permit_wait = Histograms(
            "scheduler_permit_wait_duration_seconds",
            "Time that pods wait at Permit, in seconds.",
            ("result",),
            _ATTEMPT_BOUNDS,
        )
        self.algorithm = self._algorithm.child()
        self.pod_attempts = self._pod_attempts.child()
        self.victims = self._victims.child()
        self.after_flush = 0
        #: The names of disabled metrics.
        self.disabled: frozenset[str] = frozenset()
        self._profiles: dict[str, ProfileMetrics] = {}
        self._others: list[Callable[[CollectorRegistry], None]] = []

    # During scheduling

    def begin_attempt(self) -> None:
        """Start a scheduling cycle."""
        if self.plugins.begin() % _COUNT_EVERY == 0:
            for histograms in (
                self.attempt_duration,
                self._algorithm,
                self.point_duration,
                self._pod_attempts,
                self._sli,
                self._victims,
            ):
                histograms.count_many()

    def profile(self, name: str) -> ProfileMetrics:
        """Return the series of a profile."""
        found = self._profiles.get(name)
        if found is None:
            found = self._profiles[name] = ProfileMetrics(name, self)
        return found

    def sli(self, attempts: int) -> Histogram:
        """Return the series for pods that needed this number of attempts."""
        found = self._sli_of.get(attempts)
        if found is None:
            label = str(attempts) if attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"
            found = self._sli.child(label)
            if attempts < _MANY_ATTEMPTS:
                self._sli_of[attempts] = found
        return found

    def permit_wait(self, code: Code) -> Histogram:
        """Return the series for pods that were allowed or rejected at Permit."""
        return self._permit_wait.child(code.title)

    # On a scrape

    def extender_called(self, extender: str, verb: str, success: bool, seconds: float) -> None:
        """Record a request to an extender."""
        self._extenders.child(extender, verb, "success" if success else "error").observe(seconds)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics in the format that the client prefers, and its content type."""
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def add(self, register: Callable[[CollectorRegistry], None]) -> None:
        """Call a function with the registry when it is made. Call it before metrics are rendered first."""
        self._others.append(register)

    @functools.cached_property
    def registry(self) -> CollectorRegistry:
        """The registry of all metrics. It is made when it is used first."""
        from prometheus_client import CollectorRegistry, ProcessCollector

        registry = CollectorRegistry()
        registry.register(cast("Collector", self))
        ProcessCollector(registry=registry)
        for register in self._others:
            register(registry)
        return registry

    def collect(self) -> Iterator[Metric]:
        """Yield the non-empty metric families for a registry."""
        yield from (family for family in self._families() if family.samples and not self._is_disabled(family))

    def _is_disabled(self, family: Metric) -> bool:
        return not self.disabled.isdisjoint({family.name, f"{family.name}_total"})

    def describe(self) -> Iterator[Metric]:
        """Return nothing, so that registering does not collect."""
        return iter(())

    def _families(self) -> Iterator[Metric]:
        yield self._attempts()
        for histograms in (
            self.attempt_duration,
            self._algorithm,
            self.point_duration,
            self.plugins.durations,
            self._pod_attempts,
            self._sli,
            self._victims,
            self._permit_wait,
            self._extenders,
        ):
            yield histograms.family()
        yield self._evaluations()
        yield from self.health.families()
        yield from self.claims.families()
        yield from self.groups.families()
        yield _one_counter(
            "scheduler_preemption_attempts", "Number of preemption attempts.", self.plugins.called(*_PREEMPTION)
        )
        yield _one_counter(
            "scheduler_pod_scheduled_after_flush",
            "Pods bound after a flush of the unschedulable pods: a plugin's queueing hints may miss an event.",
            self.after_flush,
        )
        yield from self._read()

    def _attempts(self) -> Metric:
        family = metric_families.CounterMetricFamily(
            "scheduler_schedule_attempts", "Scheduling attempts by result.", labels=("result", "profile")
        )
        for profile in self._profiles.values():
            for result, histogram in profile.durations.items():
                family.add_metric((result, profile.name), sum(histogram.counts))
        return family

    def _evaluations(self) -> Metric:
        family = metric_families.CounterMetricFamily(
            "scheduler_plugin_evaluation",
            "Number of plugin calls; cached answers are not counted.",
            labels=("plugin", "extension_point", "profile"),
        )
        totals: Counter[tuple[str, str, str]] = Counter()
        for plugin, point, profile, count in self.plugins.calls():
            if point in _EVALUATED and count:
                totals[plugin, point, profile] += count
        for labels, count in totals.items():
            family.add_metric(labels, count)
        return family

    def _read(self) -> Iterator[Metric]:
        read = self.readings
        incoming = metric_families.CounterMetricFamily(
            "scheduler_queue_incoming_pods",
            "Pods added to a queue, by event.",
            labels=("queue", "event"),
        )
        for labels, count in read.incoming().items():
            incoming.add_metric(labels, count)
        yield incoming
        pending = read.pending()
        # The last two queues are those of groups of pods, which need a feature gate.
        queues = {**pending, "incomplete": 0, "pending": 0} if self._entities else pending
        yield _gauge("scheduler_pending_pods", "Pending pods by queue.", "queue", queues)
        if self._entities:
            yield from _entity_families(pending, read.incoming())
        waiting = metric_families.GaugeMetricFamily(
            "scheduler_unschedulable_pods",
            "Unschedulable pods by the plugins that rejected them; a pod counts for each plugin.",
            labels=("plugin", "profile"),
        )
        for labels, count in read.unschedulable().items():
            waiting.add_metric(labels, count)
        yield waiting
        yield _gauge("scheduler_cache_size", "Number of objects in the cache.", "type", read.cache_size())
        yield _gauge(
            "scheduler_inflight_events", "Events recorded for in-flight pods.", "event", read.inflight_events()
        )
        yield _gauge("scheduler_goroutines", "Running background tasks.", "operation", read.tasks())


def _entity_families(pending: Mapping[str, int], added: Mapping[tuple[str, str], int]) -> Iterator[Metric]:
    """Yield the metrics of queued entities. All entities are pods."""
    queued = metric_families.GaugeMetricFamily(
        "scheduler_queued_entities", "Entities by queue and type.", labels=("queue", "type")
    )
    for queue, count in pending.items():
        queued.add_metric((queue, "pod"), count)
    yield queued
    incoming = metric_families.CounterMetricFamily(
        "scheduler_queue_incoming_entities",
        "Entities that moved to a queue, by event and type.",
        labels=("queue", "event", "type"),
    )
    for (queue, event), count in added.items():
        incoming.add_metric((queue, event, "pod"), count)
    yield incoming


def _gauge(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = metric_families.GaugeMetricFamily(name, text, labels=(label,))
    for value, count in values.items():
        family.add_metric((value,), count)
    return family


def _one_counter(name: str, text: str, count: int) -> Metric:
    return metric_families.CounterMetricFamily(name, text, value=count)
