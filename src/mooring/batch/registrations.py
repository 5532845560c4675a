"""Registrations: the methods with which a session plugin registers its callbacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeAlias, overload

import numpy as np
import numpy.typing as npt

from mooring.batch.callbacks import Callbacks, Invalid, MayEvict
from mooring.batch.conf import BatchConf
from mooring.batch.hyper_nodes import Domain
from mooring.batch.job import JobInfo
from mooring.batch.queue import QueueInfo
from mooring.batch.session_nodes import SessionNode, SessionNodes
from mooring.batch.sub_job import SubJob
from mooring.batch.task import TaskInfo
from mooring.framework.extension_points import Answer, Score
from mooring.framework.verdicts import Verdicts

if TYPE_CHECKING:
    from mooring.batch.eviction import EvictionContext
    from mooring.batch.plugins.predicates import Filtered

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
#: The scores of many nodes, or one for all; as a tuple, with a mask of the nodes for which there was an error.
NodeScores: TypeAlias = npt.NDArray[np.integer[Any] | np.floating[Any]] | float | tuple[Floats, Mask | None]
#: Called with a task that was allocated or deallocated; returns an error, or None.
Handler = Callable[[TaskInfo], str | None]


#: Why domains are searched: to place tasks, or to evict others for them.
Purpose = Literal["allocate", "evict"]
#: Returns groups of domains for a job or a part of it, within a domain.
Gradient = Callable[[JobInfo | SubJob, Domain, Purpose], list[list[Domain]]]


#: Returns what a result depends on besides the node and the task's template; UNCACHEABLE if on other nodes too.
Dependence = Callable[[TaskInfo], Any]
UNCACHEABLE: Final = object()


def on_node_alone(_task: TaskInfo) -> None:
    """Declare that a callback's result depends on the node and the task's template only."""


class NodeCallback(NamedTuple):
    """A callback that evaluates nodes one by one or in columns, and what its result depends on (None: unknown)."""

    function: Callable[..., Any]
    columns: bool
    depends: Dependence | None
    #: Whether the scores change with every placement, so that they are added to the cached ones of each task.
    live: bool = False


class Simulation(Protocol):
    """A plugin's state during a dry run of evictions on one node."""

    def remove(self, task: TaskInfo, node: SessionNode) -> bool:
        """Remove a task from the node; False if that cannot be simulated."""

    def add(self, task: TaskInfo, node: SessionNode) -> bool:
        """Add a task to the node again; False if that cannot be simulated."""

    def allocatable(self, queue: QueueInfo, task: TaskInfo) -> bool:
        """Return whether the queue may allocate what a task requests."""

    def predicate(self, task: TaskInfo, node: SessionNode) -> bool:
        """Return whether the node is feasible."""


