"""State that the controller tracks for a job besides the object: pods, pending requests, the last status write."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from mooring.api.volcano_jobs import VolcanoJob, VolcanoJobStatus
from mooring.controllers.jobs.job_pods import JobPod
from mooring.controllers.jobs.job_status import Counts, count_pods
from mooring.controllers.jobs.policies import Delayed, Request
from mooring.kube.object_store import is_newer


class TrackedJob:
    """The state of one job. Results of the controller's own writes are kept until the watch delivers them."""

    def __init__(self) -> None:
        self.pods: dict[str, JobPod] = {}
        self.requests: deque[Request] = deque()
        #: Delayed actions by pod name; "" for the job itself.
        self.delayed: dict[str, Delayed] = {}
        #: The UIDs of pods and PodGroups that the controller deleted.
        self.deleted: set[str] = set()
        #: The job's generation for which the objects of its plugins were created.
        self.prepared = 0
        #: The job's generation whose templates were checked, and their errors.
        self.checked = 0
        self.template_errors: list[str] = []
        #: The note of the last warning event, to avoid repeating it.
        self.last_warning = ""
        #: When the status was last written, and how long a write of new counts is delayed.
        self.written_at = 0.0
        self.write_delay = 0.0
        self._uid = ""
        self._written: VolcanoJob | None = None

    def apply(self, old: JobPod | None, new: JobPod | None) -> None:
        """Apply a change of a pod."""
        if new is not None:
            self.pods[new.name] = new
        elif old is not None:
            cached = self.pods.get(old.name)
            if cached is not None and cached.uid == old.uid:
                del self.pods[old.name]
            self.deleted.discard(old.uid)

    def reset_for(self, job: VolcanoJob) -> bool:
        """Reset if a job of the same name replaced the tracked one. Return whether that happened."""
        if self._uid == job.uid:
            return False
        self._uid, self._written = job.uid, None
        self.requests.clear()
        self.delayed.clear()
        self.prepared, self.checked, self.last_warning = 0, 0, ""
        return True

    def of_task(self, task: str) -> Iterator[JobPod]:
        """Return the pods of a task."""
        return (pod for pod in self.pods.values() if pod.task == task)

    def members(self, job: VolcanoJob) -> dict[str, JobPod]:
        """Return the job's pods by name, without pods of an earlier job of the same name."""
        return {name: pod for name, pod in self.pods.items() if pod.job_uid == job.uid}

    def counts(self, job: VolcanoJob, victims: Iterable[JobPod] = ()) -> Counts:
        """Count the job's pods by phase.

        As in Volcano, victims that were just deleted count as terminating, even if they are gone already: clients
        that watch a job see them in its status.
        """
        members = self.members(job)
        gone = [each for each in victims if each.name not in members or members[each.name].uid != each.uid]
        return count_pods((*members.values(), *gone), {*self.deleted, *(each.uid for each in gone)})

    def is_deleted(self, pod: JobPod) -> bool:
        """Return whether a pod is terminating or was deleted."""
        return pod.is_terminating or pod.uid in self.deleted

    def status_written(self, job: VolcanoJob) -> None:
        """Store the job that a status write returned."""
        self._written = job

    def current(self, job: VolcanoJob) -> VolcanoJob:
        """Return the job as last watched, with the status as last written."""
        written = self._written
        if written is None or not is_newer(written.metadata.resource_version, job.metadata.resource_version):
            self._written = None
            return job
        return with_status(job, written.status)


def with_status(job: VolcanoJob, status: VolcanoJobStatus) -> VolcanoJob:
    """Return a copy of the job with another status."""
    return msgspec.structs.replace(job, status=status)
