"""What the controllers count; names of queues' and jobs' metrics are Volcano's."""

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
            "How long it took to look at an object.",
            ("controller",),
            registry=self.registry,
        )
        self._errors = Counter(
            "mooring_controller_reconcile_errors",
            "How often looking at an object failed.",
            ("controller",),
            registry=self.registry,
        )
        #: 1 while the controllers act: they lead, and nobody else does their work.
        self.acting = Gauge("mooring_controller_acting", "Whether the controllers act.", registry=self.registry)

    def looked(self, controller: str, seconds: float, *, failed: bool) -> None:
        """An object was looked at."""
        self._seconds.labels(controller).observe(seconds)
        if failed:
            self._errors.labels(controller).inc()

    def queue(self, name: str, counts: Mapping[str, int]) -> None:
        """How many groups of a queue are in which phase."""
        for phase, gauge in self._groups.items():
            gauge.labels(name).set(counts.get(phase, 0))

    def queue_gone(self, name: str) -> None:
        """A queue was deleted."""
        for gauge in self._groups.values():
            with contextlib.suppress(KeyError):
                gauge.remove(name)

    def job_ended(self, key: str, queue: str, *, completed: bool) -> None:
        """A job reached its end."""
        (self._completed if completed else self._failed).labels(key, queue).inc()

    def job_gone(self, key: str, queue: str) -> None:
        """A job was deleted."""
        for gauge in (self._completed, self._failed):
            with contextlib.suppress(KeyError):
                gauge.remove(key, queue)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """All metrics in the format that the reader prefers, with its content type."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type
