"""proportion: queues share the cluster by weight; what one does not request goes to the others."""

from __future__ import annotations

from collections.abc import Sequence

from mooring.batch.callbacks import PERMIT, REJECT
from mooring.batch.job import JobInfo
from mooring.batch.plugin import BatchPlugin
from mooring.batch.plugins.queue_accounts import (
    QUOTA,
    QueueAccount,
    all_guarantees,
    fits_in,
    named_resources,
    queue_limit,
)
from mooring.batch.queue import QueueInfo
from mooring.batch.resource import Resource, changes, exceeded_part, highest
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode
from mooring.batch.task import TaskInfo


class Proportion(BatchPlugin):
    """Computes what every queue with jobs deserves, and limits queues to it."""

    name = "proportion"

    def on_session_open(self, session: Session) -> None:
        """Compute the shares and register callbacks."""
        self._session = session
        self.accounts: dict[str, QueueAccount] = {}
        guaranteed = all_guarantees(session)
        for job in session.jobs.values():
            account = self.accounts.get(job.queue)
            if account is None:
                queue = session.queues[job.queue]
                account = self.accounts[job.queue] = QueueAccount(job.queue)
                account.guarantee = Resource.of(queue.queue.spec.guarantee.resource)
                account.limit = queue_limit(session.total, guaranteed, account, queue)
            account.count(job)
        fill(session.total, [(session.queues[name].weight, account) for name, account in self.accounts.items()])
        session.add_queue_order(self._compare)
        session.add_reclaimable(self._reclaimable)
        session.add_overused(lambda queue: self._account(queue).deserved.fits(self._account(queue).allocated))
        session.add_allocatable(lambda queue, task: self._within(queue, [task]))
        session.add_preemptive(self._within)
        session.add_job_enqueueable(self._vote_enqueue)
        session.add_event_handler(lambda task: self._changed(task, 1), lambda task: self._changed(task, -1))
        session.add_simulation(lambda _task: _Trial(self))

    def _account(self, queue: QueueInfo) -> QueueAccount:
        return self.accounts[queue.name]

    def _compare(self, left: QueueInfo, right: QueueInfo) -> int:
        if left.priority != right.priority:
            return right.priority - left.priority
        mine, theirs = self._account(left).share, self._account(right).share
        return 0 if mine == theirs else -1 if mine < theirs else 1

    def _within(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """Return whether a queue deserves what tasks request in addition to what it has."""
        if not queue.is_open:
            return False
        account = self._account(queue)
        return fits_in(account.allocated, account.deserved, tasks)

    def _reclaimable(self, _reclaimer: TaskInfo, candidates: list[TaskInfo]) -> tuple[list[TaskInfo], int]:
        """Return tasks of queues that have more than they deserve, until they no longer do."""
        had: dict[str, Resource] = {}
        victims = []
        for task in candidates:
            job = self._session.jobs.get(task.job)
            account = self.accounts.get(job.queue) if job is not None else None
            if account is None:
                continue
            allocated = had.setdefault(account.name, account.allocated.clone())
            if not allocated.fits(account.deserved):
                allocated.sub(task.request)
                victims.append(task)
        return victims, PERMIT

    def _vote_enqueue(self, job: JobInfo) -> int:
        if not self._session.queues[job.queue].is_open:
            return REJECT
        if job.min_resources is None:
            return PERMIT
        account = self.accounts[job.queue]
        short = account.short_of(job)
        if short:
            self._session.notes.append((job, named_resources(QUOTA, "insufficient", short)))
            return REJECT
        account.inqueue.add(job.without_gated(job.min_resources))
        return PERMIT

    def _changed(self, task: TaskInfo, sign: int) -> None:
        job = self._session.jobs.get(task.job)
        account = self.accounts.get(job.queue) if job is not None else None
        if account is not None:
            (account.allocated.add if sign > 0 else account.allocated.sub)(task.request)
            account.share = account.dominant_share()

    def queue_of(self, task: TaskInfo) -> str | None:
        """Return the queue of a task's job."""
        job = self._session.jobs.get(task.job)
        return job.queue if job is not None else None


def fill(total: Resource, accounts: list[tuple[int, QueueAccount]]) -> None:
    """Distribute the cluster among the queues by weight, until all requests are met or nothing is left."""
    remaining = total.clone()
    met: set[str] = set()
    while True:
        weights = sum(weight for weight, account in accounts if account.name not in met)
        if weights == 0:
            return
        before = remaining
        gained, lost = Resource(), Resource()
        for weight, account in accounts:
            if account.name in met:
                continue
            old = account.deserved.clone()
            _grant(account, remaining.clone().multiply(float(weight) / float(weights)))
            if account.request.fits(account.deserved) or account.deserved.same_as(old):
                met.add(account.name)
            more, less = changes(account.deserved, old)
            gained.add(more)
            lost.add(less)
        remaining = exceeded_part(remaining.clone().add(lost), gained)
        if remaining.is_empty or remaining.same_as(before):
            return


def _grant(account: QueueAccount, more: Resource) -> None:
    deserved = account.deserved.add(more)
    deserved.limit_to(account.limit, missing_is_unlimited=True)
    deserved.limit_to(account.request, missing_is_unlimited=False)
    account.deserved = highest(deserved, account.guarantee)
    account.share = account.dominant_share()


class _Trial:
    """A simulation of the allocated resources of queues without some tasks."""

    def __init__(self, owner: Proportion) -> None:
        self._owner = owner
        self._allocated = {name: account.allocated.clone() for name, account in owner.accounts.items()}

    def remove(self, task: TaskInfo, node: SessionNode) -> bool:
        """Simulate the removal of a task."""
        allocated = self._allocated.get(self._owner.queue_of(task) or "")
        if allocated is not None:
            allocated.sub(task.request)
        return allocated is not None

    def add(self, task: TaskInfo, node: SessionNode) -> bool:
        """Simulate the addition of a task."""
        allocated = self._allocated.get(self._owner.queue_of(task) or "")
        if allocated is not None:
            allocated.add(task.request)
        return allocated is not None

    def allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        """Return whether the queue deserves a task in the simulation."""
        return fits_in(self._allocated[queue.name], self._owner.accounts[queue.name].deserved, [task])

    def predicate(self, task: TaskInfo, node: SessionNode) -> bool:
        """Return True: proportion has no predicate."""
        return True
