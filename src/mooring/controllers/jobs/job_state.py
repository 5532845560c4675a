"""What is known of each job beside its object: its pods, what happened to them, what was written last."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from mooring.api.volcano_jobs import VolcanoJob, VolcanoJobStatus
from mooring.controllers.jobs.members import Member
from mooring.controllers.jobs.policies import Delayed, Request
from mooring.kube.changes import is_newer


class Book:
    """One job. The cluster's answers to our own writes are remembered until the watch tells of them."""

    def __init__(self) -> None:
        self.pods: dict[str, Member] = {}
        self.requests: deque[Request] = deque()
        #: By pod; empty for the job itself.
        self.delayed: dict[str, Delayed] = {}
        #: Pods (by uid) and groups that we deleted.
        self.going: set[str] = set()
        #: The generation for which the plugins' objects were made.
        self.prepared = 0
        #: What was last said about the group, so that it is not said again and again.
        self.said = ""
        #: When the status was written last, and for how long new counts have to wait.
        self.written_at = 0.0
        self.held = 0.0
        self._uid = ""
        self._written: VolcanoJob | None = None

    def see(self, old: Member | None, new: Member | None) -> None:
        """Take over a change of a pod."""
        if new is not None:
            self.pods[new.name] = new
        elif old is not None:
            known = self.pods.get(old.name)
            if known is not None and known.uid == old.uid:
                del self.pods[old.name]
            self.going.discard(old.uid)

    def begin(self, job: VolcanoJob) -> bool:
        """Begin anew if this is not the job that the book is about; whether it is not."""
        if self._uid == job.uid:
            return False
        self._uid, self._written = job.uid, None
        self.requests.clear()
        self.delayed.clear()
        self.prepared, self.said = 0, ""
        return True

    def of_task(self, task: str) -> Iterator[Member]:
        """The pods of a task."""
        return (pod for pod in self.pods.values() if pod.task == task)

    def members(self, job: VolcanoJob) -> dict[str, Member]:
        """The job's own pods by name: not those of one that had its name before."""
        return {name: pod for name, pod in self.pods.items() if pod.job_uid == job.uid}

    def is_going(self, pod: Member) -> bool:
        """Whether a pod was told to go."""
        return pod.is_terminating or pod.uid in self.going

    def wrote(self, job: VolcanoJob) -> None:
        """A status was written, and this came of it."""
        self._written = job

    def current(self, job: VolcanoJob) -> VolcanoJob:
        """The job as the watch tells of it, with the status that was written last."""
        written = self._written
        if written is None or not is_newer(written.metadata.resource_version, job.metadata.resource_version):
            self._written = None
            return job
        return with_status(job, written.status)


def with_status(job: VolcanoJob, status: VolcanoJobStatus) -> VolcanoJob:
    """The job in another state."""
    return msgspec.structs.replace(job, status=status)
