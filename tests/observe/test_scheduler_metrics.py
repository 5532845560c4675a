"""Metrics: names, labels and buckets as kube-scheduler's, and numbers that add up."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from mooring.framework import Code
from mooring.observe.scheduler_metrics import ERROR, SCHEDULED, UNSCHEDULABLE, SchedulerMetrics


def scraped(metrics: SchedulerMetrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text, _ = metrics.render()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


#: What section 7.1 of the specification says: name -> (type, labels, first bound, factor, bounds).
HISTOGRAMS = {
    "scheduler_scheduling_attempt_duration_seconds": ({"result", "profile"}, 0.001, 2, 15),
    "scheduler_scheduling_algorithm_duration_seconds": (set(), 0.001, 2, 15),
    "scheduler_framework_extension_point_duration_seconds": ({"extension_point", "status", "profile"}, 0.0001, 2, 12),
    "scheduler_plugin_execution_duration_seconds": ({"plugin", "extension_point", "status"}, 1e-5, 1.5, 20),
    "scheduler_pod_scheduling_attempts": (set(), 1, 2, 5),
    "scheduler_pod_scheduling_sli_duration_seconds": ({"attempts"}, 0.01, 2, 20),
    "scheduler_preemption_victims": (set(), 1, 2, 7),
    "scheduler_permit_wait_duration_seconds": ({"result"}, 0.001, 2, 15),
}
OTHERS = {
    "scheduler_schedule_attempts": ("counter", {"result", "profile"}),
    "scheduler_plugin_evaluation": ("counter", {"plugin", "extension_point", "profile"}),
    "scheduler_queue_incoming_pods": ("counter", {"queue", "event"}),
    "scheduler_preemption_attempts": ("counter", set()),
    "scheduler_pending_pods": ("gauge", {"queue"}),
    "scheduler_unschedulable_pods": ("gauge", {"plugin", "profile"}),
    "scheduler_goroutines": ("gauge", {"operation"}),
    "scheduler_cache_size": ("gauge", {"type"}),
    "scheduler_resourceclaim_creates": ("counter", {"status"}),
}


@pytest.fixture
def full() -> SchedulerMetrics:
    """Metrics in which everything has happened once."""
    metrics = SchedulerMetrics()
    profile = metrics.profile("default-scheduler")
    profile.point("Filter", Code.SUCCESS, 0.001)
    profile.attempted(SCHEDULED, 0.1)
    metrics.algorithm.observe(0.1)
    metrics.pod_attempts.observe(1)
    metrics.sli(1).observe(1.0)
    metrics.victims.observe(2)
    metrics.permit_wait(Code.SUCCESS).observe(1)
    metrics.plugins.begin()
    metrics.plugins.wrap(lambda: None, "Fit", "Filter", "default-scheduler")()
    read = metrics.readings
    read.pending = lambda: {"active": 3}
    read.incoming = lambda: {("active", "PodAdd"): 4}
    read.unschedulable = lambda: {("Fit", "default-scheduler"): 1}
    read.cache_size = lambda: {"nodes": 5}
    read.tasks = lambda: {"binding": 6}
    return metrics


def test_names_labels_and_buckets(full):
    text, content_type = full.render()
    assert content_type.startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(text.decode())}
    for name, (labels, first, factor, count) in HISTOGRAMS.items():
        family = families[name]
        bounds = sorted({float(s.labels["le"]) for s in family.samples if s.name.endswith("_bucket")})
        assert family.type == "histogram", name
        assert bounds == [*(pytest.approx(first * factor**i) for i in range(count)), float("inf")], name
        assert {frozenset(s.labels) - {"le"} for s in family.samples} == {frozenset(labels)}, name
    for name, (kind, labels) in OTHERS.items():
        assert families[name].type == kind, name
        assert {frozenset(s.labels) for s in families[name].samples} == {frozenset(labels)}, name
    unknown = {name for name in families if name.startswith("scheduler_")} - HISTOGRAMS.keys() - OTHERS.keys()
    assert unknown == {"scheduler_pod_scheduled_after_flush"}  # alpha


def test_open_metrics_for_those_who_ask(full):
    text, content_type = full.render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert text.endswith(b"# EOF\n")


def test_attempts_are_the_attempts_timed():
    metrics = SchedulerMetrics()
    for result, times in ((SCHEDULED, 3), (UNSCHEDULABLE, 2), (ERROR, 1)):
        for _ in range(times):
            metrics.profile("p").attempted(result, 0.01)
    found = scraped(metrics)
    for result, times in ((SCHEDULED, 3), (UNSCHEDULABLE, 2), (ERROR, 1)):
        labels = (("profile", "p"), ("result", result))
        assert found["scheduler_schedule_attempts_total", labels] == times
        assert found["scheduler_scheduling_attempt_duration_seconds_count", labels] == times


@pytest.mark.parametrize(("attempts", "label"), [(1, "1"), (14, "14"), (15, "15+"), (99, "15+")])
def test_many_attempts_are_one_label(attempts, label):
    metrics = SchedulerMetrics()
    metrics.sli(attempts).observe(1.0)
    assert ("scheduler_pod_scheduling_sli_duration_seconds_count", (("attempts", label),)) in scraped(metrics)


def test_two_schedulers_have_nothing_in_common():
    one, other = SchedulerMetrics(), SchedulerMetrics()
    one.profile("p").attempted(SCHEDULED, 1.0)
    assert not any(name.startswith("scheduler_schedule_attempts") for name, _ in scraped(other))


# Plugins
