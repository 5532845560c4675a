"""The queues of the capacity plugin: what each deserves and may have, side by side or in a tree."""

from __future__ import annotations

from mooring.batch.plugins.proportion import all_guarantees, queue_limit
from mooring.batch.plugins.queue_accounts import QueueAccount
from mooring.batch.queue import ROOT, QueueInfo
from mooring.batch.resource import UNLIMITED, UNLIMITED_SCALAR, Resource, exceeded_part, highest
from mooring.batch.session import Session


class CapacityQueue(QueueAccount):
    """A queue with its place in the tree."""

    __slots__ = ("ancestors", "capability", "children")

    def __init__(self, queue: QueueInfo) -> None:
        super().__init__(queue.name)
        spec = queue.queue.spec
        self.deserved = Resource.of(spec.deserved)
        self.guarantee = Resource.of(spec.guarantee.resource)
        self.capability = Resource.of(spec.capability)
        #: The names of the queues above, the root first.
        self.ancestors: list[str] = []
        self.children: list[CapacityQueue] = []

    @property
    def is_leaf(self) -> bool:
        """Whether there is no queue below."""
        return not self.children

    def ancestor(self, level: int) -> str | None:
        """The queue so many levels above."""
        return self.ancestors[-level] if 0 < level <= len(self.ancestors) else None

    def ancestors_within(self, levels: int) -> set[str]:
        """The queues up to so many levels above."""
        return set(self.ancestors[-levels:]) if levels else set()

    def update_share(self) -> None:
        """Work out the share; a queue that deserves nothing has all it deserves."""
        self.share = 1.0 if self.deserved.is_empty else self.dominant_share()


def flat_queues(session: Session) -> dict[str, CapacityQueue]:
    """The queues that have jobs."""
    found: dict[str, CapacityQueue] = {}
    guaranteed = all_guarantees(session)
    for job in session.jobs.values():
        account = found.get(job.queue)
        if account is None:
            queue = session.queues[job.queue]
            account = found[job.queue] = CapacityQueue(queue)
            account.limit = queue_limit(session.total, guaranteed, account, queue)
        account.count(job)
    for account in found.values():
        account.deserved.limit_to(account.limit, missing_is_unlimited=True)
        account.deserved = highest(account.deserved, account.guarantee)
        account.update_share()
    return found


def queue_tree(session: Session) -> tuple[dict[str, CapacityQueue], bool]:
    """All queues as a tree, and whether it can be used: jobs may be in leaves only, and parents must exist."""
    found = {name: CapacityQueue(queue) for name, queue in session.queues.items()}
    for name, queue in session.queues.items():
        path = _path(session, queue)
        if path is None:
            session.warnings.append(
                f"capacity: queue {name}: its parents make no path to the root; nothing is scheduled"
            )
            return found, False
        found[name].ancestors = path
        if path:
            found[path[-1]].children.append(found[name])
    for job in session.jobs.values():
        leaf = found[job.queue]
        if leaf.children:
            session.warnings.append(
                f"capacity: {job.uid} is in queue {leaf.name}, which is no leaf; nothing is scheduled"
            )
            return found, False
        one = CapacityQueue(session.queues[job.queue])
        one.count(job)
        for each in (leaf, *(found[name] for name in leaf.ancestors)):
            each.allocated.add(one.allocated)
            each.request.add(one.request)
            each.inqueue.add(one.inqueue)
            each.elastic.add(one.elastic)
    root = found.get(ROOT)
    if root is None:
        return found, False
    if root.capability.is_empty:
        scalars = dict.fromkeys(session.total.scalars, UNLIMITED_SCALAR) if session.total.scalars else None
        root.capability = Resource(UNLIMITED, UNLIMITED, scalars)
    root.limit = root.capability
    _settle(root)
    for account in found.values():
        account.update_share()
    return found, True


def _path(session: Session, queue: QueueInfo) -> list[str] | None:
    """The names from the root down to a queue's parent; None if they lead nowhere or in a circle."""
    path: list[str] = []
    while queue.name != ROOT:
        parent = session.queues.get(queue.parent)
        if parent is None or parent.name in path:
            return None
        path.append(parent.name)
        queue = parent
    return path[::-1]


def _settle(queue: CapacityQueue) -> None:
    """Work out what the queues below may have, from what this one may."""
    guaranteed, deserved = Resource(), Resource()
    for child in queue.children:
        child.deserved = highest(child.deserved, child.guarantee)
        deserved.add(child.deserved)
        guaranteed.add(child.guarantee)
        _inherit(child.capability, queue.capability)
    if queue.name == ROOT:
        queue.guarantee, queue.deserved = guaranteed, deserved
    for child in queue.children:
        limit = exceeded_part(queue.limit, guaranteed).add(child.guarantee)
        child.limit = limit.limit_to(child.capability, missing_is_unlimited=True)
        _settle(child)


def _inherit(capability: Resource, parent: Resource) -> None:
    """A ceiling that a queue does not state is its parent's."""
    if capability.cpu <= 0:
        capability.cpu = parent.cpu
    if capability.memory <= 0:
        capability.memory = parent.memory
    if parent.scalars is not None:
        capability.scalars = {**parent.scalars, **(capability.scalars or {})}