class Registrations(Callbacks):
    """The ``add_...`` methods of a session. Each registers a function of the plugin that is being opened."""

    def __init__(self, conf: BatchConf) -> None:
        super().__init__(conf)
        # Handlers with the names of their plugins.
        self._reservations: list[tuple[str, Handler, Handler]] = []
        self._on_allocate: list[tuple[str, Handler]] = []
        self._on_deallocate: list[tuple[str, Handler]] = []

    def add_job_order(self, function: Callable[[JobInfo, JobInfo], int]) -> None:
        """Register an order of the jobs of a queue: negative if the left one comes first, 0 if they are equal."""
        self.register("job_order", function)

    def add_queue_order(self, function: Callable[[QueueInfo, QueueInfo], int]) -> None:
        """Register an order of queues: negative if the left one comes first, 0 if they are equal."""
        self.register("queue_order", function)

    def add_victim_queue_order(self, function: Callable[[QueueInfo, QueueInfo, QueueInfo], int]) -> None:
        """Register an order of the queues whose tasks may be evicted, given the queue that needs room."""
        self.register("victim_queue_order", function)

    def add_task_order(self, function: Callable[[TaskInfo, TaskInfo], int]) -> None:
        """Register an order of the tasks of a job: negative if the left one comes first, 0 if they are equal."""
        self.register("task_order", function)

    def add_pre_predicate(self, function: Callable[[TaskInfo], str | None]) -> None:
        """Register a function that runs before the nodes of a task are evaluated.

        Text is an error: no node is feasible.
        """
        self.register("pre_predicate", function)

    @overload
    def add_predicate(
        self,
        function: Callable[[TaskInfo, SessionNode], Answer],
        *,
        columns: Literal[False] = False,
        depends: Dependence | None = None,
    ) -> None: ...
    @overload
    def add_predicate(
        self,
        function: Callable[[TaskInfo, SessionNodes], Verdicts | Filtered | None],
        *,
        columns: Literal[True],
        depends: Dependence | None = None,
    ) -> None: ...
    def add_predicate(
        self, function: Callable[..., Any], *, columns: bool = False, depends: Dependence | None = None
    ) -> None:
        """Register a predicate: ``function(task, node)`` returns None, a reason or a Status.

        With ``columns``, ``function(task, nodes)`` returns Verdicts, one per node, or None if all are feasible.
        ``depends`` declares that the result for a node depends on that node, the task's template and what
        ``depends(task)`` returns. It is then cached for further such tasks, and only changed nodes are evaluated again.
        """
        self.register("predicate", NodeCallback(function, columns, depends))

    @overload
    def add_node_order(
        self,
        function: Callable[[TaskInfo, SessionNode], Score],
        *,
        columns: Literal[False] = False,
        depends: Dependence | None = None,
    ) -> None: ...
    @overload
    def add_node_order(
        self,
        function: Callable[[TaskInfo, SessionNodes], NodeScores],
        *,
        columns: Literal[True],
        depends: Dependence | None = None,
    ) -> None: ...
    def add_node_order(
        self, function: Callable[..., Any], *, columns: bool = False, depends: Dependence | None = None
    ) -> None:
        """Register a scorer: ``function(task, node)`` returns a number, the higher the better.

        With ``columns``, ``function(task, nodes)`` returns an array with a number for each node.
        """
        self.register("node_order", NodeCallback(function, columns, depends))

    @overload
    def add_batch_node_order(
        self,
        function: Callable[[TaskInfo, SessionNodes], Mapping[str, float] | str | None],
        *,
        columns: Literal[False] = False,
        depends: Dependence | None = None,
    ) -> None: ...
    @overload
    def add_batch_node_order(
        self,
        function: Callable[[TaskInfo, SessionNodes], Floats | float | str],
        *,
        columns: Literal[True],
        depends: Dependence | None = None,
        live: bool = False,
    ) -> None: ...
    def add_batch_node_order(
        self,
        function: Callable[..., Any],
        *,
        columns: bool = False,
        depends: Dependence | None = None,
        live: bool = False,
    ) -> None:
        """Register a scorer of all candidates together: ``function(task, nodes)`` returns scores by node name.

        With ``columns``, it returns an array with a score for each node. Text is an error: the task is not placed.
        ``live`` scores change with every placement: they are computed for each task and added to cached ones.
        """
        self.register("batch_node_order", NodeCallback(function, columns, depends, live))

    def add_best_node(
        self, function: Callable[[TaskInfo, Mapping[float, list[SessionNode]]], SessionNode | None]
    ) -> None:
        """Register a function that chooses the node, given all candidates by score."""
        self.register("best_node", function)

    def add_preemptable(self, function: Callable[[TaskInfo, list[TaskInfo]], tuple[list[TaskInfo], int]]) -> None:
        """Register a function that returns the tasks that may be evicted for another task of their queue, and a vote.

        With the vote 1, the tasks that are not returned are protected; 0 means no opinion.
        """
        self.register("preemptable", function)

    def add_reclaimable(self, function: Callable[[TaskInfo, list[TaskInfo]], tuple[list[TaskInfo], int]]) -> None:
        """Register a function that returns the tasks that may be evicted for a task of another queue, and a vote."""
        self.register("reclaimable", function)

    def add_unified_evictable(
        self, function: Callable[[EvictionContext, list[TaskInfo]], tuple[list[TaskInfo], int]]
    ) -> None:
        """Register a function that returns the tasks that may be evicted for a gang, and a vote."""
        self.register("unified_evictable", function)

    def add_may_evict(self, function: MayEvict) -> None:
        """Register a function that returns whether a pod (the second argument) may be evicted for another (the first).

        It limits the victims of preempt, reclaim, gangpreempt and gangreclaim. A pod is not evicted if any such
        function returns False or fails. For a gang, the first argument is one of its pending pods.
        """
        self.register("may_evict", function)

    def add_overused(self, function: Callable[[QueueInfo], bool]) -> None:
        """Register a function that returns whether a queue exceeds its share."""
        self.register("overused", function)

    def add_preemptive(self, function: Callable[[QueueInfo, Sequence[TaskInfo]], bool]) -> None:
        """Register a function that returns whether a queue may reclaim resources for tasks."""
        self.register("preemptive", function)

    def add_allocatable(self, function: Callable[[QueueInfo, TaskInfo], bool]) -> None:
        """Register a function that returns whether a queue may allocate what a task requests."""
        self.register("allocatable", function)

    def add_job_ready(self, function: Callable[[JobInfo], bool]) -> None:
        """Register a function that returns whether a job has enough tasks to start."""
        self.register("job_ready", function)

    def add_job_pipelined(self, function: Callable[[JobInfo], int]) -> None:
        """Register a vote on whether a job has enough tasks, including pipelined ones: 1, 0 (no opinion) or -1."""
        self.register("job_pipelined", function)

    def add_job_enqueueable(self, function: Callable[[JobInfo], int]) -> None:
        """Register a vote on the admission of a job to its queue: 1, 0 (no opinion) or -1."""
        self.register("job_enqueueable", function)

    def add_job_enqueued(self, function: Callable[[JobInfo], None]) -> None:
        """Register a handler that is called with each job that was admitted to its queue."""
        self.register("job_enqueued", function)

    def add_job_starving(self, function: Callable[[JobInfo], bool]) -> None:
        """Register a function that returns whether a job needs more tasks."""
        self.register("job_starving", function)

    def add_job_valid(self, function: Callable[[JobInfo], Invalid | None]) -> None:
        """Register a function that returns why a job cannot be scheduled at all (an Invalid), or None."""
        self.register("job_valid", function)

    def add_sub_job_order(self, function: Callable[[SubJob, SubJob], int]) -> None:
        """Register an order of the parts of a job: negative if the left one comes first, 0 if they are equal."""
        self.register("sub_job_order", function)

    def add_sub_job_ready(self, function: Callable[[SubJob], bool]) -> None:
        """Register a function that returns whether a part of a job has enough tasks to start."""
        self.register("sub_job_ready", function)

    def add_sub_job_pipelined(self, function: Callable[[SubJob], int]) -> None:
        """Register a vote on whether a part of a job has enough tasks, including pipelined ones: 1, 0 or -1."""
        self.register("sub_job_pipelined", function)

    def add_hyper_node_order(self, function: Callable[[SubJob, Sequence[Domain]], Floats]) -> None:
        """Register a scorer of domains: it returns a number for each, the higher the better."""
        self.register("hyper_node_order", function)

    def add_hyper_node_gradient(self, function: Gradient) -> None:
        """Register a function that returns the domains for a job, or for a part of it, within another domain.

        They are in groups, of which the first one with a domain that has room is used. The first plugin decides.
        """
        self.register("hyper_node_gradient", function)

    def add_victim_tasks(self, function: Callable[[list[TaskInfo]], list[TaskInfo]]) -> None:
        """Register a function that returns running tasks to evict unconditionally."""
        self.register("victim_tasks", function)

    def add_simulation(self, function: Callable[[TaskInfo], Simulation]) -> None:
        """Register a function that returns a Simulation for a preemptor, for dry runs of preemption."""
        self.register("simulation", function)

    def add_event_handler(self, allocate: Handler | None = None, deallocate: Handler | None = None) -> None:
        """Register handlers that are called with tasks that are allocated or pipelined, and deallocated.

        Text is an error.
        """
        if allocate is not None:
            self._on_allocate.append((self.opening, self.guarded("allocate_handler", allocate)))
        if deallocate is not None:
            self._on_deallocate.append((self.opening, self.guarded("deallocate_handler", deallocate)))

    def add_reservation(self, reserve: Handler, unreserve: Handler) -> None:
        """Register handlers that reserve volumes before a task is added to the table, and release them on removal.

        Text is an error: the task is not added to the table, so kube-scheduler's filters do not see it.
        """
        guarded = self.guarded("reservation", reserve), self.guarded("reservation", unreserve)
        self._reservations.append((self.opening, *guarded))

    def unregister(self, plugin: str) -> None:
        """Remove all callbacks and handlers of a plugin."""
        super().unregister(plugin)
        self._reservations = [each for each in self._reservations if each[0] != plugin]
        self._on_allocate = [each for each in self._on_allocate if each[0] != plugin]
        self._on_deallocate = [each for each in self._on_deallocate if each[0] != plugin]
