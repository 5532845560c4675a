"""Metrics of batch sessions, under Volcano's names."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest

from mooring.controllers.controller_metrics import ControllerMetrics
from mooring.observe.histograms import exponential_range
from mooring.observe.session_metrics import QueueFigures, SessionMetrics

_QUEUE_AMOUNTS = {
    f"queue_{kind}_{unit}": labels
    for kind in ("allocated", "request", "deserved", "capacity", "real_capacity")
    for unit, labels in (
        ("milli_cpu", ("queue_name",)),
        ("memory_bytes", ("queue_name",)),
        ("scalar_resources", ("queue_name", "resource")),
    )
}
#: The metrics of Volcano 1.15.1's scheduler with their labels.
GAUGES: dict[str, tuple[str, ...]] = {
    **_QUEUE_AMOUNTS,
    "queue_share": ("queue_name",),
    "queue_weight": ("queue_name",),
    "queue_overused": ("queue_name",),
    "job_share": ("job_ns", "job_id"),
    "job_retry_counts": ("job_id",),
    "unschedule_task_count": ("job_id",),
    "unschedule_job_count": (),
    "pod_preemption_victims": (),
    "total_preemption_attempts": (),
    "e2e_job_scheduling_duration": ("job_name", "queue", "job_namespace"),
    "e2e_job_scheduling_start_time": ("job_name", "queue", "job_namespace"),
    "e2e_job_scheduling_last_time": ("job_name", "queue", "job_namespace"),
}
#: In addition the lowest and the highest bound, and the number of bounds.
HISTOGRAMS: dict[str, tuple[tuple[str, ...], tuple[float, float, int]]] = {
    "e2e_scheduling_latency_milliseconds": ((), (1, 5000, 20)),
    "open_session_duration_milliseconds": ((), (1, 5000, 20)),
    "e2e_job_scheduling_latency_milliseconds": ((), (100, 120000, 30)),
    "plugin_scheduling_latency_milliseconds": (("plugin", "OnSession"), (0.1, 100, 15)),
    "action_scheduling_latency_milliseconds": (("action",), (1, 2000, 20)),
    "task_scheduling_latency_milliseconds": (("stage",), (50, 60000, 30)),
    "scheduling_stage_duration_milliseconds": (("stage",), (0.1, 500, 20)),
}
#: Metrics that are omitted; docs/operate.md says why.
OMITTED = {"goroutines", "namespace_share", "namespace_weight", "namespace_weighted_share"}
CONTROLLER: dict[str, tuple[str, ...]] = {
    **{
        f"queue_pod_group_{phase}_count": ("queue_name",)
        for phase in ("pending", "inqueue", "running", "unknown", "completed")
    },
    "job_completed_phase_count": ("job_name", "queue_name"),
    "job_failed_phase_count": ("job_name", "queue_name"),
    "controller_job_to_pod_creation_latency_milliseconds": (),
}


def filled() -> tuple[CollectorRegistry, SessionMetrics]:
    """Metrics with a value for each."""
    registry = CollectorRegistry()
    metrics = SessionMetrics(registry)
    metrics.keep_jobs([("default/gang", ("gang", "default", "default"), 1000.0)])
    metrics.opened(0.003)
    with metrics.measured("drf", "OnSessionOpen"):
        pass
    metrics.acted("allocate", 0.25)
    metrics.closed(0.3)
    metrics.placed("default/gang", 1002.5)
    metrics.reached("Bound", 3.0)
    metrics.stage("Predicate", 0.002)
    metrics.unschedulable = 3
    metrics.unscheduled = {"default/gang": 4}
    metrics.count_retries()
    metrics.job_shares = {("default", "gang"): 0.5}
    amounts = {"cpu": 1500.0, "memory": 1024.0, "pods": 3.0}
    metrics.queues = {
        "default": QueueFigures(amounts, amounts, amounts, amounts, amounts, share=0.5, weight=2, overused=True)
    }
    metrics.binds = lambda: {"bound": 7, "failed": 0}
    metrics.evicted = 2
    metrics.preemption_attempts, metrics.preemption_victims = 5, 2
    return registry, metrics


def lines(registry: CollectorRegistry) -> list[str]:
    return generate_latest(registry).decode().splitlines()


def test_what_a_scrape_shows() -> None:
    registry, _ = filled()
    found = lines(registry)
    for line in (
        "volcano_e2e_scheduling_latency_milliseconds_sum 300.0",
        "volcano_open_session_duration_milliseconds_count 1.0",
        'volcano_action_scheduling_latency_milliseconds_sum{action="allocate"} 250.0',
        'volcano_plugin_scheduling_latency_milliseconds_count{OnSession="OnSessionOpen",plugin="drf"} 1.0',
        'volcano_task_scheduling_latency_milliseconds_sum{stage="Bound"} 3000.0',
        'volcano_scheduling_stage_duration_milliseconds_sum{stage="Predicate"} 2.0',
        'volcano_schedule_attempts_total{result="scheduled"} 7.0',
        'volcano_schedule_attempts_total{result="unschedulable"} 3.0',
        'volcano_schedule_attempts_total{result="error"} 0.0',
        "volcano_e2e_job_scheduling_latency_milliseconds_sum 2500.0",
        'volcano_e2e_job_scheduling_duration{job_name="gang",job_namespace="default",queue="default"} 2500.0',
        'volcano_e2e_job_scheduling_last_time{job_name="gang",job_namespace="default",queue="default"} 1002.5',
        'volcano_unschedule_task_count{job_id="default/gang"} 4.0',
        "volcano_unschedule_job_count 1.0",
        'volcano_job_retry_counts{job_id="default/gang"} 1.0',
        'volcano_job_share{job_id="gang",job_ns="default"} 0.5',
        'volcano_queue_allocated_milli_cpu{queue_name="default"} 1500.0',
        'volcano_queue_deserved_memory_bytes{queue_name="default"} 1024.0',
        'volcano_queue_real_capacity_scalar_resources{queue_name="default",resource="pods"} 3.0',
        'volcano_queue_overused{queue_name="default"} 1.0',
        "volcano_total_preemption_attempts 5.0",
        "volcano_pod_preemption_victims 2.0",
        'mooring_batch_binds_total{result="bound"} 7.0',
        "mooring_batch_evictions_total 2.0",
    ):
        assert line in found


def _labels(registry: CollectorRegistry) -> Iterator[tuple[str, str, frozenset[str]]]:
    for family in registry.collect():
        for sample in family.samples:
            yield family.name, family.type, frozenset(sample.labels) - {"le"}


def test_names_and_labels_are_those_of_volcano() -> None:
    registry, _ = filled()
    expected = {f"volcano_{name}": frozenset(labels) for name, labels in GAUGES.items()}
    expected |= {f"volcano_{name}": frozenset(labels) for name, (labels, _) in HISTOGRAMS.items()}
    expected["volcano_schedule_attempts"] = frozenset({"result"})
    found = {name: labels for name, _, labels in _labels(registry) if name.startswith("volcano_")}
    assert found == expected
    assert not {f"volcano_{name}" for name in OMITTED} & found.keys()


def test_buckets_are_those_of_volcano() -> None:
    registry, _ = filled()
    for family in registry.collect():
        if family.type == "histogram":
            bounds = [float(each.labels["le"]) for each in family.samples if each.name.endswith("_bucket")]
            low, high, count = HISTOGRAMS[family.name.removeprefix("volcano_")][1]
            assert bounds[:-1] == list(exponential_range(low, high, count))
            assert abs(bounds[-2] / high - 1) < 1e-9


def test_names_and_labels_of_the_controllers_are_those_of_volcano() -> None:
    metrics = ControllerMetrics()
    metrics.set_queue("default", {"pending": 1})
    metrics.count_finished_job("default/a", "default", completed=True)
    metrics.count_finished_job("default/a", "default", completed=False)
    metrics.observe_pod_creation(2.0)
    assert "volcano_controller_job_to_pod_creation_latency_milliseconds_sum 2000.0" in lines(metrics.registry)
    found = {name: labels for name, _, labels in _labels(metrics.registry) if name.startswith("volcano_")}
    assert found == {f"volcano_{name}": frozenset(labels) for name, labels in CONTROLLER.items()}


def test_series_of_jobs_and_queues_that_are_gone_are_removed() -> None:
    registry, metrics = filled()
    metrics.keep_jobs([])
    metrics.unscheduled, metrics.job_shares, metrics.queues = {}, {}, {}
    text = "\n".join(lines(registry))
    assert "gang" not in text
    assert "queue_name" not in text


def test_a_job_that_changes_its_queue_has_one_series() -> None:
    registry, metrics = filled()
    metrics.keep_jobs([("default/gang", ("gang", "research", "default"), 1000.0)])
    found = [line for line in lines(registry) if line.startswith("volcano_e2e_job_scheduling_start_time{")]
    assert len(found) == 1
    assert 'queue="research"' in found[0]


def test_nothing_is_shown_of_what_has_not_happened() -> None:
    registry = CollectorRegistry()
    SessionMetrics(registry)
    assert "latency" not in generate_latest(registry).decode()
