"""Reservations: the room in a queue for pods whose scheduling gate was removed because the queue has room for them."""

from __future__ import annotations

from mooring.batch.resource import Resource
from mooring.batch.session import Session
from mooring.batch.task import PENDING, TaskInfo, wants_queue_gate


class Reservations:
    """The requests of tasks of a queue that were admitted and have no node yet."""

    __slots__ = ("_tasks", "_total")

    def __init__(self) -> None:
        self._tasks: dict[str, Resource] = {}
        self._total = Resource()

    def add(self, task: TaskInfo) -> None:
        """Reserve room for a task."""
        if task.uid not in self._tasks:
            self._tasks[task.uid] = task.request
            self._total.add(task.request)

    def remove(self, task: TaskInfo) -> None:
        """Remove the reservation of a task, if there is one."""
        request = self._tasks.pop(task.uid, None)
        if request is not None:
            self._total.sub(request)

    def added_to(self, allocated: Resource, task: TaskInfo) -> Resource:
        """Return what is allocated and what is reserved for other tasks than this one."""
        if not self._tasks:
            return allocated
        used = allocated.clone().add(self._total)
        own = self._tasks.get(task.uid)
        return used if own is None else used.sub(own)


def open_reservations(session: Session) -> dict[str, Reservations]:
    """Return the reservations by queue: for pending tasks that requested the gate and do not have it any more."""
    found: dict[str, Reservations] = {}
    for job in session.jobs.values():
        for task in job.by_status.get(PENDING, {}).values():
            if not task.gated and wants_queue_gate(task.pod):
                found.setdefault(job.queue, Reservations()).add(task)
    return found
