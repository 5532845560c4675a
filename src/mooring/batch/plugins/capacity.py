"""capacity: elastic queues with configured deserved resources.

A queue can use more than it deserves while others do not need it, and they can reclaim it. With hierarchy, queues form
a tree.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.batch.callbacks import PERMIT, REJECT
from mooring.batch.device_quota import EXCEEDED, DeviceDemands, DeviceQuota, device_quota
from mooring.batch.eviction import EvictionContext
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
from mooring.batch.plugins.queue_reservations import Reservations, open_reservations
from mooring.batch.queue import ROOT, QueueInfo
from mooring.batch.resource import PODS, UNLIMITED, UNLIMITED_SCALAR, Resource, exceeded_part, highest, shared_names
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode
from mooring.batch.task import HOLDING, PENDING, TaskInfo, wants_queue_gate


class Capacity(BatchPlugin):
    """Elastic queues, flat or in a tree."""

    name = "capacity"

    def on_session_open(self, session: Session) -> None:
        """Compute the queues and register callbacks."""
        self._session = session
        self._levels = max(self.arguments.integer("ancestorReclaimLevel", 0), 0)
        self._hierarchical = session.hierarchical(self.name)
        self._ready = True
        if self._hierarchical:
            self.queues, self._ready = queue_tree(session)
            session.add_queue_order(self._compare_in_tree)
            if self._ready:
                session.add_victim_queue_order(self._compare_victims)
        else:
            self.queues = flat_queues(session)
            session.add_queue_order(self._compare)
        self._count_devices()
        #: The room for pods whose scheduling gate was removed, by queue; not in its ancestors, as in Volcano.
        self.reservations = open_reservations(session) if session.removes_queue_gates else {}
        session.add_reclaimable(self._reclaimable)
        session.add_unified_evictable(self._evictable)
        session.add_preemptive(self._preemptive)
        session.add_allocatable(self._allocatable)
        session.add_job_enqueueable(self._vote_enqueue)
        session.add_event_handler(lambda task: self._changed(task, 1), lambda task: self._changed(task, -1))
        session.add_simulation(lambda _task: _Trial(self))

    # Order

    def _compare(self, left: QueueInfo, right: QueueInfo) -> int:
        if left.priority != right.priority:
            return right.priority - left.priority
        return _by_share(self.queues[left.name], self.queues[right.name])

    def _compare_in_tree(self, left: QueueInfo, right: QueueInfo) -> int:
        """Order leaves first; two leaves by the shares of their branches just below the common ancestor."""
        if not self._ready:
            return 0
        if left.priority != right.priority:
            return right.priority - left.priority
        mine, theirs = self.queues[left.name], self.queues[right.name]
        if mine.is_leaf != theirs.is_leaf:
            return -1 if mine.is_leaf else 1
        if not mine.is_leaf:
            return _by_share(mine, theirs)
        level = _common_level(mine, theirs) + 1
        branches = [
            self.queues[each.ancestors[level]] if level < len(each.ancestors) else each for each in (mine, theirs)
        ]
        return _by_share(branches[0], branches[1])

    def _compare_victims(self, left: QueueInfo, right: QueueInfo, preemptor: QueueInfo) -> int:
        """Order queues that are closer to the preemptor's queue first."""
        own = self.queues[preemptor.name]
        mine, theirs = _common_level(self.queues[left.name], own), _common_level(self.queues[right.name], own)
        return theirs - mine

    # Limits

    def chain(self, queue: CapacityQueue) -> list[CapacityQueue]:
        """Return a queue and its ancestors."""
        return [queue, *(self.queues[name] for name in reversed(queue.ancestors))]

    def leaf(self, queue: QueueInfo) -> CapacityQueue | None:
        """Return the queue if it may have jobs."""
        found = self.queues.get(queue.name)
        if not self._ready or found is None or (self._hierarchical and not found.is_leaf):
            return None
        return found

    def _allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        leaf = self.leaf(queue)
        if not queue.is_open or leaf is None:
            return False
        demands = self.devices.of(task)
        for each in self.chain(leaf):
            if each.devices is not None and not each.devices.allows_task(demands):
                return False
            if not fits_in(self.occupied(each, each.allocated, task), each.limit, [task]):
                return False
        self._reserve(leaf, task)
        return True

    def occupied(self, queue: CapacityQueue, allocated: Resource, task: TaskInfo) -> Resource:
        """Return what is allocated in a queue, and what is reserved for other tasks than this one."""
        reserved = self.reservations.get(queue.name)
        return allocated if reserved is None else reserved.added_to(allocated, task)

    def _reserve(self, queue: CapacityQueue, task: TaskInfo) -> None:
        if self._session.removes_queue_gates and wants_queue_gate(task.pod):
            self.reservations.setdefault(queue.name, Reservations()).add(task)

    def _preemptive(self, queue: QueueInfo, tasks: Sequence[TaskInfo]) -> bool:
        """Return whether a queue may reclaim: within its limit, and within what it or an ancestor deserves."""
        if not self._ready or not queue.is_open:
            return False
        own = self.queues[queue.name]
        asked = Resource()
        for task in tasks:
            asked.add(task.request)
        future = own.allocated.clone().add(asked)
        if future.exceeding(own.limit, asked):
            return False
        if future.within_some(own.deserved, asked):
            return True
        for level in range(1, self._levels + 1 if self._hierarchical else 1):
            above = own.ancestor(level)
            if above is None or above == ROOT:
                continue
            each = self.queues[above]
            if each.allocated.clone().add(asked).within_some(each.deserved, asked):
                return True
        return False

    def _vote_enqueue(self, job: JobInfo) -> int:
        session = self._session
        queue = session.queues[job.queue]
        leaf = self.leaf(queue)
        if leaf is None or not queue.is_open:
            return REJECT
        chain = self.chain(leaf)
        devices = self.devices.minimum(job) if any(each.devices is not None for each in chain) else {}
        if job.min_resources is None and not devices:
            return PERMIT
        for each in chain:
            short = each.short_of(job)
            if not short and each.devices is not None and not each.devices.allows_job(devices):
                short = [EXCEEDED]
            if short:
                session.notes.append((job, named_resources(QUOTA, "insufficient", short)))
                return REJECT
        wanted = job.without_gated(job.minimum())
        for each in chain:
            each.inqueue.add(wanted)
            if each.devices is not None:
                each.devices.admit(devices)
        return PERMIT

    def _changed(self, task: TaskInfo, sign: int) -> None:
        job = self._session.jobs.get(task.job)
        own = self.queues.get(job.queue) if job is not None else None
        if own is None:
            return
        for each in self.chain(own) if self._hierarchical else [own]:
            (each.allocated.add if sign > 0 else each.allocated.sub)(task.request)
            if each.devices is not None:
                (each.devices.take if sign > 0 else each.devices.give_back)(self.devices.of(task))
        if sign > 0 and own.name in self.reservations:
            self.reservations[own.name].remove(task)
        elif task.status == PENDING:  # an evicted task keeps no room; in Volcano it does
            self._reserve(own, task)
        own.update_share()

    def _count_devices(self) -> None:
        """Count the devices that tasks with a node have claimed, if a queue limits devices."""
        arguments = self.arguments
        enabled = arguments.boolean("capacity.DynamicResourceAllocationEnable", True)
        capacity = arguments.boolean("capacity.DRAConsumableCapacityEnable", False)
        self.devices = DeviceDemands(self._session.handle, capacity=capacity)
        for queue in self.queues.values() if enabled else ():
            queue.devices = device_quota(self._session.queues[queue.name].queue.spec.capability)
        if all(queue.devices is None for queue in self.queues.values()):
            return
        for job in self._session.jobs.values():
            limited = [each.devices for each in self.chain(self.queues[job.queue]) if each.devices is not None]
            for status in HOLDING if limited else ():
                for task in job.by_status.get(status, {}).values():
                    for quota in limited:
                        quota.take(self.devices.of(task))

    # Victims

    def _reclaimable(self, reclaimer: TaskInfo, candidates: list[TaskInfo]) -> tuple[list[TaskInfo], int]:
        """Return tasks of queues that exceed what they deserve of some resource, down to their guarantee."""
        session = self._session
        job = session.jobs.get(reclaimer.job)
        if not self._ready or job is None or job.queue not in self.queues:
            return [], REJECT
        own = self.queues[job.queue]
        had: dict[str, Resource] = {}
        victims = []
        waiting = session.victim_heap(candidates, reclaimer)
        while waiting:
            task = waiting.pop()
            owner = session.jobs.get(task.job)
            theirs = self.queues.get(owner.queue) if owner is not None else None
            if theirs is None or set(shared_names(task.request, reclaimer.request)) <= {PODS}:
                continue
            allocated = had.setdefault(theirs.name, theirs.allocated.clone())
            if not theirs.guarantee.fits(allocated.clone().sub(task.request)):
                continue
            if not self._exceeds(task, theirs, allocated, own, reclaimer):
                continue
            above = self._differing_ancestors(own, theirs, had)
            if all(self._above_deserved(task, self.queues[name], amounts) for name, amounts in above.items()):
                allocated.sub(task.request)
                for amounts in above.values():
                    amounts.sub(task.request)
                victims.append(task)
        return victims, PERMIT

    def _exceeds(
        self, task: TaskInfo, theirs: CapacityQueue, allocated: Resource, own: CapacityQueue, reclaimer: TaskInfo
    ) -> bool:
        """Return whether a task's queue exceeds what it deserves of the task's resources, or deserves none of them."""
        if shared_names(task.request, theirs.deserved):
            return allocated.exceeds_some(theirs.deserved, task.request)
        if not self._hierarchical or not self._levels:
            return True
        near = own.ancestors_within(self._levels) & theirs.ancestors_within(self._levels) - {ROOT}
        return not near or bool(shared_names(reclaimer.request, own.deserved))

    def _differing_ancestors(
        self, own: CapacityQueue, theirs: CapacityQueue, had: dict[str, Resource]
    ) -> dict[str, Resource]:
        """Return the allocated resources of the victim queue's ancestors that are not the reclaimer queue's."""
        found: dict[str, Resource] = {}
        if not self._hierarchical:
            return found
        for level in range(1, self._levels + 1):
            above = theirs.ancestor(level)
            if above is not None and above != ROOT and own.ancestor(level) != above:
                found[above] = had.setdefault(above, self.queues[above].allocated.clone())
        return found

    @staticmethod
    def _above_deserved(task: TaskInfo, queue: CapacityQueue, allocated: Resource) -> bool:
        if not shared_names(task.request, queue.deserved):
            return True
        return allocated.exceeds_some(queue.deserved, task.request)

    def _evictable(self, context: EvictionContext, candidates: list[TaskInfo]) -> tuple[list[TaskInfo], int]:
        if context.kind == "preempt":
            return candidates, PERMIT
        if not self._ready:
            return [], REJECT
        had: dict[str, Resource] = {}
        victims = []
        for task in candidates:
            theirs = self.queues[self._session.jobs[task.job].queue]
            allocated = had.setdefault(theirs.name, theirs.allocated.clone())
            if not theirs.guarantee.fits(allocated.clone().sub(task.request)):
                continue
            if self._above_deserved(task, theirs, allocated):
                allocated.sub(task.request)
                victims.append(task)
        return victims, PERMIT

    def queue_of(self, task: TaskInfo) -> CapacityQueue | None:
        """Return the queue of a task's job."""
        job = self._session.jobs.get(task.job)
        return self.queues.get(job.queue) if job is not None else None


