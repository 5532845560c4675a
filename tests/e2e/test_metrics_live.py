"""The metrics of kube-scheduler and of Mooring after the same day on the same control plane."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import free_port
from tests.e2e.endpoints import ask, is_ready
from tests.e2e.mooring_process import mooring_command

STABLE, BETA = "[STABLE]", "[BETA]"
#: Metrics of theirs that we do not have, and why.
MISSING: Final[dict[str, str]] = {}
#: Label values of theirs that we do not have, and why.
OTHER_VALUES: Final[dict[tuple[str, str], tuple[set[str], str]]] = {
    ("scheduler_framework_extension_point_duration_seconds", "extension_point"): (
        {"PreEnqueue"},
        "the queue asks these plugins, and times nothing",
    )
}
#: The labels whose values follow from what happened and not from chance.
COMPARED: Final = {
    "scheduler_schedule_attempts": ("result", "profile"),
    "scheduler_pending_pods": ("queue",),
    "scheduler_framework_extension_point_duration_seconds": ("extension_point", "profile"),
    "scheduler_scheduling_attempt_duration_seconds": ("result", "profile"),
    "scheduler_unschedulable_pods": ("plugin", "profile"),
    "scheduler_cache_size": ("type",),
}


def test_the_metrics_are_those_of_kube_scheduler(cluster: Cluster) -> None:
    """Names, types, labels and buckets of everything that is stable or beta there."""
    cluster.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    process = cluster.plane.start_kube_scheduler()
    (port,) = (each.partition("=")[2] for each in process.command if each.startswith("--secure-port="))
    theirs = day(cluster, int(port), "theirs")
    process.stop()
    port = str(free_port())
    command = mooring_command(cluster.plane, "--leader-elect=false", port=int(port))
    cluster.plane.run("mooring", command, ready=lambda: is_ready(int(port)))
    ours = day(cluster, int(port), "ours")
    kept = {name: each for name, each in theirs.items() if each.documentation.startswith((STABLE, BETA))}
    assert len(kept) >= 12
    assert kept.keys() - ours.keys() == MISSING.keys()
    # Plugins are timed in one attempt of ten, so of that there may be nothing to see yet.
    for name in (name for name in kept.keys() & ours.keys() if kept[name].samples and ours[name].samples):
        assert shape(ours[name]) == shape(kept[name]), name
    for name, labels in COMPARED.items():
        for label in labels:
            missing, _ = OTHER_VALUES.get((name, label), (set(), ""))
            assert values(theirs[name], label) - values(ours[name], label) == missing, (name, label)


def day(cluster: Cluster, port: int, who: str) -> dict[str, Metric]:
    """Let a scheduler bind, fail and preempt, and read its metrics."""
    cluster.add_node(f"{who}-node", cpu="2", labels={"for": who})
    here = {"nodeSelector": {"for": who}}
    cluster.add_pod(f"{who}-low", cpu="2", **here)
    cluster.wait_bound(f"{who}-low")
    cluster.add_pod(f"{who}-big", cpu="40", **here)
    cluster.wait_unschedulable(f"{who}-big")
    cluster.add_pod(f"{who}-high", cpu="2", priorityClassName="urgent", **here)
    cluster.wait_bound(f"{who}-high")
    token = cluster.plane.users["admin"].token

    def all_told() -> dict[str, Metric] | None:
        found = {each.name: each for each in families(ask(port, "/metrics", token=token).text)}
        bound = [each for each in found["scheduler_schedule_attempts"].samples if each.labels["result"] == "scheduled"]
        return found if sum(each.value for each in bound) >= 2 else None

    found = cluster.api.wait_for("metrics of two bound pods", all_told)
    cluster.api.delete(f"/api/v1/nodes/{who}-node")
    for pod in cluster.pods():
        cluster.api.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/{pod['metadata']['name']}")
    return found


def families(text: str) -> Iterator[Metric]:
    """The scheduler's own metrics."""
    return (each for each in text_string_to_metric_families(text) if each.name.startswith("scheduler_"))


def shape(family: Metric) -> tuple[str, set[frozenset[str]], list[float]]:
    """Type, label sets and the bounds of buckets."""
    labels = {frozenset(sample.labels) - {"le"} for sample in family.samples}
    bounds = {float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels}
    return family.type, labels, sorted(bounds)


def values(family: Metric, label: str) -> set[str]:
    return {sample.labels[label] for sample in family.samples}
