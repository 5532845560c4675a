"""conformance: critical pods are never evicted."""

from __future__ import annotations

from typing import Any

from mooring.batch.callbacks import PERMIT
from mooring.batch.plugin import BatchPlugin
from mooring.batch.session import Session
from mooring.batch.task import TaskInfo

_CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})


class Conformance(BatchPlugin):
    """Protects kube-system and the system-critical priority classes."""

    name = "conformance"

    def on_session_open(self, session: Session) -> None:
        """Register callbacks for all kinds of eviction."""
        session.add_preemptable(_not_critical)
        session.add_reclaimable(_not_critical)
        session.add_unified_evictable(_not_critical)


def _not_critical(_evictor: Any, candidates: list[TaskInfo]) -> tuple[list[TaskInfo], int]:
    victims = [
        task
        for task in candidates
        if task.namespace != "kube-system" and task.pod.spec.priority_class_name not in _CRITICAL
    ]
    return victims, PERMIT
