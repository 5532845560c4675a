"""The pods of jobs, reduced to the fields that the controller needs, and the policy events of their changes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mooring.api.label_selectors import parse_int
from mooring.api.meta import Model, NamespacedObject
from mooring.api.volcano_jobs import JOB_VERSION as JOB_API
from mooring.api.volcano_jobs import TaskSpec
from mooring.controllers import constants
from mooring.controllers.jobs.policies import Request
from mooring.kube import Resource


class Terminated(Model, kw_only=True):
    """The state of a terminated container."""

    exit_code: int = 0


class ContainerState(Model, kw_only=True):
    """The state of a container."""

    terminated: Terminated | None = None


class ContainerHead(Model, kw_only=True):
    """The status of a container."""

    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()


class JobPodStatus(Model, kw_only=True):
    """The status of a pod."""

    phase: str = ""
    init_container_statuses: tuple[ContainerHead, ...] = ()
    container_statuses: tuple[ContainerHead, ...] = ()


class JobPod(NamespacedObject, kw_only=True):
    """A pod of a job."""

    status: JobPodStatus = JobPodStatus()

    @property
    def job(self) -> str:
        """The key of its job; empty if no job owns it."""
        name = self.annotations.get(constants.JOB_NAME, "")
        owned = any(
            owner.controller and owner.kind == "Job" and owner.api_version == JOB_API
            for owner in self.metadata.owner_references
        )
        return f"{self.namespace}/{name}" if name and owned else ""

    @property
    def job_uid(self) -> str:
        """The UID of its job."""
        return next((owner.uid for owner in self.metadata.owner_references if owner.controller), "")

    @property
    def task(self) -> str:
        """The name of its task."""
        return self.annotations.get(constants.TASK_SPEC, "")

    @property
    def version(self) -> int:
        """The version of the job for which it was created."""
        return max(parse_int(self.annotations.get(constants.JOB_VERSION, "")) or 0, 0)

    @property
    def is_terminating(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_started(self) -> bool:
        """Whether tasks that depend on its task may start: it succeeded, or all its containers are ready."""
        if self.status.phase == constants.SUCCEEDED:
            return True
        return self.status.phase == constants.RUNNING and all(each.ready for each in self.status.container_statuses)

    @property
    def restarts(self) -> int:
        """The number of restarts of its containers."""
        status = self.status
        return sum(each.restart_count for each in (*status.init_container_statuses, *status.container_statuses))


JOB_PODS: Final = Resource(JobPod, "", "v1", "Pod", "pods", True)


def request_for(old: JobPod | None, new: JobPod | None, task: TaskSpec | None, pods: Iterable[JobPod]) -> Request:
    """Return the request for a change of a pod. ``pods`` are the current pods of its task."""
    pod = new if new is not None else old
    assert pod is not None
    exit_code = 0
    if new is None:
        event = constants.POD_EVICTED
    else:
        event = _event(old, new, task, pods)
        statuses = new.status.container_statuses
        if event == constants.POD_FAILED and statuses and statuses[0].state.terminated is not None:
            exit_code = statuses[0].state.terminated.exit_code
    if constants.OUT_OF_SYNC_ANNOTATION in pod.annotations:
        event = constants.OUT_OF_SYNC
    return Request(
        event=event,
        task=pod.task,
        pod=pod.name,
        pod_uid=pod.uid,
        partition=pod.labels.get(constants.PARTITION, ""),
        exit_code=exit_code,
        version=pod.version,
    )


def _event(old: JobPod | None, new: JobPod, task: TaskSpec | None, pods: Iterable[JobPod]) -> str:
    phase = new.status.phase
    changed = old is None or old.status.phase != phase
    if phase == constants.FAILED:
        return constants.POD_FAILED if changed else constants.OUT_OF_SYNC
    if phase == constants.SUCCEEDED:
        return constants.TASK_COMPLETED if changed and _is_complete(task, pods) else constants.OUT_OF_SYNC
    if changed and phase in {constants.PENDING, ""}:
        return constants.POD_PENDING
    if changed and phase == constants.RUNNING:
        return constants.POD_RUNNING
    # Checking all pods of the task is expensive, so it happens only if this pod restarted.
    return constants.TASK_FAILED if new.restarts and _has_failed(task, pods) else constants.OUT_OF_SYNC


def _is_complete(task: TaskSpec | None, pods: Iterable[JobPod]) -> bool:
    done = sum(each.status.phase == constants.SUCCEEDED for each in pods)
    return task is not None and 0 < task.replicas <= done


def _has_failed(task: TaskSpec | None, pods: Iterable[JobPod]) -> bool:
    """Return whether the containers of a task restarted more often than `maxRetry` allows."""
    if task is None or not task.replicas or task.max_retry < 0:
        return False
    active = (each for each in pods if each.status.phase in {constants.RUNNING, constants.PENDING})
    return sum(each.restarts for each in active) >= (task.max_retry or 3)
