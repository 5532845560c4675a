"""task-topology: which tasks of a job should share nodes, and which should not."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from mooring.batch.job import JobInfo
from mooring.batch.plugin import BatchPlugin
from mooring.batch.plugins.buckets import Buckets, Topology
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode
from mooring.batch.task import PENDING, TaskInfo

Floats = npt.NDArray[np.float64]

_AFFINITY = "volcano.sh/task-topology-affinity"
_ANTI_AFFINITY = "volcano.sh/task-topology-anti-affinity"
_TASK_ORDER = "volcano.sh/task-topology-task-order"


class TaskTopology(BatchPlugin):
    """Sorts tasks into buckets that want to be together, and draws them to the same nodes."""

    name = "task-topology"

    def on_session_open(self, session: Session) -> None:
        """Fill the buckets, and register."""
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
        """Tasks of the bucket with the most tasks left first."""
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
        """How many tasks of the bucket are on the node or would find room there too."""
        buckets = self._buckets.get(task.job)
        room = node.idle.add(node.releasing)
        if buckets is None or _has_less(room, task):
            return 0.0
        score = float(buckets.worth(task, node.name, room) * self._weight)
        return score * 100.0 / float(buckets.largest) if buckets.largest else score

    def _placed(self, task: TaskInfo) -> None:
        buckets = self._buckets.get(task.job)
        if buckets is not None:
            buckets.placed(task)


def _has_less(room: object, task: TaskInfo) -> bool:
    return room.less_in_some(task.request)  # type: ignore[attr-defined, no-any-return]


def read_topology(job: JobInfo) -> Topology | None:
    """What a PodGroup's annotations say; None if nothing, or if it makes no sense."""
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
    """Groups of roles: ``ps,worker;chief``; None if one does not exist or is in a group twice."""
    if text is None:
        return []
    groups = [group.split(",") for group in text.split(";")]
    for group in groups:
        named = [role for role in group if role]
        if len(set(named)) < len(named) or not set(named) <= roles:
            return None
    return groups
