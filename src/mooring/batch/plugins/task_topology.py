"""task-topology: affinity and anti-affinity between the roles of a job.

Tasks that should share a node are put into a *bucket*.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.batch.job import JobInfo
from mooring.batch.plugin import BatchPlugin
from mooring.batch.resource import Resource
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode
from mooring.batch.task import PENDING, TASK_SPEC, TaskInfo

Floats = npt.NDArray[np.float64]

_AFFINITY = "volcano.sh/task-topology-affinity"
_ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
_TASK_ORDER = "volcano.sh/task-topology-task-order"


class TaskTopology(BatchPlugin):
    """Sorts tasks into buckets and prefers one node for each bucket."""

    name = "task-topology"

    def on_session_open(self, session: Session) -> None:
        """Fill the buckets and register callbacks."""
        self._session = session
        self._weight = self.arguments.integer("task-topology.weight", 1)
        self._buckets: dict[str, Buckets] = {}
        for job in session.jobs.values():
            topology = read_topology(job) if PENDING in job.by_status else None
            if topology is not None:
                self._buckets[job.uid] = Buckets(topology, list(job.tasks.values()))
        session.add_task_order(self._compare)
        session.add_node_order(self._score)
        session.add_event_handler(allocate=self._placed)

    def _compare(self, left: TaskInfo, right: TaskInfo) -> int:
        """Order tasks of the bucket with the most tasks left first."""
        mine, theirs = self._buckets.get(left.job), self._buckets.get(right.job)
        if mine is None or theirs is None:
            return 0
        own, other = mine.bucket_of(left), theirs.bucket_of(right)
        if own is None or other is None:
            return int(own is None) - int(other is None)
        if left.job != right.job:
            return 0
        if len(own.tasks) != len(other.tasks):
            return len(other.tasks) - len(own.tasks)
        if own is other:
            return -mine.compare(left, right)
        return own.index - other.index

    def _score(self, task: TaskInfo, node: SessionNode) -> float:
        """Score by how many tasks of the bucket are on the node or would fit there too."""
        buckets = self._buckets.get(task.job)
        room = node.idle.add(node.releasing)
        if buckets is None or room.less_in_some(task.request):
            return 0.0
        score = float(buckets.worth(task, node.name, room) * self._weight)
        return score * 100.0 / float(buckets.largest) if buckets.largest else score

    def _placed(self, task: TaskInfo) -> None:
        buckets = self._buckets.get(task.job)
        if buckets is not None:
            buckets.placed(task)


def read_topology(job: JobInfo) -> Topology | None:
    """Read a PodGroup's annotations; None if there are none or they are invalid."""
    annotations = job.group.annotations
    if not any(key in annotations for key in (_AFFINITY, _ANTI_AFFINITY, _TASK_ORDER)):
        return None
    roles = {task.role for task in job.tasks.values()}
    read = functools.partial(_groups, roles=roles)
    near = read(annotations.get(_AFFINITY))
    apart = read(annotations.get(_ANTI_AFFINITY))
    order = annotations.get(_TASK_ORDER)
    ordered = read(order.replace(";", "\0")) if order is not None else []
    if near is None or apart is None or ordered is None:
        return None
    return Topology(near, apart, ordered[0] if ordered else [])


def _groups(text: str | None, *, roles: set[str]) -> list[list[str]] | None:
    """Parse groups of roles such as ``ps,worker;chief``; None if a role does not exist or is in a group twice."""
    if text is None:
        return []
    groups = [group.split(",") for group in text.split(";")]
    for group in groups:
        named = [role for role in group if role]
        if len(set(named)) < len(named) or not set(named) <= roles:
            return None
    return groups


_SELF_APART, _NEAR, _SELF_NEAR, _APART = 4, 3, 2, 1


class Topology(NamedTuple):
    """Groups of roles with affinity and with anti-affinity, and the order of roles."""

    near: list[list[str]]
    apart: list[list[str]]
    order: list[str]


class Bucket:
    """Tasks that should share a node."""

    def __init__(self, index: int) -> None:
        self.index = index
        #: Tasks that have no node yet, by uid.
        self.tasks: dict[str, TaskInfo] = {}
        self.roles: Counter[str] = Counter()
        self.request = Resource()
        self.size = 0.0
        self.placed = 0
        #: Node -> how many tasks of the bucket are there.
        self.nodes: Counter[str] = Counter()

    def add(self, role: str, task: TaskInfo) -> None:
        """Add a task."""
        self.roles[role] += 1
        if task.node_name:
            self.nodes[task.node_name] += 1
            self.placed += 1
            return
        self.tasks[task.uid] = task
        self.size += _size(task.request)
        self.request.add(task.request)

    def put_on_node(self, task: TaskInfo) -> None:
        """Record that a task of the bucket was placed."""
        self.nodes[task.node_name] += 1
        self.placed += 1
        self.tasks.pop(task.uid, None)
        self.size -= _size(task.request)
        self.request.sub(task.request)


def _size(request: Resource) -> float:
    total = request.cpu + request.memory / 1024 / 1024
    for amount in (request.scalars or {}).values():
        total += amount
    return total


