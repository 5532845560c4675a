"""sla: a limit on the waiting time of jobs."""

from __future__ import annotations

from mooring.batch.callbacks import ABSTAIN, PERMIT
from mooring.batch.job import JobInfo
from mooring.batch.plugin import BatchPlugin
from mooring.batch.session import Session
from mooring.config.durations import DurationError, parse_duration


class WaitingTime(BatchPlugin):
    """Orders jobs by when their waiting time ends, and permits them once it has ended."""

    name = "sla"

    def on_session_open(self, session: Session) -> None:
        """Register the order and the votes."""
        self._session = session
        self._default = self._read_default()
        session.add_job_order(self._compare)
        session.add_job_enqueueable(self._vote)
        session.add_job_pipelined(self._vote)

    def _read_default(self) -> float | None:
        text = self.arguments.get("sla-waiting-time")
        try:
            nanoseconds = parse_duration(text) if isinstance(text, str) else 0
        except DurationError:
            return None
        return nanoseconds / 1e9 if nanoseconds > 0 else None

    def _limit(self, job: JobInfo) -> float | None:
        return self._default if job.waiting_time is None else job.waiting_time

    def _compare(self, left: JobInfo, right: JobInfo) -> int:
        mine, theirs = self._limit(left), self._limit(right)
        if mine is None or theirs is None:
            return int(mine is None) - int(theirs is None)
        first, second = left.created + mine, right.created + theirs
        return 0 if first == second else -1 if first < second else 1

    def _vote(self, job: JobInfo) -> int:
        limit = self._limit(job)
        return ABSTAIN if limit is None or self._session.now - job.created < limit else PERMIT
