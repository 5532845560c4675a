"""Session: one round of batch scheduling over all pending jobs.

Plugins register their callbacks when it opens, actions run in order, and it ends with lists of bindings, evictions and
statuses to write. It does no I/O. It is the only place that changes the node table during a session.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.batch.callbacks import Callbacks
from mooring.batch.conf import BatchConf
from mooring.batch.heap import Heap
from mooring.batch.job import JobInfo
from mooring.batch.kube_plugins import KubePlugins
from mooring.batch.node_amounts import SessionAmounts
from mooring.batch.queue import QueueInfo
from mooring.batch.resource import MIN_RESOURCE, Resource
from mooring.batch.session_nodes import SessionNode, SessionNodes
from mooring.batch.statement import Statement
from mooring.batch.task import ALLOCATED, BINDING, PENDING, Status, TaskInfo
from mooring.columns.row_cursor import ChangeLog
from mooring.columns.table import NodeTable
from mooring.framework.handle import Handle
from mooring.framework.state import CycleState

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
#: Called with a task that was allocated or deallocated; returns an error, or None.
Handler = Callable[[TaskInfo], str | None]


#: What a result depends on besides the node and the task's template; UNCACHEABLE if on other nodes too.
Dependence = Callable[[TaskInfo], Any]
UNCACHEABLE: Final = object()


def on_node_alone(_task: TaskInfo) -> None:
    """Declare that a callback's result depends on the node and the task's template only."""


class NodeCallback(NamedTuple):
    """A callback that evaluates nodes one by one or in columns, and what its result depends on (None: unknown)."""

    function: Callable[..., Any]
    columns: bool
    depends: Dependence | None


class NodeUsage(NamedTuple):
    """A node's measured usage in per cent, and the time of the measurement."""

    cpu: float
    memory: float
    measured: float


class Simulation(Protocol):
    """A plugin's state during a dry run of evictions on one node."""

    def remove(self, task: TaskInfo, node: SessionNode) -> bool:
        """Remove a task from the node; False if that cannot be simulated."""

    def add(self, task: TaskInfo, node: SessionNode) -> bool:
        """Add a task to the node again; False if that cannot be simulated."""

    def allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        """Whether the queue may allocate what a task requests."""

    def predicate(self, task: TaskInfo, node: SessionNode) -> bool:
        """Whether the node is feasible."""


class Rollback:
    """Undoes what a session did to the node table.

    A session works on the table itself; nothing is copied. At its end, pipelined pods are removed again, and pods that
    are being evicted are put back, since they still exist.
    """

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        #: Uid -> the pod, and the node that it was on before (None: on none).
        self._before: dict[str, tuple[Pod, str | None]] = {}

    def add_pod(self, pod: Pod, node_name: str) -> None:
        """Put a pod on a node of the table."""
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


