"""Metrics of batch sessions, under Volcano's names."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from mooring.observe.session_metrics import SessionMetrics


def test_what_a_scrape_shows() -> None:
    registry = CollectorRegistry()
    metrics = SessionMetrics(registry)
    metrics.opened(0.003)
    metrics.acted("allocate", 0.25)
    metrics.closed(0.3)
    metrics.unscheduled = {"default/gang": 4}
    metrics.allocated = {"default": {"cpu": 1500.0, "memory": 1024.0, "pods": 3.0}}
    metrics.binds = lambda: {"bound": 7, "failed": 0}
    metrics.evicted = 2
    lines = generate_latest(registry).decode().splitlines()
    for line in (
        "volcano_e2e_scheduling_latency_milliseconds_sum 300.0",
        'volcano_e2e_scheduling_latency_milliseconds_bucket{le="320.0"} 1.0',
        "volcano_open_session_duration_milliseconds_count 1.0",
        'volcano_action_scheduling_latency_milliseconds_sum{action="allocate"} 250.0',
        'volcano_unschedule_task_count{job_id="default/gang"} 4.0',
        "volcano_unschedule_job_count 1.0",
        'volcano_queue_allocated_milli_cpu{queue_name="default"} 1500.0',
        'volcano_queue_allocated_memory_bytes{queue_name="default"} 1024.0',
        'volcano_queue_allocated_scalar_resources{queue_name="default",resource="pods"} 3.0',
        'mooring_batch_binds_total{result="bound"} 7.0',
        "mooring_batch_evictions_total 2.0",
    ):
        assert line in lines


def test_nothing_is_shown_of_what_has_not_happened() -> None:
    registry = CollectorRegistry()
    SessionMetrics(registry)
    assert "latency" not in generate_latest(registry).decode()
