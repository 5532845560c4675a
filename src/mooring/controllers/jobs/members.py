"""The pods of jobs: as much of them as a job needs to know, which job they are of, and how they are counted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from mooring.api.meta import Model, NamespacedObject
from mooring.api.volcano_jobs import JOB_VERSION as JOB_API
from mooring.api.volcano_jobs import TaskSpec
from mooring.controllers import names
from mooring.controllers.jobs import constants
from mooring.controllers.jobs.policies import Request
from mooring.controllers.jobs.state import Counts
from mooring.kube import Resource


class Terminated(Model, kw_only=True):
    """How a container ended."""

    exit_code: int = 0


class ContainerState(Model, kw_only=True):
    """Where a container is in its life."""

    terminated: Terminated | None = None


class ContainerHead(Model, kw_only=True):
    """How a container fares."""

    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()


class MemberStatus(Model, kw_only=True):
    """How a pod fares."""

    phase: str = ""
    init_container_statuses: tuple[ContainerHead, ...] = ()
    container_statuses: tuple[ContainerHead, ...] = ()


class Member(NamespacedObject, kw_only=True):
    """A pod of a job."""

    status: MemberStatus = MemberStatus()

    @property
    def job(self) -> str:
        """The key of its job; empty if it is no job's."""
        name = self.annotations.get(names.JOB_NAME, "")
        owned = any(
            owner.controller and owner.kind == "Job" and owner.api_version == JOB_API
            for owner in self.metadata.owner_references
        )
        return f"{self.namespace}/{name}" if name and owned else ""

    @property
    def job_uid(self) -> str:
        """Which of the jobs that had the name is meant."""
        return next((owner.uid for owner in self.metadata.owner_references if owner.controller), "")

    @property
    def task(self) -> str:
        """The task it is of."""
        return self.annotations.get(names.TASK_SPEC, "")

    @property
    def version(self) -> int:
        """The version of the job that it was made for."""
        text = self.annotations.get(names.JOB_VERSION, "")
        return int(text) if text.isdecimal() else 0

    @property
    def is_terminating(self) -> bool:
        """Whether it was told to go."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_started(self) -> bool:
        """Whether others may rely on it: it is done, or all of its containers are ready."""
        if self.status.phase == constants.SUCCEEDED:
            return True
        return self.status.phase == constants.RUNNING and all(each.ready for each in self.status.container_statuses)

    @property
    def restarts(self) -> int:
        """How often its containers were started again."""
        status = self.status
        return sum(each.restart_count for each in (*status.init_container_statuses, *status.container_statuses))


MEMBERS: Final = Resource(Member, "", "v1", "Pod", "pods", True)


def request_of(old: Member | None, new: Member | None, task: TaskSpec | None, pods: Iterable[Member]) -> Request:
    """What happened to a pod, in the words of policies; ``pods`` are all of its task as they are now."""
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
    if names.OUT_OF_SYNC in pod.annotations:
        event = constants.OUT_OF_SYNC
    return Request(
        event=event,
        task=pod.task,
        pod=pod.name,
        pod_uid=pod.uid,
        partition=pod.labels.get(names.PARTITION, ""),
        exit_code=exit_code,
        version=pod.version,
    )


def _event(old: Member | None, new: Member, task: TaskSpec | None, pods: Iterable[Member]) -> str:
    phase = new.status.phase
    is_news = old is None or old.status.phase != phase
    if phase == constants.FAILED:
        return constants.POD_FAILED if is_news else constants.OUT_OF_SYNC
    if phase == constants.SUCCEEDED:
        return constants.TASK_COMPLETED if is_news and _is_complete(task, pods) else constants.OUT_OF_SYNC
    if is_news and phase in {constants.PENDING, ""}:
        return constants.POD_PENDING
    if is_news and phase == constants.RUNNING:
        return constants.POD_RUNNING
    # All pods of the task are looked at only if this one gives reason to.
    return constants.TASK_FAILED if new.restarts and _has_failed(task, pods) else constants.OUT_OF_SYNC


def _is_complete(task: TaskSpec | None, pods: Iterable[Member]) -> bool:
    done = sum(each.status.phase == constants.SUCCEEDED for each in pods)
    return task is not None and 0 < task.replicas <= done


def _has_failed(task: TaskSpec | None, pods: Iterable[Member]) -> bool:
    """Whether the containers of a task were started again more often than it allows."""
    if task is None or not task.replicas or task.max_retry < 0:
        return False
    active = (each for each in pods if each.status.phase in {constants.RUNNING, constants.PENDING})
    return sum(each.restarts for each in active) >= (task.max_retry or 3)


def count(pods: Iterable[Member], going: Iterable[str]) -> Counts:
    """Pods by phase; those that go (by uid, or by what they say) count apart."""
    found, told = Counts(), set(going)
    for pod in pods:
        if pod.is_terminating or pod.uid in told:
            found.terminating += 1
            continue
        phase = pod.status.phase or constants.PENDING
        match phase:
            case constants.PENDING:
                found.pending += 1
            case constants.RUNNING:
                found.running += 1
            case constants.SUCCEEDED:
                found.succeeded += 1
            case constants.FAILED:
                found.failed += 1
            case _:
                phase = constants.UNKNOWN
                found.unknown += 1
        phases = found.tasks.setdefault(pod.task, {})
        phases[phase] = phases.get(phase, 0) + 1
    return found