def role_of(task: TaskInfo) -> str:
    """Return the role that topologies use: the annotation, not the label."""
    return task.pod.annotations.get(TASK_SPEC, "")


class Buckets:
    """The buckets of one job."""

    def __init__(self, topology: Topology, tasks: list[TaskInfo]) -> None:
        self._strength: dict[str, int] = {}
        self._near: set[tuple[str, str]] = set()
        self._apart: set[tuple[str, str]] = set()
        self._relate(topology.near, self._near, _SELF_NEAR, _NEAR)
        self._relate(topology.apart, self._apart, _SELF_APART, _APART)
        self._order = {role: len(topology.order) - place for place, role in enumerate(topology.order)}
        self._buckets: list[Bucket] = []
        self._of_task: dict[str, Bucket] = {}
        #: Node -> roles of tasks placed there in this session.
        self._on_node: dict[str, Counter[str]] = {}
        #: The size of the largest bucket.
        self.largest = 0
        self._fill([task for task in tasks if role_of(task) in self._strength and role_of(task)])

    def _relate(self, groups: list[list[str]], pairs: set[tuple[str, str]], alone: int, together: int) -> None:
        for group in groups:
            if len(group) == 1:
                pairs.add((group[0], group[0]))
                self._strengthen(group[0], alone)
                continue
            for place, role in enumerate(group):
                for other in group[:place]:
                    pairs |= {(role, other), (other, role)}
                self._strengthen(role, together)

    def _strengthen(self, role: str, strength: int) -> None:
        self._strength[role] = max(strength, self._strength.get(role, 0))

    def compare(self, left: TaskInfo, right: TaskInfo) -> int:
        """Compare two tasks by their roles: positive if the left one is more important."""
        mine, theirs = role_of(left), role_of(right)
        if mine == theirs:
            return 0
        first, second = self._order.get(mine, 0), self._order.get(theirs, 0)
        if first != second:
            return 1 if first > second else -1
        first, second = self._strength.get(mine, 0), self._strength.get(theirs, 0)
        return 0 if first == second else 1 if first > second else -1

    def _before(self, left: TaskInfo, right: TaskInfo) -> int:
        """Compare two tasks for filling buckets: placed tasks first, then the more important role."""
        if left.node_name or right.node_name:
            if bool(left.node_name) != bool(right.node_name):
                return -1 if left.node_name else 1
            return (left.node_name > right.node_name) - (left.node_name < right.node_name)
        answer = self.compare(left, right)
        if answer:
            return -answer
        return (left.name > right.name) - (left.name < right.name)

    def _fill(self, tasks: list[TaskInfo]) -> None:
        by_node: dict[str, Bucket] = {}
        for task in sorted(tasks, key=functools.cmp_to_key(self._before)):
            bucket = by_node.get(task.node_name) if task.node_name else self._best(role_of(task))
            if bucket is None:
                bucket = Bucket(len(self._buckets))
                self._buckets.append(bucket)
                if task.node_name:
                    by_node[task.node_name] = bucket
            bucket.add(role_of(task), task)
            self._of_task[task.uid] = bucket
            self.largest = max(self.largest, len(bucket.tasks) + bucket.placed)

    def _best(self, role: str) -> Bucket | None:
        """Return the bucket with the highest affinity to a role, the smaller of equal ones; None if negative."""
        best: Bucket | None = None
        most = -(2**31)
        for bucket in self._buckets:
            affinity = self._affinity(role, bucket.roles, only_apart=False)
            if affinity > most:
                most, best = affinity, bucket
            elif affinity == most and best is not None and bucket.size < best.size:
                best = bucket
        return best if most >= 0 else None

    def _affinity(self, role: str, others: Mapping[str, int], *, only_apart: bool) -> int:
        if not role:
            return 0
        found = 0
        for other, count in others.items():
            if not only_apart and (role, other) in self._near:
                found += count
            if (role, other) in self._apart:
                found -= count
        return found

    def bucket_of(self, task: TaskInfo) -> Bucket | None:
        """Return the bucket of a task."""
        return self._of_task.get(task.uid)

    def placed(self, task: TaskInfo) -> None:
        """Record that a task was placed."""
        role = role_of(task)
        if role:
            self._on_node.setdefault(task.node_name, Counter())[role] += 1
        bucket = self.bucket_of(task)
        if bucket is not None:
            bucket.put_on_node(task)

    def worth(self, task: TaskInfo, node_name: str, room: Resource) -> int:
        """Return how many tasks of the bucket a node has or has room for, minus those with anti-affinity."""
        bucket = self.bucket_of(task)
        if bucket is None:
            return 0
        score = bucket.nodes[node_name]
        there = self._on_node.get(node_name)
        if there:
            score += min(self._affinity(role_of(task), there, only_apart=True), 0)
        score += len(bucket.tasks)
        if bucket.request.fits(room):
            return score
        left = bucket.request.clone()
        for other in bucket.tasks.values():
            if other.uid == task.uid:
                continue
            left.sub(other.request)
            score -= 1
            if left.fits(room):
                break
        return score
