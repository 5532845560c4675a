"""drf: dominant resource fairness between jobs and, with hierarchy, between queues.

With hierarchy, a queue's path and the weights along it are annotations (``root/eng/dev``, ``1/2/8``). A subtree that
cannot use more is *saturated* and comes last; among the others the one with the smaller weighted share comes first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mooring.batch.callbacks import PERMIT
from mooring.batch.job import JobInfo
from mooring.batch.plugin import BatchPlugin
from mooring.batch.queue import QueueInfo
from mooring.batch.resource import Resource, share
from mooring.batch.session import Session
from mooring.batch.task import TaskInfo

#: Shares that differ by less are equal when victims are chosen.
_DELTA = 0.000001


class JobShare:
    """A job's allocated resources and its dominant share: the greatest fraction of any resource of the cluster."""

    __slots__ = ("allocated", "share")

    def __init__(self, allocated: Resource) -> None:
        self.allocated = allocated
        self.share = 0.0


class DominantShare(BatchPlugin):
    """Orders jobs by their dominant share."""

    name = "drf"

    def on_session_open(self, session: Session) -> None:
        """Compute the shares and register callbacks."""
        self._session = session
        self._names = [(name, session.total.get(name)) for name in session.total.names()]
        self.shares: dict[str, JobShare] = {}
        self._tree = Tree(session.total, self.share_of) if session.hierarchical(self.name) else None
        for job in session.jobs.values():
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
        """Return the greatest fraction of any resource of the cluster."""
        found = 0.0
        for name, total in self._names:
            part = share(allocated.get(name), total)
            found = max(found, part)
        return found

    def _compare(self, left: JobInfo, right: JobInfo) -> int:
        mine, theirs = self.shares[left.uid].share, self.shares[right.uid].share
        return 0 if mine == theirs else -1 if mine < theirs else 1

    def _preemptable(self, preemptor: TaskInfo, candidates: list[TaskInfo]) -> tuple[list[TaskInfo], int]:
        """Return tasks whose eviction leaves their job a share no less than that of the preemptor's job."""
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
        """Return tasks whose queue would come after the reclaimer's even without the task and with the reclaimer."""
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


class Share(Protocol):
    """The allocated resources of a node of the tree, and their share of the cluster."""

    allocated: Resource
    share: float


class _OwnShare:
    __slots__ = ("allocated", "share")

    def __init__(self, allocated: Resource, share: float = 0.0) -> None:
        self.allocated = allocated
        self.share = share


class TreeNode:
    """A queue on a path or, without children, a job."""

    __slots__ = ("account", "children", "name", "request", "saturated", "weight")

    def __init__(self, name: str, weight: float, account: Share, request: Resource | None = None) -> None:
        self.name = name
        self.weight = weight
        self.account = account
        self.request = request
        self.saturated = False
        #: None for a job.
        self.children: dict[str, TreeNode] | None = {} if request is None else None

    def clone(self) -> TreeNode:
        """Return a copy of the subtree."""
        account = _OwnShare(self.account.allocated.clone(), self.account.share)
        copy = TreeNode(self.name, self.weight, account, self.request)
        copy.saturated = self.saturated
        if self.children is not None:
            copy.children = {name: child.clone() for name, child in self.children.items()}
        return copy


class Tree:
    """The shares of all queues and jobs."""

    def __init__(self, total: Resource, share_of: Callable[[Resource], float]) -> None:
        self.root = TreeNode("root", 1.0, _OwnShare(Resource()))
        #: The allocated resources of all jobs.
        self.allocated = Resource()
        self._total = total
        self._share_of = share_of

    def clone(self) -> Tree:
        """Return an independent copy."""
        copy = Tree(self._total, self._share_of)
        copy.root = self.root.clone()
        copy.allocated = self.allocated.clone()
        return copy

    def put(self, job: JobInfo, account: Share, queue: QueueInfo) -> None:
        """Insert or update a job, and compute all shares again."""
        node = self.root
        weights = queue.hierarchy_weights.split("/")
        for depth, name in enumerate(queue.hierarchy.split("/")[1:], start=1):
            children = node.children
            assert children is not None, "only jobs have no children, and no path leads through a job"
            child = children.get(name)
            if child is None:
                child = children[name] = TreeNode(name, _weight(weights, depth), _OwnShare(Resource()))
            node = child
        assert node.children is not None, "as above"
        node.children[job.uid] = TreeNode(job.uid, 1.0, account, job.total_request.clone())
        wanted = {name for name in self._total.names() if self.allocated.get(name) < self._total.get(name)}
        self._update(self.root, wanted)

    def _update(self, node: TreeNode, wanted: set[str]) -> None:
        if node.children is None:
            node.saturated = _is_saturated(node.account.allocated, node.request or Resource(), wanted)
            return
        least = 1.0
        for child in node.children.values():
            self._update(child, wanted)
            if child.account.share != 0 and not child.saturated:
                least = min(least, self._share_of(child.account.allocated))
        allocated = Resource()
        saturated = True
        for child in node.children.values():
            saturated = saturated and child.saturated
            if child.account.share != 0:
                part = child.account.allocated
                allocated.add(part if child.saturated else part.clone().multiply(least / child.account.share))
        node.account = _OwnShare(allocated, self._share_of(allocated))
        node.saturated = saturated


def _weight(weights: list[str], depth: int) -> float:
    try:
        return max(float(weights[depth]), 1.0)
    except (IndexError, ValueError):
        return 1.0


def _is_saturated(allocated: Resource, request: Resource, wanted: set[str]) -> bool:
    """Return whether a job has all it requests of some resource, or requests one that is used up."""
    for name in allocated.names():
        asked = request.get(name)
        if asked != 0 and (allocated.get(name) >= asked or name not in wanted):
            return True
    return False


def compare_paths(root: TreeNode, left: QueueInfo, right: QueueInfo) -> float:
    """Return which of two queues comes first: negative for the left one, 0 if they are equal."""
    mine, theirs = root, root
    left_path, right_path = left.hierarchy.split("/"), right.hierarchy.split("/")
    depth = min(len(left_path), len(right_path))
    for step in range(depth):
        if mine.saturated != theirs.saturated:
            return 1 if mine.saturated else -1
        ours, other = mine.account.share / mine.weight, theirs.account.share / theirs.weight
        if ours != other:
            return ours - other
        if step < depth - 1:
            below, beside = (
                (mine.children or {}).get(left_path[step + 1]),
                (theirs.children or {}).get(right_path[step + 1]),
            )
            if below is None or beside is None:
                return 0  # a queue without jobs is not in the tree
            mine, theirs = below, beside
    return 0
