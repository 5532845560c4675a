"""overcommit: jobs are admitted to queues as long as a multiple of the cluster could hold them."""

from __future__ import annotations

from mooring.batch.callbacks import PERMIT, REJECT
from mooring.batch.job import INQUEUE, JobInfo
from mooring.batch.plugin import BatchPlugin
from mooring.batch.plugins.queue_accounts import named_resources, reserved
from mooring.batch.resource import Resource
from mooring.batch.session import Session


class Overcommit(BatchPlugin):
    """Limits the requests of all admitted jobs to a multiple of the cluster."""

    name = "overcommit"

    def on_session_open(self, session: Session) -> None:
        """Compute the remaining resources and register callbacks."""
        factor = self.arguments.number("overcommit-factor", 1.2)
        self._session = session
        self._idle = session.total.clone().multiply(1.2 if factor < 1.0 else factor)
        used = Resource()
        for node in session.nodes.values():
            used.add(node.used)
        self._idle.sub(used)
        self._inqueue = Resource()
        for job in session.jobs.values():
            if job.phase == INQUEUE and job.min_resources is not None:
                self._inqueue.add(job.without_gated(job.min_resources))
            else:
                self._inqueue.add(reserved(job, inqueue=False))
        session.add_job_enqueueable(self._vote_enqueue)
        session.add_job_enqueued(self._on_enqueued)

    def _vote_enqueue(self, job: JobInfo) -> int:
        if job.min_resources is None:
            return PERMIT
        short = self._inqueue.clone().add(job.min_resources).exceeding(self._idle, job.min_resources)
        if not short:
            return PERMIT
        text = named_resources("resource in cluster is overused", "overused", short)
        self._session.notes.append((job, text))
        return REJECT

    def _on_enqueued(self, job: JobInfo) -> None:
        if job.min_resources is not None:
            self._inqueue.add(job.without_gated(job.min_resources))