class Session(Callbacks):
    """What plugins and actions work with.

    A plugin registers its callbacks in ``on_session_open`` with the ``add_...`` methods. Actions call the combined
    callbacks (``job_ready``, ``allocatable``, ...) and change the session through statements.
    """

    def __init__(
        self,
        conf: BatchConf,
        *,
        uid: str,
        jobs: dict[str, JobInfo],
        nodes: Sequence[SessionNode],
        queues: dict[str, QueueInfo],
        amounts: SessionAmounts,
        kube: KubePlugins,
        memory: dict[str, Any] | None = None,
        usage: Mapping[str, NodeUsage] | None = None,
    ) -> None:
        super().__init__(conf)
        self.uid = uid
        #: PodGroups that may be scheduled, by namespace/name.
        self.jobs = jobs
        #: All nodes, in the order of the rows of ``amounts`` and ``table``.
        self.node_list = list(nodes)
        self.nodes: dict[str, SessionNode] = {node.name: node for node in nodes}
        self.queues = queues
        self.amounts = amounts
        #: kube-scheduler's filters and scorers.
        self.kube = kube
        self.handle: Handle = kube.handle
        #: Undoes the session's changes to the table.
        self.rollback = Rollback(kube.handle.table)
        #: What plugins keep from session to session, by their name.
        self.memory: dict[str, Any] = {} if memory is None else memory
        #: Measured usage by node, if there is any.
        self.usage: Mapping[str, NodeUsage] = {} if usage is None else usage
        #: The sum of all nodes' allocatable amounts.
        self.total = Resource()
        for node in nodes:
            self.total.add(node.allocatable)
        #: Tasks to bind, and tasks to evict with the reason, in order.
        self.bindings: list[TaskInfo] = []
        self.evictions: list[tuple[TaskInfo, str]] = []
        #: Why PodGroups were not admitted to their queue, for their events.
        self.notes: list[tuple[JobInfo, str]] = []
        #: A log of all steps, if it is enabled.
        self.journal: list[str] | None = None
        self.warnings: list[str] = []
        #: Rows of nodes whose tasks changed; results for other rows stay valid.
        self.changes = ChangeLog()
        self._reservations: list[tuple[Handler, Handler]] = []
        self._on_allocate: list[Handler] = []
        self._on_deallocate: list[Handler] = []
        self._states: dict[str, CycleState] = {}

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

    # Registration: each method takes a function of the plugin that is being opened

    def add_job_order(self, function: Callable[[JobInfo, JobInfo], int]) -> None:
        """Order jobs of a queue: negative if the left one comes first, 0 if they are equal."""
        self.register("job_order", function)

    def add_queue_order(self, function: Callable[[QueueInfo, QueueInfo], int]) -> None:
        """Order queues."""
        self.register("queue_order", function)

    def add_victim_queue_order(self, function: Callable[[QueueInfo, QueueInfo, QueueInfo], int]) -> None:
        """Order queues whose tasks may be evicted, given the queue that needs room."""
        self.register("victim_queue_order", function)

    def add_task_order(self, function: Callable[[TaskInfo, TaskInfo], int]) -> None:
        """Order tasks of a job."""
        self.register("task_order", function)

    def add_pre_predicate(self, function: Callable[[TaskInfo], str | None]) -> None:
        """Prepare for a task before nodes are evaluated; text is an error, and no node is feasible."""
        self.register("pre_predicate", function)

    def add_predicate(
        self, function: Callable[..., Any], *, columns: bool = False, depends: Dependence | None = None
    ) -> None:
        """Reject nodes: ``function(task, node)`` returns None, a reason or a Status.

        With ``columns``, ``function(task, nodes)`` returns Verdicts, one per node, or None if all are feasible.
        ``depends`` declares that the result for a node depends on that node, the task's template and what
        ``depends(task)`` returns. It is then cached for further such tasks, and only changed nodes are evaluated again.
        """
        self.register("predicate", NodeCallback(function, columns, depends))

    def add_node_order(
        self, function: Callable[..., Any], *, columns: bool = False, depends: Dependence | None = None
    ) -> None:
        """Score nodes: ``function(task, node)`` returns a number (``columns``: ``function(task, nodes)`` a vector)."""
        self.register("node_order", NodeCallback(function, columns, depends))

    def add_batch_node_order(
        self, function: Callable[..., Any], *, columns: bool = False, depends: Dependence | None = None
    ) -> None:
        """Score all candidates together: ``function(task, nodes)`` returns scores by name (``columns``: a vector)."""
        self.register("batch_node_order", NodeCallback(function, columns, depends))

    def add_best_node(
        self, function: Callable[[TaskInfo, Mapping[float, list[SessionNode]]], SessionNode | None]
    ) -> None:
        """Choose the node, given all candidates by score."""
        self.register("best_node", function)

    def add_preemptable(self, function: Callable[[TaskInfo, list[TaskInfo]], tuple[list[TaskInfo], int]]) -> None:
        """Return the tasks that may be evicted for another task of their queue, and a vote."""
        self.register("preemptable", function)

    def add_reclaimable(self, function: Callable[[TaskInfo, list[TaskInfo]], tuple[list[TaskInfo], int]]) -> None:
        """Return the tasks that may be evicted for a task of another queue, and a vote."""
        self.register("reclaimable", function)

    def add_unified_evictable(self, function: Callable[..., tuple[list[TaskInfo], int]]) -> None:
        """Return the tasks that may be evicted for a gang, and a vote."""
        self.register("unified_evictable", function)

    def add_overused(self, function: Callable[[QueueInfo], bool]) -> None:
        """Return whether a queue exceeds its share."""
        self.register("overused", function)

    def add_preemptive(self, function: Callable[[QueueInfo, Sequence[TaskInfo]], bool]) -> None:
        """Return whether a queue may reclaim resources for tasks."""
        self.register("preemptive", function)

    def add_allocatable(self, function: Callable[[QueueInfo, TaskInfo], bool]) -> None:
        """Return whether a queue may allocate what a task requests."""
        self.register("allocatable", function)

    def add_job_ready(self, function: Callable[[JobInfo], bool]) -> None:
        """Return whether a job has enough tasks to start."""
        self.register("job_ready", function)

    def add_job_pipelined(self, function: Callable[[JobInfo], int]) -> None:
        """Vote on whether a job has enough tasks, pipelined ones included."""
        self.register("job_pipelined", function)

    def add_job_enqueueable(self, function: Callable[[JobInfo], int]) -> None:
        """Vote on the admission of a job to its queue."""
        self.register("job_enqueueable", function)

    def add_job_enqueued(self, function: Callable[[JobInfo], None]) -> None:
        """Be called with each job that was admitted to its queue."""
        self.register("job_enqueued", function)

    def add_job_starving(self, function: Callable[[JobInfo], bool]) -> None:
        """Return whether a job needs more tasks."""
        self.register("job_starving", function)

    def add_job_valid(self, function: Callable[[JobInfo], Any]) -> None:
        """Return why a job cannot be scheduled at all (an Invalid), or None."""
        self.register("job_valid", function)

    def add_victim_tasks(self, function: Callable[[list[TaskInfo]], list[TaskInfo]]) -> None:
        """Return running tasks to evict in any case."""
        self.register("victim_tasks", function)

    def add_simulation(self, function: Callable[[TaskInfo], Simulation]) -> None:
        """Take part in dry runs of preemption: return a Simulation for the preemptor."""
        self.register("simulation", function)

    def add_event_handler(self, allocate: Handler | None = None, deallocate: Handler | None = None) -> None:
        """Be called with tasks that are allocated or pipelined, and deallocated; text is an error."""
        if allocate is not None:
            self._on_allocate.append(allocate)
        if deallocate is not None:
            self._on_deallocate.append(deallocate)

    def add_reservation(self, reserve: Handler, unreserve: Handler) -> None:
        """Reserve volumes before a task enters the table, and release them when it leaves; text is an error.

        With an error the task stays out of the table, so kube-scheduler's filters do not see it.
        """
        self._reservations.append((reserve, unreserve))

    # Scores

    def total_scores(self, task: TaskInfo, nodes: SessionNodes) -> Floats | None:
        """Return the sum of all scores per node; None if a batch_node_order callback failed."""
        order = np.zeros(len(nodes))
        broken: Mask | None = None
        for callback in self.all("node_order"):
            scores, failed = _order_scores(task, callback, nodes)
            order += scores
            if failed is not None:
                broken = failed if broken is None else broken | failed
        if broken is not None:
            order[broken] = 0.0  # after an error a node loses all node_order scores
        together = np.zeros(len(nodes))
        for callback in self.all("batch_node_order"):
            answer = callback.function(task, nodes)
            if isinstance(answer, str):
                return None
            if callback.columns:
                together += answer
            elif answer:
                together += np.array([float(answer.get(name, 0.0)) for name in nodes.names])
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
        """Return a new statement."""
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
        for handler in self._on_allocate:
            found = handler(task) or found
        return found

    def fire_deallocate(self, task: TaskInfo) -> None:
        """Remove a task from the table and call the handlers."""
        self._leave_table(task)
        for handler in self._on_deallocate:
            handler(task)

    def _enter_table(self, task: TaskInfo) -> str:
        row = self.table.row_of.get(task.node_name)
        if row is None:
            return ""
        for reserve, _ in self._reservations:
            error = reserve(task)
            if error:
                return error
        self.rollback.add_pod(task.pod, task.node_name)
        self.kube.unseen.placed(task.uid, self.table.template(task.pod), row)
        return ""

    def _leave_table(self, task: TaskInfo) -> None:
        if task.node_name not in self.table.row_of:
            return
        for _, unreserve in self._reservations:
            unreserve(task)
        self.kube.unseen.removed(task.uid)
        self.rollback.remove_pod(task.pod)

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
        """Whether a task's node is not overcommitted: Volcano binds nothing to a node that is.

        Only best-effort tasks get this far. A node is overcommitted if its allocatable amounts shrank.
        """
        row, idle = self.nodes[task.node_name].row, self.amounts.idle
        return all(idle.item(slot, row) > -MIN_RESOURCE for slot, _ in self.amounts.by_slot(task.request))

    def evict(self, task: TaskInfo, reason: str) -> None:
        """Evict a task outside any statement."""
        self.evictions.append((task, reason))
        self.move(task, "Releasing")
        self.fire_deallocate(task)

    def hierarchical(self, plugin: str) -> bool:
        """Whether a plugin's ``enableHierarchy`` is on."""
        option = next((option for option in self.conf.options() if option.name == plugin), None)
        return option is not None and option.enabled("Hierarchy")


def _order_scores(task: TaskInfo, callback: NodeCallback, nodes: SessionNodes) -> tuple[Any, Mask | None]:
    """Return one plugin's scores, and the nodes for which it failed."""
    if callback.columns:
        answer = callback.function(task, nodes)
        return answer if isinstance(answer, tuple) else (answer, None)
    return np.array([float(callback.function(task, node)) for node in nodes]), None
