"""Metrics of the controllers. Those of queues and jobs have Volcano's names, those of work queues client-go's."""

from __future__ import annotations

import contextlib
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mooring.observe.histograms import Histograms, exponential, exponential_range

_PHASES: Final = ("pending", "inqueue", "running", "unknown", "completed")
_QUEUE_BOUNDS: Final = exponential(1e-8, 10, 10)
_CREATION_BOUNDS: Final = exponential_range(50, 60000, 30)


class WorkQueueMetrics(Collector):
    """The work queue of each controller. Depth and running work are read on a scrape."""

    def __init__(self) -> None:
        #: Controller -> queued objects.
        self.depth: Callable[[], Mapping[str, int]] = dict
        #: Controller -> seconds that each object in progress has taken so far.
        self.running: Callable[[], Mapping[str, list[float]]] = dict
        self.adds: Counts[str] = Counts()
        self.retries: Counts[str] = Counts()
        self.waited = Histograms(
            "workqueue_queue_duration_seconds",
            "Time that objects stay in the queue, in seconds.",
            ("name",),
            _QUEUE_BOUNDS,
        )
        self.worked = Histograms(
            "workqueue_work_duration_seconds",
            "Duration of processing an object of the queue, in seconds.",
            ("name",),
            _QUEUE_BOUNDS,
        )

    def add_controllers(self, names: Iterable[str]) -> None:
        """Start the counters at 0, so that rates and alerts include the first retry."""
        for name in names:
            self.adds[name] += 0
            self.retries[name] += 0

    def describe(self) -> Iterator[Metric]:
        """Return nothing, so that registering does not collect."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the non-empty metric families."""
        running = self.running()
        gauges: tuple[tuple[str, str, Mapping[str, float]], ...] = (
            ("workqueue_depth", "Queued objects.", self.depth()),
            (
                "workqueue_unfinished_work_seconds",
                "Sum of the time that objects in progress have taken so far, in seconds.",
                {name: sum(seconds) for name, seconds in running.items()},
            ),
            (
                "workqueue_longest_running_processor_seconds",
                "Time that the oldest object in progress has taken so far, in seconds.",
                {name: max(seconds, default=0.0) for name, seconds in running.items()},
            ),
        )
        for title, text, values in gauges:
            gauge = GaugeMetricFamily(title, text, labels=("name",))
            for name, value in values.items():
                gauge.add_metric((name,), value)
            yield gauge
        for title, text, counts in (
            ("workqueue_adds", "Objects added to the queue.", self.adds),
            ("workqueue_retries", "Objects queued again after a delay.", self.retries),
        ):
            counter = CounterMetricFamily(title, text, labels=("name",))
            for name, count in counts.items():
                counter.add_metric((name,), count)
            yield counter
        yield from (family for family in (self.waited.family(), self.worked.family()) if family.samples)


class ControllerMetrics:
    """All metrics of one controller process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.work_queue = WorkQueueMetrics()
        self.registry.register(self.work_queue)
        self._groups = {
            phase: Gauge(
                f"volcano_queue_pod_group_{phase}_count",
                f"The number of {phase} PodGroups in a queue.",
                ("queue_name",),
                registry=self.registry,
            )
            for phase in _PHASES
        }
        labels = ("job_name", "queue_name")
        self._completed = Gauge(
            "volcano_job_completed_phase_count", "Jobs that completed.", labels, registry=self.registry
        )
        self._failed = Gauge("volcano_job_failed_phase_count", "Jobs that failed.", labels, registry=self.registry)
        self._created = Histogram(
            "volcano_controller_job_to_pod_creation_latency_milliseconds",
            "Time from the creation of a job to the creation of each of its pods, in milliseconds.",
            buckets=_CREATION_BOUNDS,
            registry=self.registry,
        )
        self._seconds = Histogram(
            "mooring_controller_reconcile_duration_seconds",
            "Duration of reconciling an object.",
            ("controller",),
            registry=self.registry,
        )
        self._errors = Counter(
            "mooring_controller_reconcile_errors",
            "Number of failed reconciliations.",
            ("controller",),
            registry=self.registry,
        )
        #: 1 while the controllers reconcile: this process is the leader, and Volcano's controllers do not run.
        self.acting = Gauge(
            "mooring_controller_acting", "Whether the controllers reconcile objects.", registry=self.registry
        )

    def add_controllers(self, names: Iterable[str]) -> None:
        """Start the counters of controllers at 0, so that rates and alerts include the first failure."""
        names = list(names)
        self.work_queue.add_controllers(names)
        for name in names:
            self._errors.labels(name)

    def observe_reconcile(self, controller: str, seconds: float, *, failed: bool) -> None:
        """Count a reconciliation."""
        self._seconds.labels(controller).observe(seconds)
        if failed:
            self._errors.labels(controller).inc()

    def set_queue(self, name: str, counts: Mapping[str, int]) -> None:
        """Set the number of PodGroups of a queue in each phase."""
        for phase, gauge in self._groups.items():
            gauge.labels(name).set(counts.get(phase, 0))

    def remove_queue(self, name: str) -> None:
        """Remove the metrics of a deleted queue."""
        for gauge in self._groups.values():
            with contextlib.suppress(KeyError):
                gauge.remove(name)

    def observe_pod_creation(self, seconds: float) -> None:
        """Count a pod that was created some time after its job."""
        self._created.observe(seconds * 1000)

    def count_finished_job(self, key: str, queue: str, *, completed: bool) -> None:
        """Count a job that completed or failed."""
        (self._completed if completed else self._failed).labels(key, queue).inc()

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics in the format that the Accept header prefers, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
