"""Accounts of queues, which proportion, capacity and overcommit share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mooring.batch.job import INQUEUE, RUNNING_PHASE, JobInfo
from mooring.batch.queue import QueueInfo
from mooring.batch.resource import CPU, MEMORY, UNLIMITED, Resource, exceeded_part, share
from mooring.batch.session import Session
from mooring.batch.task import HOLDING, PENDING, TaskInfo

QUOTA = "queue resource quota insufficient"


class QueueAccount:
    """One queue: its deserved, allocated and requested resources, and those that its admitted jobs will need."""

    __slots__ = ("allocated", "deserved", "elastic", "guarantee", "inqueue", "limit", "name", "request", "share")

    def __init__(self, name: str) -> None:
        self.name = name
        self.deserved = Resource()
        self.allocated = Resource()
        self.request = Resource()
        #: The resources that jobs have allocated beyond their minimum.
        self.elastic = Resource()
        #: The resources that admitted jobs will still need.
        self.inqueue = Resource()
        self.guarantee = Resource()
        #: The maximum allocation: all but the guarantees of other queues, at most its capability.
        self.limit = Resource()
        self.share = 0.0

    def count(self, job: JobInfo) -> None:
        """Add a job when a session opens."""
        for status, tasks in job.by_status.items():
            if status in HOLDING:
                for task in tasks.values():
                    self.allocated.add(task.request)
                    self.request.add(task.request)
            elif status == PENDING:
                for task in tasks.values():
                    self.request.add(task.request)
        self.inqueue.add(reserved(job))
        self.elastic.add(job.elastic())

    def short_of(self, job: JobInfo) -> list[str]:
        """Return the resources for which a job's minimum would exceed the queue's limit."""
        minimum = job.minimum()
        wanted = minimum.clone().add(self.allocated).add(self.inqueue).sub(self.elastic)
        return wanted.exceeding(self.limit, minimum)

    def dominant_share(self) -> float:
        """Return the greatest ratio of allocated to deserved of any resource."""
        found = 0.0
        for name in self.deserved.names():
            found = max(found, share(self.allocated.get(name), self.deserved.get(name)))
        return found


def reserved(job: JobInfo, *, inqueue: bool = True) -> Resource:
    """Return the resources reserved for an admitted job: those that it lacks of its minimum."""
    if job.min_resources is None:
        return Resource()
    waits = inqueue and job.phase == INQUEUE
    runs = job.phase == RUNNING_PHASE and job.holding_count >= job.group.spec.min_member
    return job.without_gated(_lacked(job, job.min_resources)) if waits or runs else Resource()


def _lacked(job: JobInfo, minimum: Resource) -> Resource:
    had, result = job.allocated, Resource()
    for name in job.group.spec.min_resources or ():
        if name == CPU:
            result.cpu = max(minimum.cpu - had.cpu, 0.0)
        elif name == MEMORY:
            result.memory = max(minimum.memory - had.memory, 0.0)
        elif minimum.scalars is not None and name in minimum.scalars:
            lack = minimum.scalars[name] - had.get(name)
            if lack > 0 or (had.scalars is None or name not in had.scalars):
                result.add_scalar(name, lack)
    return result


def named_resources(prefix: str, verb: str, names: Iterable[str]) -> str:
    """Return a message that lists resources: ``prefix: verb cpu, verb memory``."""
    listed = ", ".join(f"{verb} {name}" for name in names)
    return f"{prefix}: {listed}" if listed else prefix


def queue_limit(total: Resource, guaranteed: Resource, account: QueueAccount, queue: QueueInfo) -> Resource:
    """Return the maximum allocation of a queue: all but the guarantees of other queues, at most its capability."""
    limit = exceeded_part(total, guaranteed).add(account.guarantee)
    if queue.queue.spec.capability:
        capability = Resource.of(queue.queue.spec.capability)
        if capability.cpu <= 0:
            capability.cpu = UNLIMITED
        if capability.memory <= 0:
            capability.memory = UNLIMITED
        limit.limit_to(capability, missing_is_unlimited=True)
    return limit


def all_guarantees(session: Session) -> Resource:
    """Return the guarantees of all queues, including those without jobs."""
    total = Resource()
    for queue in session.queues.values():
        total.add(Resource.of(queue.queue.spec.guarantee.resource))
    return total


def fits_in(allocated: Resource, limit: Resource, tasks: Sequence[TaskInfo]) -> bool:
    """Return whether the requests of tasks, added to what is allocated, are within a limit."""
    asked = tasks[0].request
    if len(tasks) > 1:
        asked = Resource()
        for task in tasks:
            asked.add(task.request)
    return not allocated.clone().add(asked).exceeding(limit, asked)
