"""conformance: what the cluster itself needs is never evicted."""

from __future__ import annotations

from typing import Any

from mooring.batch.callbacks import PERMIT
from mooring.batch.plugin import BatchPlugin
from mooring.batch.session import Session
from mooring.batch.task import TaskInfo

_CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})


class Conformance(BatchPlugin):
    """Spares kube-system and critical priority classes."""

    name = "conformance"

    def on_session_open(self, session: Session) -> None:
        """Register for all ways to evict."""
        session.add_preemptable(_others)
        session.add_reclaimable(_others)
        session.add_unified_evictable(_others)


def _others(_evictor: Any, candidates: list[TaskInfo]) -> tuple[list[TaskInfo], int]:
    victims = [
        task
        for task in candidates
        if task.namespace != "kube-system" and task.pod.spec.priority_class_name not in _CRITICAL
    ]
    return victims, PERMIT