def _by_share(left: CapacityQueue, right: CapacityQueue) -> int:
    """Compare by share; of equal ones the queue that deserves something comes first."""
    if left.share != right.share:
        return -1 if left.share < right.share else 1
    return int(left.deserved.is_empty) - int(right.deserved.is_empty)


def _common_level(left: CapacityQueue, right: CapacityQueue) -> int:
    """Return the depth of the last common ancestor."""
    level = 0
    for depth, (mine, theirs) in enumerate(zip(left.ancestors, right.ancestors, strict=False)):
        if mine != theirs:
            return level
        level = depth
    return level


class _Trial:
    """A simulation of the allocated resources of queues without some tasks."""

    def __init__(self, owner: Capacity) -> None:
        self._owner = owner
        self._allocated = {name: queue.allocated.clone() for name, queue in owner.queues.items()}
        self._devices = {
            name: queue.devices.copy() for name, queue in owner.queues.items() if queue.devices is not None
        }

    def remove(self, task: TaskInfo, node: SessionNode) -> bool:
        """Simulate the removal of a task."""
        return self._shift(task, -1)

    def add(self, task: TaskInfo, node: SessionNode) -> bool:
        """Simulate the addition of a task."""
        return self._shift(task, 1)

    def _shift(self, task: TaskInfo, sign: int) -> bool:
        queue = self._owner.queue_of(task)
        if queue is None:
            return False
        for each in self._owner.chain(queue):
            amounts = self._allocated[each.name]
            (amounts.add if sign > 0 else amounts.sub)(task.request)
            quota = self._devices.get(each.name)
            if quota is not None:
                (quota.take if sign > 0 else quota.give_back)(self._owner.devices.of(task))
        return True

    def allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        """Return whether a task is within the limits of the queue and its ancestors in the simulation."""
        leaf = self._owner.leaf(queue)
        if leaf is None:
            return False
        demands = self._owner.devices.of(task)
        for each in self._owner.chain(leaf):
            quota = self._devices.get(each.name)
            if quota is not None and not quota.allows_task(demands):
                return False
            if not fits_in(self._owner.occupied(each, self._allocated[each.name], task), each.limit, [task]):
                return False
        return True

    def predicate(self, task: TaskInfo, node: SessionNode) -> bool:
        """Return True: capacity has no predicate."""
        return True


