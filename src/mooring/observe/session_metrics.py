"""Metrics of batch sessions, with the names, labels and buckets of Volcano 1.15."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from mooring.observe.histograms import Histograms, exponential_range

_SESSION: Final = exponential_range(1, 5000, 20)
_NO_AMOUNTS: Final[Mapping[str, float]] = {}
_JOB_LABELS: Final = ("job_name", "queue", "job_namespace")


class QueueFigures(NamedTuple):
    """The amounts of a queue by resource: CPU in millicores, memory in bytes. None means not known."""

    allocated: Mapping[str, float] = _NO_AMOUNTS
    request: Mapping[str, float] = _NO_AMOUNTS
    deserved: Mapping[str, float] = _NO_AMOUNTS
    capacity: Mapping[str, float] = _NO_AMOUNTS
    real_capacity: Mapping[str, float] = _NO_AMOUNTS
    share: float | None = None
    weight: float | None = None
    overused: bool | None = None


class JobTimes:
    """When a job was created and when its last pod was placed, in seconds since 1970."""

    __slots__ = ("created", "labels", "last")

    def __init__(self, labels: tuple[str, str, str], created: float) -> None:
        #: Its name, queue and namespace.
        self.labels = labels
        self.created = created
        self.last: float | None = None


class SessionMetrics(Collector):
    """The durations and results of sessions, and the figures of queues and jobs."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._whole = Histograms(
            "volcano_e2e_scheduling_latency_milliseconds", "Duration of sessions, in milliseconds.", (), _SESSION
        )
        self._opening = Histograms(
            "volcano_open_session_duration_milliseconds",
            "Duration of opening a session, in milliseconds.",
            (),
            _SESSION,
        )
        self._actions = Histograms(
            "volcano_action_scheduling_latency_milliseconds",
            "Duration of actions, in milliseconds.",
            ("action",),
            exponential_range(1, 2000, 20),
        )
        self._plugins = Histograms(
            "volcano_plugin_scheduling_latency_milliseconds",
            "Duration of opening and closing a session in a plugin, in milliseconds.",
            ("plugin", "OnSession"),
            exponential_range(0.1, 100, 15),
        )
        self._jobs = Histograms(
            "volcano_e2e_job_scheduling_latency_milliseconds",
            "Time from the creation of a job to the placement of pods, in milliseconds.",
            (),
            exponential_range(100, 120000, 30),
        )
        self._tasks = Histograms(
            "volcano_task_scheduling_latency_milliseconds",
            "Time from the creation of a pod to a stage, in milliseconds.",
            ("stage",),
            exponential_range(50, 60000, 30),
        )
        self._stages = Histograms(
            "volcano_scheduling_stage_duration_milliseconds",
            "Duration of the stages of scheduling a pod (Predicate, Scoring, PreBind, Bind), in milliseconds.",
            ("stage",),
            exponential_range(0.1, 500, 20),
        )
        #: The number of times that a session could not place a pod.
        self.unschedulable = 0
        #: Admitted job -> number of its unscheduled tasks.
        self.unscheduled: Mapping[str, int] = {}
        self.queues: Mapping[str, QueueFigures] = {}
        #: Namespace and name of a job -> its dominant share.
        self.job_shares: Mapping[tuple[str, str], float] = {}
        #: Result (bound, failed) -> pods, read on a scrape; and the number of evicted pods.
        self.binds: Callable[[], Mapping[str, int]] = dict
        self.evicted = 0
        self.preemption_attempts = 0
        #: The victims of the last session with preemption.
        self.preemption_victims = 0
        self._retries: dict[str, int] = {}
        self._times: dict[str, JobTimes] = {}
        if registry is not None:
            registry.register(self)

    def opened(self, seconds: float) -> None:
        """Record the time to open a session."""
        self._opening.child().observe(seconds * 1000)

    @contextlib.contextmanager
    def measured(self, plugin: str, method: str) -> Iterator[None]:
        """Record the duration of a plugin's method."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self._plugins.child(plugin, method).observe((time.perf_counter() - started) * 1000)

    def acted(self, action: str, seconds: float) -> None:
        """Record the duration of an action."""
        self._actions.child(action).observe(seconds * 1000)

    def closed(self, seconds: float) -> None:
        """Record the duration of a session."""
        self._whole.child().observe(seconds * 1000)

    def placed(self, job: str, now: float) -> None:
        """Record that pods of a job were placed."""
        times = self._times.get(job)
        if times is not None:
            times.last = now
            self._jobs.child().observe(max(now - times.created, 0.0) * 1000)

    def reached(self, stage: str, seconds: float) -> None:
        """Record the age of a pod when it reached a stage."""
        self._tasks.child(stage).observe(max(seconds, 0.0) * 1000)

    def stage(self, stage: str, seconds: float) -> None:
        """Record the duration of a stage of scheduling a pod."""
        self._stages.child(stage).observe(seconds * 1000)

    def keep_jobs(self, jobs: Iterable[tuple[str, tuple[str, str, str], float]]) -> None:
        """Set the jobs that exist, with their labels and their times of creation. The series of others are removed."""
        former, self._times = self._times, {}
        for job, labels, created in jobs:
            times = former.get(job)
            self._times[job] = times if times is not None and times.labels == labels else JobTimes(labels, created)
        self._retries = {job: count for job, count in self._retries.items() if job in self._times}

    def count_retries(self) -> None:
        """Count a further session for every unscheduled job."""
        for job in self.unscheduled:
            self._retries[job] = self._retries.get(job, 0) + 1

    def describe(self) -> Iterator[Metric]:
        """Return nothing, so that registering does not collect."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Yield the non-empty metric families."""
        yield from (family for family in self._families() if family.samples)

    def _families(self) -> Iterator[Metric]:
        for histograms in (
            self._whole, self._opening, self._actions, self._plugins, self._jobs, self._tasks, self._stages
        ):  # fmt: skip
            yield histograms.family()
        waiting = GaugeMetricFamily("volcano_unschedule_task_count", "Unscheduled tasks by job.", labels=("job_id",))
        for job, count in self.unscheduled.items():
            waiting.add_metric((job,), count)
        yield waiting
        yield GaugeMetricFamily("volcano_unschedule_job_count", "Unscheduled jobs.", value=len(self.unscheduled))
        yield from self._job_families()
        yield from self._queue_families()
        binds = CounterMetricFamily("mooring_batch_binds", "Binds of batch sessions by result.", labels=("result",))
        attempts = CounterMetricFamily(
            "volcano_schedule_attempts", "Attempts of sessions to schedule pods by result.", labels=("result",)
        )
        for result, bound in self.binds().items():
            binds.add_metric((result,), bound)
            attempts.add_metric(("scheduled" if result == "bound" else "error",), bound)
        attempts.add_metric(("unschedulable",), self.unschedulable)
        yield binds
        yield attempts
        yield CounterMetricFamily("mooring_batch_evictions", "Pods evicted by sessions.", value=self.evicted)
        yield GaugeMetricFamily(
            "volcano_pod_preemption_victims",
            "Victims of the last session with preemption.",
            value=self.preemption_victims,
        )
        # Gauges, because the names of Volcano's counters do not end in _total.
        yield GaugeMetricFamily(
            "volcano_total_preemption_attempts", "Attempts of preemption.", value=self.preemption_attempts
        )

    def _job_families(self) -> Iterator[Metric]:
        shares = GaugeMetricFamily(
            "volcano_job_share", "Dominant share of a job (plugin drf).", labels=("job_ns", "job_id")
        )
        for labels, share in self.job_shares.items():
            shares.add_metric(labels, share)
        yield shares
        retries = GaugeMetricFamily(
            "volcano_job_retry_counts", "Sessions in which a job could not be scheduled.", labels=("job_id",)
        )
        for job, count in self._retries.items():
            retries.add_metric((job,), count)
        yield retries
        gauges: tuple[tuple[str, str, Callable[[JobTimes], float | None]], ...] = (
            ("start_time", "Time of the creation of a job, in seconds since 1970.", lambda times: times.created),
            ("last_time", "Time of the last placement, in seconds since 1970.", lambda times: times.last),
            (
                "duration",
                "Time from the creation of a job to its last placement, in milliseconds.",
                lambda times: None if times.last is None else max(times.last - times.created, 0.0) * 1000,
            ),
        )
        for title, text, value in gauges:
            family = GaugeMetricFamily(f"volcano_e2e_job_scheduling_{title}", text, labels=_JOB_LABELS)
            for times in self._times.values():
                if (found := value(times)) is not None:
                    family.add_metric(times.labels, found)
            yield family

    def _queue_families(self) -> Iterator[Metric]:
        amounts: tuple[tuple[str, str, Callable[[QueueFigures], Mapping[str, float]]], ...] = (
            ("allocated", "Allocated", lambda queue: queue.allocated),
            ("request", "Requested", lambda queue: queue.request),
            ("deserved", "Deserved", lambda queue: queue.deserved),
            ("capacity", "Maximum by the capability:", lambda queue: queue.capacity),
            ("real_capacity", "Maximum by capability and guarantees:", lambda queue: queue.real_capacity),
        )
        for title, text, of in amounts:
            yield from _amounts(title, text, {name: of(queue) for name, queue in self.queues.items()})
        numbers: tuple[tuple[str, str, Callable[[QueueFigures], float | None]], ...] = (
            ("share", "Share of a queue.", lambda queue: queue.share),
            ("weight", "Weight of a queue.", lambda queue: queue.weight),
            ("overused", "Whether a queue has more than it deserves.", lambda queue: queue.overused),
        )
        for title, text, value in numbers:
            family = GaugeMetricFamily(f"volcano_queue_{title}", text, labels=("queue_name",))
            for name, queue in self.queues.items():
                if (found := value(queue)) is not None:
                    family.add_metric((name,), float(found))
            yield family


def _amounts(title: str, text: str, queues: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    """Yield the three families of a kind of amount: CPU, memory and other resources."""
    cpu = GaugeMetricFamily(
        f"volcano_queue_{title}_milli_cpu", f"{text} CPU of a queue, in millicores.", labels=("queue_name",)
    )
    memory = GaugeMetricFamily(
        f"volcano_queue_{title}_memory_bytes", f"{text} memory of a queue, in bytes.", labels=("queue_name",)
    )
    scalars = GaugeMetricFamily(
        f"volcano_queue_{title}_scalar_resources",
        f"{text} other resources of a queue.",
        labels=("queue_name", "resource"),
    )
    for name, amounts in queues.items():
        for resource, amount in amounts.items():
            if resource == "cpu":
                cpu.add_metric((name,), amount)
            elif resource == "memory":
                memory.add_metric((name,), amount)
            else:
                scalars.add_metric((name, resource), amount)
    yield from (cpu, memory, scalars)
