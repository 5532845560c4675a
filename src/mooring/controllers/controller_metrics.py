"""Metrics of the controllers. The metrics of queues and jobs have Volcano's names."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

_PHASES: Final = ("pending", "inqueue", "running", "unknown", "completed")


class ControllerMetrics:
    """All metrics of one controller process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
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

    def count_finished_job(self, key: str, queue: str, *, completed: bool) -> None:
        """Count a job that completed or failed."""
        (self._completed if completed else self._failed).labels(key, queue).inc()

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """Return all metrics in the format that the Accept header prefers, and its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