class CapacityQueue(QueueAccount):
    """A queue and its place in the tree."""

    __slots__ = ("ancestors", "capability", "children", "devices")

    def __init__(self, queue: QueueInfo) -> None:
        super().__init__(queue.name)
        spec = queue.queue.spec
        self.deserved = Resource.of(spec.deserved)
        self.guarantee = Resource.of(spec.guarantee.resource)
        self.capability = Resource.of(spec.capability)
        #: The names of the ancestors, the root first.
        self.ancestors: list[str] = []
        self.children: list[CapacityQueue] = []
        #: The device quota; None if there is none.
        self.devices: DeviceQuota | None = None

    @property
    def is_leaf(self) -> bool:
        """Whether the queue has no children."""
        return not self.children

    def ancestor(self, level: int) -> str | None:
        """Return the ancestor a number of levels above, if there is one."""
        return self.ancestors[-level] if 0 < level <= len(self.ancestors) else None

    def ancestors_within(self, levels: int) -> set[str]:
        """Return the ancestors up to a number of levels above."""
        return set(self.ancestors[-levels:]) if levels else set()

    def update_share(self) -> None:
        """Compute the share; it is 1 if the queue deserves nothing."""
        self.share = 1.0 if self.deserved.is_empty else self.dominant_share()


def flat_queues(session: Session) -> dict[str, CapacityQueue]:
    """Return the queues that have jobs."""
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
    """Return all queues as a tree, and whether it is valid: jobs are in leaves only, and parents exist."""
    found = {name: CapacityQueue(queue) for name, queue in session.queues.items()}
    for name, queue in session.queues.items():
        path = _path(session, queue)
        if path is None:
            session.warnings.append(
                f"capacity: queue {name}: its parents do not lead to the root; nothing is scheduled"
            )
            return found, False
        found[name].ancestors = path
        if path:
            found[path[-1]].children.append(found[name])
    for job in session.jobs.values():
        leaf = found[job.queue]
        if leaf.children:
            session.warnings.append(
                f"capacity: {job.uid} is in queue {leaf.name}, which is not a leaf; nothing is scheduled"
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
    _set_limits(root)
    for account in found.values():
        account.update_share()
    return found, True


def _path(session: Session, queue: QueueInfo) -> list[str] | None:
    """Return the names from the root down to a queue's parent; None if one is missing or they form a cycle."""
    path: list[str] = []
    while queue.name != ROOT:
        parent = session.queues.get(queue.parent)
        if parent is None or parent.name in path:
            return None
        path.append(parent.name)
        queue = parent
    return path[::-1]


def _set_limits(queue: CapacityQueue) -> None:
    """Compute the limits of the descendants from the limit of this queue."""
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
        _set_limits(child)


def _inherit(capability: Resource, parent: Resource) -> None:
    """Inherit the capabilities that a queue does not set from its parent."""
    if capability.cpu <= 0:
        capability.cpu = parent.cpu
    if capability.memory <= 0:
        capability.memory = parent.memory
    if parent.scalars is not None:
        capability.scalars = {**parent.scalars, **(capability.scalars or {})}
