"""Session: one round of batch scheduling over all pending jobs.

Plugins register their callbacks when it opens, actions run in order, and it ends with lists of bindings, evictions and
statuses to write. It does no I/O. It is the only place that changes the node table during a session.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.batch.conf import BatchConf
from mooring.batch.device_config import DEFAULT, DeviceConfig
from mooring.batch.heap import Heap
from mooring.batch.hyper_nodes import HyperNodes
from mooring.batch.job import JobInfo
from mooring.batch.kube_plugins import KubePlugins
from mooring.batch.node_amounts import SessionAmounts
from mooring.batch.node_locks import NodeLock
from mooring.batch.numa_records import NumaRecords
from mooring.batch.queue import QueueInfo
from mooring.batch.rankings import Parts, Rankings
from mooring.batch.registrations import NodeCallback, Registrations
from mooring.batch.resource import MIN_RESOURCE, Resource
from mooring.batch.session_nodes import NodesByName, SessionNodeList, SessionNodes
from mooring.batch.statement import Statement
from mooring.batch.task import (
    ALLOCATED,
    BINDING,
    PENDING,
    Status,
    TaskInfo,
    has_only_queue_gate,
    wants_queue_gate,
)
from mooring.columns.row_cursor import ChangeLog
from mooring.columns.table import NodeTable
from mooring.framework.handle import Handle
from mooring.framework.listers import Lister
from mooring.framework.state import CycleState

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


class NodeUsage(NamedTuple):
    """A node's measured usage.

    Attributes:
        cpu: The used share of the cpu, in per cent.
        memory: The used share of the memory, in per cent.
        measured: The time of the measurement, in seconds since the epoch.
    """

    cpu: float
    memory: float
    measured: float


#: The reasons of objects that a session leaves out.
INVALID: Final = "Invalid"
QUEUE_NOT_FOUND: Final = "QueueNotFound"


class InvalidObject(NamedTuple):
    """A group, queue or quota that a session leaves out: it cannot be parsed, or its queue does not exist.

    The message names the field and its value.
    """

    item: KubeObject
    message: str
    reason: str = INVALID


class Rollback:
    """Undoes a session's changes to the node table.

    A session works on the table itself; nothing is copied. At its end, pipelined pods are removed again, and pods that
    are being evicted are put back, since they still exist.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        #: Uid -> the pod, and the node that it was on before (None: on none).
        self._before: dict[str, tuple[Pod, str | None]] = {}

    def add_pod(self, pod: Pod, node_name: str) -> None:
        """Add a pod to a node of the table."""
        self._save(pod)
        self._table.add_pod(pod, node_name)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a pod from the table."""
        self._save(pod)
        self._table.remove_pod(pod.uid)

    def _save(self, pod: Pod) -> None:
        if pod.uid not in self._before:
            known = self._table.pods.get(pod.uid)
            home = known.node.name if known is not None and known.node is not None else None
            self._before[pod.uid] = (known.pod if known is not None else pod, home)

    def restore(self, keep: Collection[str] = ()) -> None:
        """Restore all pods but those to keep (by uid)."""
        for uid, (pod, home) in self._before.items():
            if uid in keep:
                continue
            known = self._table.pods.get(uid)
            now = known.node.name if known is not None and known.node is not None else None
            if now == home:
                continue
            if home is None:
                self._table.remove_pod(uid)
            else:
                self._table.add_pod(pod, home)
        self._before.clear()


class Session(Registrations):
    """One round of batch scheduling, for session plugins and actions.

    A plugin registers its callbacks in ``on_session_open`` with the ``add_...`` methods. Actions call the combined
    callbacks (``job_ready``, ``allocatable``, ...) and change the session through statements.

    Attributes:
        uid: The identity of the session.
        conf: The configuration: actions, tiers of plugins, arguments.
        jobs: The PodGroups that may be scheduled, by ``namespace/name``.
        queues: The queues by name.
        nodes: The nodes that the session considers (``--node-selector``), by name.
        node_list: All nodes, in the order of the rows of ``table``, also those that the session does not consider.
        total: The sum of the allocatable amounts of the nodes that the session considers.
        hyper_nodes: The domains of the network.
        numa: The reported NUMA topologies of nodes.
        usage: The measured usage of nodes by name, if there is any.
        memory: State that plugins keep across sessions, by the plugin's name.
        handle: The scheduler's interface: clock, random numbers, listers.
        amounts: The amounts of all nodes in columns.
        kube: kube-scheduler's filters and scorers.
        bindings: The tasks to bind, in order.
        evictions: The tasks to evict, each with the reason, in order.
        warnings: Messages for the log.
        notes: Jobs that were not admitted to their queue, each with the reason, for events.
        rankings: The best nodes of each task, if decision records are enabled.
        journal: A log of all steps, if it is enabled.
        invalid: Objects that were left out because they cannot be parsed.
        changes: The rows of nodes whose tasks changed.
        rollback: Undoes the session's changes to the node table.
    """

    def __init__(
        self,
        conf: BatchConf,
        *,
        uid: str,
        jobs: dict[str, JobInfo],
        nodes: SessionNodeList,
        queues: dict[str, QueueInfo],
        amounts: SessionAmounts,
        kube: KubePlugins,
        memory: dict[str, Any] | None = None,
        usage: Mapping[str, NodeUsage] | None = None,
        hyper_nodes: HyperNodes | None = None,
        numa: NumaRecords | None = None,
        total: Resource | None = None,
    ) -> None:
        super().__init__(conf)
        self.uid = uid
        self.jobs = jobs
        self.node_list = nodes
        self.nodes = NodesByName(nodes, amounts.selected)
        self.queues = queues
        self.amounts = amounts
        self.kube = kube
        self.handle: Handle = kube.handle
        self.rollback = Rollback(kube.handle.table)
        self.memory: dict[str, Any] = {} if memory is None else memory
        self.usage: Mapping[str, NodeUsage] = {} if usage is None else usage
        self.hyper_nodes = HyperNodes((), {}, nodes.row_of) if hyper_nodes is None else hyper_nodes
        self.numa = NumaRecords(Lister()) if numa is None else numa
        if total is None:
            total = Resource()
            for node in nodes:
                total.add(node.allocatable)
        self.total = total
        self.bindings: list[TaskInfo] = []
        self.evictions: list[tuple[TaskInfo, str]] = []
        #: The number of times that preempt has looked for victims, as Volcano counts them.
        self.preemption_attempts = 0
        #: Called with a stage of scheduling a task (Predicate or Scoring) and its seconds, if durations are measured.
        self.on_stage: Callable[[str, float], None] | None = None
        #: Whether Volcano's own scheduling gate is removed from pods when their queue has room.
        self.removes_queue_gates = False
        #: The pods from which that gate is removed, by uid.
        self.admitted: dict[str, Pod] = {}
        self.notes: list[tuple[JobInfo, str]] = []
        #: Warnings about jobs that are placed nevertheless: the job, the reason of the event and its text.
        self.job_warnings: list[tuple[JobInfo, str, str]] = []
        self.rankings: Rankings | None = None
        self.journal: list[str] | None = None
        self.warnings: list[str] = []
        self.invalid: list[InvalidObject] = []
        self.changes = ChangeLog()
        #: The kinds of shared devices.
        self.device_config: DeviceConfig = DEFAULT
        #: The locks of its node that a pod (by uid) needs before it is bound.
        self.node_locks: dict[str, list[NodeLock]] = {}
        self._states: dict[str, CycleState] = {}
        #: The tasks (by uid) for which volumes and devices may be reserved.
        self._reserved: dict[str, TaskInfo] = {}

    def admit(self, task: TaskInfo) -> None:
        """Remove Volcano's own gate from a pod that requests it, since its queue has room. Later sessions place it."""
        if not (self.removes_queue_gates and has_only_queue_gate(task.pod) and wants_queue_gate(task.pod)):
            return
        if not self.admitted and all(option.name != "capacity" for option in self.conf.options()):
            self.warnings.append(
                "SchedulingGatesQueueAdmission needs the plugin capacity: without it, no room is reserved for admitted "
                "pods, and scheduling gates are removed from more pods than a queue has room for"
            )
        self.admitted[task.uid] = task.pod

    @property
    def table(self) -> NodeTable:
        """The node table, as kube-scheduler's plugins read it."""
        return self.handle.table

    @property
    def random(self) -> random.Random:
        """The random numbers that break ties."""
        return self.handle.random

    @property
    def now(self) -> float:
        """The time, in seconds since the epoch."""
        return self.handle.clock()

    def state_of(self, task: TaskInfo) -> CycleState:
        """Return the state that plugins keep about a task during the session."""
        state = self._states.get(task.uid)
        if state is None:
            state = self._states[task.uid] = CycleState()
        return state

    # Scores

    def total_scores(
        self, task: TaskInfo, nodes: SessionNodes, parts: Parts | None = None, *, live: bool = True
    ) -> Floats | None:
        """Return the sum of all scores per node; None if a batch_node_order callback failed.

        ``parts`` gets the scores by plugin. Without ``live``, scorers whose scores change with every placement are left
        out.
        """
        order = np.zeros(len(nodes))
        if not len(nodes):
            return order
        broken: Mask | None = None
        for name, callback in self.named("node_order"):
            scores, failed = _order_scores(task, callback, nodes)
            order += scores
            if failed is not None:
                broken = failed if broken is None else broken | failed
            if parts is not None:
                parts[name] = scores
        if broken is not None:
            order[broken] = 0.0  # after an error a node loses all node_order scores
            if parts is not None:
                parts.update({name: np.where(broken, 0.0, scores) for name, scores in parts.items()})
        together = np.zeros(len(nodes))
        for name, callback in self.named("batch_node_order"):
            if callback.live and not live:
                continue
            answer = callback.function(task, nodes)
            if isinstance(answer, str):
                return None
            if not callback.columns:
                answer = np.array([float(answer.get(each, 0.0)) for each in nodes.names]) if answer else 0.0
            together += answer
            if parts is not None:
                parts[name] = parts.get(name, 0.0) + answer
        order += together
        return order

    # Heaps

    def task_heap(self, tasks: Sequence[TaskInfo]) -> Heap[TaskInfo]:
        """Return a heap of tasks in their order."""
        return Heap(self.task_less, tasks)

    def job_heap(self) -> Heap[JobInfo]:
        """Return an empty heap of jobs in their order."""
        return Heap(self.job_less)

    def queue_heap(self) -> Heap[QueueInfo]:
        """Return an empty heap of queues in their order."""
        return Heap(self.queue_less)

    def victim_heap(self, victims: Sequence[TaskInfo], preemptor: TaskInfo) -> Heap[TaskInfo]:
        """Return a heap of victims in the order of eviction."""

        def less(left: TaskInfo, right: TaskInfo) -> bool:
            if left.job == right.job:
                return not self.task_less(left, right)
            mine, theirs = self.jobs.get(left.job), self.jobs.get(right.job)
            if mine is None or theirs is None:
                return not self.task_less(left, right) if mine is theirs else mine is None
            own = self.jobs.get(preemptor.job)
            if own is not None and mine.queue != theirs.queue:
                queues = self.queues
                return self.victim_queue_less(queues[mine.queue], queues[theirs.queue], queues[own.queue])
            answer = self.compare_jobs(mine, theirs)
            return answer > 0 if answer else not self.task_less(left, right)

        return Heap(less, victims)

    # Operations; statements call these

    def statement(self) -> Statement:
        """Return a new statement: changes that are committed or discarded together."""
        return Statement(self)

    def note(self, text: str) -> None:
        """Write to the journal, if it is enabled."""
        if self.journal is not None:
            self.journal.append(text)

    def move(self, task: TaskInfo, status: Status) -> None:
        """Change the status of a task; it stays on its node."""
        self.set_status(task, status)
        self.note(f"{status} {task.key} {task.node_name}")
        node = self.nodes.get(task.node_name)
        if node is not None:
            node.update(task)
            self.changes.mark(node.row)

    def place(self, task: TaskInfo, status: Status, node_name: str) -> str:
        """Put a task on a node and call the handlers. Return an error, or "" on success."""
        self.set_status(task, status)
        task.node_name = node_name
        self.note(f"{status} {task.key} {node_name}")
        node = self.nodes.get(node_name)
        error = f"there is no node {node_name}" if node is None else node.add(task)
        if node is not None:
            self.changes.mark(node.row)
        return self.fire_allocate(task) or error

    def unplace(self, task: TaskInfo) -> None:
        """Remove a task from its node and call the handlers."""
        self.set_status(task, PENDING)
        self.note(f"{PENDING} {task.key} {task.node_name}")
        node = self.nodes.get(task.node_name)
        if node is not None:
            node.remove(task)
            self.changes.mark(node.row)
        self.fire_deallocate(task)
        task.node_name = ""

    def set_status(self, task: TaskInfo, status: Status) -> None:
        """Change a task's status, and count it in its job if that is part of the session."""
        job = self.jobs.get(task.job)
        if job is not None:
            job.set_status(task, status)
        else:
            task.status = status

    def fire_allocate(self, task: TaskInfo) -> str:
        """Add a task to the table and call the handlers. Return an error, or "" on success."""
        found = self._enter_table(task)
        for _, handler in self._on_allocate:
            found = handler(task) or found
        return found

    def fire_deallocate(self, task: TaskInfo) -> None:
        """Remove a task from the table and call the handlers."""
        self._leave_table(task)
        for _, handler in self._on_deallocate:
            handler(task)

    def _enter_table(self, task: TaskInfo) -> str:
        row = self.table.row_of.get(task.node_name)
        if row is None:
            return ""
        self._reserved[task.uid] = task
        for _, reserve, _ in self._reservations:
            error = reserve(task)
            if error:
                return error
        self.rollback.add_pod(task.pod, task.node_name)
        self.kube.unseen.placed(task.uid, self.table.template(task.pod), row)
        return ""

    def _leave_table(self, task: TaskInfo) -> None:
        if task.node_name not in self.table.row_of:
            return
        self._unreserve(task)
        self.kube.unseen.removed(task.uid)
        self.rollback.remove_pod(task.pod)

    def _unreserve(self, task: TaskInfo) -> None:
        self._reserved.pop(task.uid, None)
        for _, _, unreserve in self._reservations:
            unreserve(task)

    def end(self, keep: Collection[str] = ()) -> None:
        """Release what is reserved for tasks that are not bound, and restore the table but for pods to keep (by uid).

        Pipelined tasks, and allocated ones of gangs that are not ready, get volumes and devices in a later session.
        """
        bound = {task.uid for task in self.bindings}
        for uid, task in list(self._reserved.items()):
            if uid not in bound and uid not in keep:
                self._unreserve(task)
        self.rollback.restore(keep)

    def discard(self) -> None:
        """Drop everything that an ended session refers to. Nothing can be read from it any more.

        A session and its plugins refer to each other, so that otherwise only a garbage collection would free them,
        which takes long with many nodes.
        """
        vars(self).clear()

    def dispatch(self, task: TaskInfo) -> None:
        """Decide to bind a task."""
        self.set_status(task, BINDING)
        self.bindings.append(task)

    def allocate(self, task: TaskInfo, node_name: str) -> str:
        """Allocate a task outside any statement: it is bound as soon as its job is ready."""
        error = self.place(task, ALLOCATED, node_name)
        if error:
            return error
        job = self.jobs[task.job]
        if self.job_ready(job):
            for each in job.of_status(ALLOCATED):
                if not self._has_room(each):
                    return f"node {each.node_name} is overcommitted"
                self.dispatch(each)
        return ""

    def _has_room(self, task: TaskInfo) -> bool:
        """Return whether a task's node is not overcommitted: Volcano binds no task to an overcommitted node.

        Only best-effort tasks reach this check. A node is overcommitted if its allocatable amounts shrank.
        """
        row, idle = self.nodes[task.node_name].row, self.amounts.idle
        return all(idle.item(slot, row) > -MIN_RESOURCE for slot, _ in self.amounts.by_slot(task.request))

    def evict(self, task: TaskInfo, reason: str) -> None:
        """Evict a task outside any statement."""
        self.evictions.append((task, reason))
        self.move(task, "Releasing")
        self.fire_deallocate(task)

    def hierarchical(self, plugin: str) -> bool:
        """Return whether a plugin's ``enableHierarchy`` is on."""
        option = next((option for option in self.conf.options() if option.name == plugin), None)
        return option is not None and option.enabled("Hierarchy")


def _order_scores(task: TaskInfo, callback: NodeCallback, nodes: SessionNodes) -> tuple[Any, Mask | None]:
    """Return one plugin's scores, and the nodes for which it failed."""
    if callback.columns:
        answer = callback.function(task, nodes)
        return answer if isinstance(answer, tuple) else (answer, None)
    return np.array([float(callback.function(task, node)) for node in nodes]), None
