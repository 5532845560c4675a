"""Metrics of batch sessions, with Volcano's names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mooring.observe.histograms import Histograms, exponential

_BOUNDS = exponential(5, 2, 15)


class SessionMetrics(Collector):
    """The durations and results of sessions, and the allocated resources of queues."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._whole = Histograms(
            "volcano_e2e_scheduling_latency_milliseconds", "Duration of sessions, in milliseconds.", (), _BOUNDS
        )
        self._opening = Histograms(
            "volcano_open_session_duration_milliseconds",
            "Duration of opening a session, in milliseconds.",
            (),
            _BOUNDS,
        )
        self._actions = Histograms(
            "volcano_action_scheduling_latency_milliseconds",
            "Duration of actions, in milliseconds.",
            ("action",),
            _BOUNDS,
        )
        #: Admitted job -> number of its unscheduled tasks.
        self.unscheduled: Mapping[str, int] = {}
        #: Queue -> resource -> allocated amount.
        self.allocated: Mapping[str, Mapping[str, float]] = {}
        #: Result (bound, failed) -> pods, read on a scrape; and the number of evicted pods.
        self.binds: Callable[[], Mapping[str, int]] = dict
        self.evicted = 0
        if registry is not None:
            registry.register(self)

    def opened(self, seconds: float) -> None:
        """Record the time to open a session."""
        self._opening.child().observe(seconds * 1000)

    def acted(self, action: str, seconds: float) -> None:
        """Record the duration of an action."""
        self._actions.child(action).observe(seconds * 1000)

    def closed(self, seconds: float) -> None:
        """Record the duration of a session."""
        self._whole.child().observe(seconds * 1000)

    def describe(self) -> Iterator[Metric]:
        """Return nothing, so that registering does not collect."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the non-empty metric families."""
        yield from (family for family in self._families() if family.samples)

    def _families(self) -> Iterator[Metric]:
        for histograms in (self._whole, self._opening, self._actions):
            yield histograms.family()
        waiting = GaugeMetricFamily("volcano_unschedule_task_count", "Unscheduled tasks by job.", labels=("job_id",))
        for job, count in self.unscheduled.items():
            waiting.add_metric((job,), count)
        yield waiting
        yield GaugeMetricFamily("volcano_unschedule_job_count", "Unscheduled jobs.", value=len(self.unscheduled))
        yield from self._queues()
        binds = CounterMetricFamily("mooring_batch_binds", "Binds of batch sessions by result.", labels=("result",))
        for result, count in self.binds().items():
            binds.add_metric((result,), count)
        yield binds
        yield CounterMetricFamily("mooring_batch_evictions", "Pods evicted by sessions.", value=self.evicted)

    def _queues(self) -> Iterator[Metric]:
        cpu = GaugeMetricFamily(
            "volcano_queue_allocated_milli_cpu", "Allocated CPU of a queue, in millicores.", labels=("queue_name",)
        )
        memory = GaugeMetricFamily(
            "volcano_queue_allocated_memory_bytes", "Allocated memory of a queue, in bytes.", labels=("queue_name",)
        )
        scalars = GaugeMetricFamily(
            "volcano_queue_allocated_scalar_resources",
            "Other allocated resources of a queue.",
            labels=("queue_name", "resource"),
        )
        for name, amounts in self.allocated.items():
            for resource, amount in amounts.items():
                if resource == "cpu":
                    cpu.add_metric((name,), amount)
                elif resource == "memory":
                    memory.add_metric((name,), amount)
                else:
                    scalars.add_metric((name, resource), amount)
        yield from (cpu, memory, scalars)
