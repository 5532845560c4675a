"""drf: jobs that have the smaller share of the cluster come first; with hierarchy, queues too."""

from __future__ import annotations

from mooring.batch.callbacks import PERMIT
from mooring.batch.job import JobInfo
from mooring.batch.plugin import BatchPlugin
from mooring.batch.plugins.hierarchy import Tree, compare_paths
from mooring.batch.queue import QueueInfo
from mooring.batch.resource import Resource, share
from mooring.batch.session import Session
from mooring.batch.task import TaskInfo

#: Shares that differ by less are equal, when it is about evicting.
_DELTA = 0.000001


class JobShare:
    """What a job has, and the greatest part of any resource of the cluster that this is."""

    __slots__ = ("allocated", "share")

    def __init__(self, allocated: Resource) -> None:
        self.allocated = allocated
        self.share = 0.0


class DominantShare(BatchPlugin):
    """Dominant resource fairness."""

    name = "drf"

    def on_session_open(self, session: Session) -> None:
        """Work out the shares, and register."""
        self._session = session
        self._names = [(name, session.total.get(name)) for name in session.total.names()]
        self.shares: dict[str, JobShare] = {}
        self._tree = Tree(session.total, self.share_of) if session.hierarchical(self.name) else None
        for job in session.jobs.values():
            # What a job had at the beginning is already summed up in it.
            own = self.shares[job.uid] = JobShare(job.allocated.clone())
            own.share = self.share_of(own.allocated)
            if self._tree is not None:
                queue = session.queues[job.queue]
                self._tree.allocated.add(own.allocated)
                self._tree.put(job, own, queue)
        session.add_job_order(self._compare)
        session.add_preemptable(self._preemptable)
        if self._tree is not None:
            session.add_queue_order(self._compare_queues)
            session.add_reclaimable(self._reclaimable)
        session.add_event_handler(lambda task: self._changed(task, 1), lambda task: self._changed(task, -1))

    def share_of(self, allocated: Resource) -> float:
        """The greatest part of any resource of the cluster."""
        found = 0.0
        for name, total in self._names:
            part = share(allocated.get(name), total)
            found = max(found, part)
        return found

    def _compare(self, left: JobInfo, right: JobInfo) -> int:
        mine, theirs = self.shares[left.uid].share, self.shares[right.uid].share
        return 0 if mine == theirs else -1 if mine < theirs else 1

    def _preemptable(self, preemptor: TaskInfo, candidates: list[TaskInfo]) -> tuple[list[TaskInfo], int]:
        """Tasks without which their job still has no less than the preemptor's job would have."""
        own = self.shares.get(preemptor.job)
        if own is None:
            return [], PERMIT
        wanted = self.share_of(own.allocated.clone().add(preemptor.request))
        had: dict[str, Resource] = {}
        victims = []
        for task in candidates:
            if task.job not in had:
                theirs = self.shares.get(task.job)
                if theirs is None:
                    continue
                had[task.job] = theirs.allocated.clone()
            left = self.share_of(had[task.job].sub(task.request))
            if wanted < left or abs(wanted - left) <= _DELTA:
                victims.append(task)
        return victims, PERMIT

    def _changed(self, task: TaskInfo, sign: int) -> None:
        job, own = self._session.jobs.get(task.job), self.shares.get(task.job)
        if job is None or own is None:
            return
        (own.allocated.add if sign > 0 else own.allocated.sub)(task.request)
        own.share = self.share_of(own.allocated)
        if self._tree is not None:
            (self._tree.allocated.add if sign > 0 else self._tree.allocated.sub)(task.request)
            self._tree.put(job, own, self._session.queues[job.queue])

    # Hierarchy

    def _compare_queues(self, left: QueueInfo, right: QueueInfo) -> int:
        assert self._tree is not None, "registered with hierarchy only"
        answer = compare_paths(self._tree.root, left, right)
        return 0 if answer == 0 else -1 if answer < 0 else 1

    def _reclaimable(self, reclaimer: TaskInfo, candidates: list[TaskInfo]) -> tuple[list[TaskInfo], int]:
        """Tasks whose queue would still come after the reclaimer's, with the task gone and the reclaimer placed."""
        assert self._tree is not None, "registered with hierarchy only"
        session, tree = self._session, self._tree.clone()
        job = session.jobs.get(reclaimer.job)
        if job is None or job.uid not in self.shares:
            return [], PERMIT
        queue = session.queues[job.queue]
        tree.allocated.add(reclaimer.request)
        tree.put(job, self._shifted(job, reclaimer, 1), queue)
        victims = []
        for task in candidates:
            owner = session.jobs.get(task.job)
            if owner is None or owner.uid not in self.shares:
                continue
            theirs = session.queues[owner.queue]
            tree.allocated.sub(task.request)
            without = self._shifted(owner, task, -1)
            tree.put(owner, without, theirs)
            if compare_paths(tree.root, queue, theirs) < 0:
                victims.append(task)
            tree.allocated.add(task.request)
            without.allocated.add(task.request)
            without.share = self.share_of(without.allocated)
            tree.put(owner, without, theirs)
        return victims, PERMIT

    def _shifted(self, job: JobInfo, task: TaskInfo, sign: int) -> JobShare:
        shifted = JobShare(self.shares[job.uid].allocated.clone())
        (shifted.allocated.add if sign > 0 else shifted.allocated.sub)(task.request)
        shifted.share = self.share_of(shifted.allocated)
        return shifted
