"""cdp: pods that were scheduled recently are not evicted (cool-down protection)."""

from __future__ import annotations

from mooring.api.meta import parse_time
from mooring.batch.callbacks import PERMIT
from mooring.batch.plugin import BatchPlugin
from mooring.batch.session import Session
from mooring.batch.task import TaskInfo
from mooring.config.durations import DurationError, parse_duration

_COOLDOWN = "volcano.sh/cooldown-time"


class CooldownProtection(BatchPlugin):
    """Protects a running pod for its cool-down time after it was scheduled."""

    name = "cdp"

    def on_session_open(self, session: Session) -> None:
        """Register callbacks for evictions within and across queues."""
        self._session = session
        session.add_preemptable(self._unprotected)
        session.add_reclaimable(self._unprotected)

    def _unprotected(self, _evictor: TaskInfo, candidates: list[TaskInfo]) -> tuple[list[TaskInfo], int]:
        return [task for task in candidates if not self._is_protected(task)], PERMIT

    def _is_protected(self, task: TaskInfo) -> bool:
        pod = task.pod
        text = pod.labels.get(_COOLDOWN, pod.annotations.get(_COOLDOWN))
        if text is None or pod.status.phase != "Running":
            return False
        try:
            seconds = parse_duration(text) / 1e9
        except DurationError:
            return False
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "True":
                since = condition.last_transition_time
                return since is not None and parse_time(since) + seconds > self._session.now
        return False
