"""numa-aware: places Guaranteed pods on nodes whose topology manager admits them, and counts the CPUs that they get.

Pods of other classes cost nothing. Nodes with the same CPUs of which the same are free share one evaluation, and
verdicts are kept by request: after a placement only the nodes that changed are evaluated again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.numa_topology import NUMA_POLICY
from mooring.api.pod import Pod
from mooring.api.quantity import parse_quantity
from mooring.api.resources import qos_class
from mooring.batch.cpu_assignment import Assignment, assign
from mooring.batch.cpu_topology import CpuTopology
from mooring.batch.numa_records import NumaView
from mooring.batch.plugin import BatchPlugin
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNodes
from mooring.batch.task import BINDING, PENDING, TaskInfo
from mooring.batch.unsupported_requests import NOT_SUPPORTED, NUMA_PLUGIN, numa_policy
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
_UNASSIGNED: Final = Assignment()
_NOT_GUARANTEED: Final = (
    f"the annotation {NUMA_POLICY} has no effect on pods that are not Guaranteed (limits equal to requests for cpu and "
    "memory in every container)"
)


class _Request(NamedTuple):
    """What a Guaranteed pod requests: a policy (empty: none), and CPUs by container."""

    policy: str
    containers: tuple[str, ...]
    cpus: tuple[int, ...]


class NumaAware(BatchPlugin):
    """Rejects nodes whose topology manager would reject the pod, and prefers few NUMA nodes."""

    name = NUMA_PLUGIN

    def on_session_open(self, session: Session) -> None:
        """Read the topologies, if a Guaranteed pod waits, and register callbacks."""
        self._session = session
        self._weight = self.arguments.integer("weight", 1)
        self._requests: dict[tuple[object, str, str], _Request | None] = {}
        self._views: dict[str, NumaView] = session.numa.views(session.memory.get(self.name, {}))
        self._assigned: dict[str, tuple[TaskInfo, int, int]] = {}
        requests = set(self._waiting(session))
        if not any(request.policy for request in requests) and not (requests and self._views):
            return
        self._states = _States(session, self._views)
        self._kept: dict[_Request, _Kept] = {}
        session.add_predicate(self._judge, columns=True, depends=self._request)
        if any(request.policy for request in requests):
            session.add_batch_node_order(self._score, columns=True, depends=self._request, live=True)
        session.add_event_handler(self._assign, self._release)

    def _waiting(self, session: Session) -> Iterator[_Request]:
        """Yield the requests of pending tasks; a policy of a pod that is not Guaranteed is reported."""
        for job in session.jobs.values():
            ignored = False
            for task in job.of_status(PENDING):
                request = self._request(task)
                if request is not None:
                    yield request
                elif not ignored and numa_policy(task.pod):
                    ignored = True
                    session.job_warnings.append((job, NOT_SUPPORTED, _NOT_GUARANTEED))

    def _request(self, task: TaskInfo) -> _Request | None:
        """Return what a task requests; None if it is not Guaranteed."""
        pod = task.pod
        policy = numa_policy(pod)
        key = self._session.table.template(pod), pod.status.qos_class, policy
        if key not in self._requests:
            self._requests[key] = _request_of(pod, policy)
        return self._requests[key]

    def _judge(self, task: TaskInfo, nodes: SessionNodes) -> Verdicts | None:
        request = self._request(task)
        if request is None:
            return None
        kept = self._verdicts(request)
        return Verdicts(kept.codes if nodes.rows is None else kept.codes[nodes.rows], kept.status)

    def _score(self, task: TaskInfo, nodes: SessionNodes) -> Floats | float:
        """Score nodes by the number of NUMA nodes on which the pod gets CPUs, relative to the worst candidate."""
        request = self._request(task)
        if request is None or not request.policy:
            return 0.0
        counts = self._verdicts(request).counts
        if nodes.rows is not None:
            counts = counts[nodes.rows]
        worst = int(counts.max(initial=0))
        if worst == 0:
            return 100.0 * self._weight
        return (100 - 100 * counts // worst).astype(np.float64) * self._weight

    def _verdicts(self, request: _Request) -> _Kept:
        kept = self._kept.get(request)
        if kept is None:
            kept = self._kept[request] = _Kept(request, self._states)
        kept.refresh()
        return kept

    def _assign(self, task: TaskInfo) -> None:
        """Take the CPUs of a task that is placed; pods that have a node keep what they have."""
        request = None if task.pod.node_name else self._request(task)
        row = self._session.table.row_of.get(task.node_name)
        if request is None or row is None:
            return
        kept = self._verdicts(request)
        cpus = kept.assignment(self._states.of_row[row]).cpus
        if kept.codes[row] == 0 and cpus:
            self._assigned[task.uid] = (task, row, cpus)
            self._states.take(row, cpus)

    def _release(self, task: TaskInfo) -> None:
        _, row, cpus = self._assigned.pop(task.uid, (task, -1, 0))
        if cpus:
            self._states.give_back(row, cpus)

    def on_session_close(self, session: Session) -> None:
        """Remember the CPUs of bound pods until the node reports them; pipelined pods get theirs when bound."""
        views = dict(self._views)
        for task, _, cpus in self._assigned.values():
            view = views.get(task.node_name)
            if task.status == BINDING and view is not None and view.free is not None:
                views[task.node_name] = view._replace(free=view.free & ~cpus)
        session.memory[self.name] = views


def _request_of(pod: Pod, policy: str) -> _Request | None:
    if (pod.status.qos_class or qos_class(pod)) != "Guaranteed":
        return None
    containers = pod.spec.containers
    return _Request(
        policy,
        tuple(container.name for container in containers),
        tuple(_whole_cpus(container.resources.requests) for container in containers),
    )


def _whole_cpus(requests: Any) -> int:
    """Return the number of CPUs that a container gets exclusively: none if it is not a whole number."""
    milli = parse_quantity(requests["cpu"]).scaled(-3) if requests and "cpu" in requests else 0
    return 0 if milli % 1000 else int(milli // 1000)


class _States:
    """The states of nodes: a topology and its free CPUs. Nodes in the same state share a number; 0 is no topology."""

    def __init__(self, session: Session, views: dict[str, NumaView]) -> None:
        self._numbers: dict[tuple[CpuTopology, int | None], int] = {}
        self.states: list[tuple[CpuTopology, int | None] | None] = [None]
        #: The state of each row.
        self.of_row: Codes = np.zeros(len(session.node_list), dtype=np.int32)
        #: The rows whose state changed, in order.
        self.changed: list[int] = []
        row_of = session.table.row_of
        for name, view in views.items():
            row = row_of.get(name)
            if row is not None:
                self.of_row[row] = self._number((view.topology, view.free))

    def _number(self, state: tuple[CpuTopology, int | None]) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self.states)
            self.states.append(state)
        return number

    def take(self, row: int, cpus: int) -> None:
        """Take CPUs of a row."""
        self._set(row, lambda free: free & ~cpus)

    def give_back(self, row: int, cpus: int) -> None:
        """Return CPUs to a row."""
        self._set(row, lambda free: free | cpus)

    def _set(self, row: int, change: Any) -> None:
        state = self.states[self.of_row[row]]
        if state is not None and state[1] is not None:
            self.of_row[row] = self._number((state[0], change(state[1])))
            self.changed.append(row)


class _Kept:
    """The verdicts on all nodes and the numbers of NUMA nodes, for equal requests."""

    def __init__(self, request: _Request, states: _States) -> None:
        self._request = request
        self._states = states
        self._position = len(states.changed)
        self._codes: dict[tuple[str, ...], int] = {}
        self._statuses: list[Status] = []
        #: State -> its code and assignment.
        self._results: dict[int, tuple[int, Assignment]] = {}
        used, place = np.unique(states.of_row, return_inverse=True)
        results = [self._result(state) for state in used.tolist()]
        self.codes: Codes = np.array([code for code, _ in results], dtype=np.int32)[place]
        self.counts = np.array([found.numa_count for _, found in results], dtype=np.int64)[place]

    def refresh(self) -> None:
        """Evaluate the rows that changed."""
        changed = self._states.changed
        for row in changed[self._position :]:
            self.codes[row], found = self._result(int(self._states.of_row[row]))
            self.counts[row] = found.numa_count
        self._position = len(changed)

    def assignment(self, state: Any) -> Assignment:
        """Return the CPUs that the pod gets on a node in this state."""
        return self._result(int(state))[1]

    def status(self, code: int) -> Status:
        """Return the status of a code."""
        return self._statuses[code - 1]

    def _result(self, state: int) -> tuple[int, Assignment]:
        result = self._results.get(state)
        if result is None:
            result = self._results[state] = self._evaluate(self._states.states[state])
        return result

    def _evaluate(self, state: tuple[CpuTopology, int | None] | None) -> tuple[int, Assignment]:
        policy = self._request.policy
        reason = _mismatch(policy, state)
        if reason is not None:
            return (self._code(Status.error(reason)) if policy else 0), _UNASSIGNED
        assert state is not None, "without a topology there is a mismatch"
        found = assign(*state, self._request.cpus)
        if found.failed is None:
            return 0, found
        name = self._request.containers[found.failed]
        return self._code(Status.unresolvable(f"container {name} cannot be assigned by numa")), _UNASSIGNED

    def _code(self, status: Status) -> int:
        code = self._codes.get(status.reasons)
        if code is None:
            self._statuses.append(status)
            code = self._codes[status.reasons] = len(self._statuses)
        return code


def _mismatch(policy: str, state: tuple[CpuTopology, int | None] | None) -> str | None:
    """Return why a node does not assign CPUs to a pod with this policy; None if it does.

    For pods without a policy it means that the node assigns them no CPUs; for others, that it is infeasible.
    """
    if state is None:
        return "numa info is empty"
    topology, free = state
    if not topology.is_static:
        return "cpu manager policy isn't static"
    if not policy:
        return "no policy" if topology.policy in ("", "none") else None
    if policy != topology.policy:
        return f"task topology policy[{policy}] is different with node[{topology.policy}]"
    return None if free else "cpu allocatable map is empty"
