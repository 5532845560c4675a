"""Snapshot: a copy of a cluster in memory that answers questions about pods, with nested transactions.

A question is decided with the same plugins as a live decision. Autoscalers and quota managers try something, keep it or
roll it back, as with the snapshots of cluster-autoscaler.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework.state import CycleState
from mooring.loading import Setup
from mooring.scheduler.answers import PluginFailure
from mooring.scheduler.attempt_results import ScheduleFailure
from mooring.scheduler.engine import Engine
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.schedule_pod import evaluate_pod, schedule_pod
from mooring.simulation.cases import CaseError, object_of, pod_of
from mooring.simulation.sources import InputError

_replace = msgspec.structs.replace
#: Limits of one request and of nesting.
MAX_STEPS: Final = 10_000
_MAX_DEPTH: Final = 64
_MAX_COPIES: Final = 10_000
_NAMES: Final = 20


class _Step(msgspec.Struct, frozen=True, rename="camel", tag_field="op", kw_only=True, forbid_unknown_fields=True):
    """Base of the steps of a request."""


class Schedule(_Step, frozen=True, tag="schedule"):
    """Place copies of a pod, one after the other, until one does not fit. They count for further questions."""

    pod: dict[str, Any]
    copies: int = 1


class Feasible(_Step, frozen=True, tag="feasible"):
    """Ask which nodes are feasible for a pod, without placing it."""

    pod: dict[str, Any]


class AddNode(_Step, frozen=True, tag="addNode"):
    """Add or replace a node."""

    node: dict[str, Any]


class RemoveNode(_Step, frozen=True, tag="removeNode"):
    """Remove a node with its pods."""

    name: str


class RemovePod(_Step, frozen=True, tag="removePod"):
    """Remove a pod (namespace/name) from its node."""

    pod: str


class Begin(_Step, frozen=True, tag="begin"):
    """Begin a transaction inside the current one."""


class Commit(_Step, frozen=True, tag="commit"):
    """Keep the changes of the innermost transaction."""


class Rollback(_Step, frozen=True, tag="rollback"):
    """Undo the changes of the innermost transaction."""


Step = Schedule | Feasible | AddNode | RemoveNode | RemovePod | Begin | Commit | Rollback


class Answer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The answer to one step."""

    #: The nodes of the placed copies, in order; of ``feasible`` the first few feasible nodes.
    nodes: list[str] = []
    #: The number of feasible nodes.
    feasible: int = 0
    #: Why the pod, or the next copy, has no node.
    message: str = ""


class Snapshot:
    """A cluster in memory. All methods raise InputError."""

    def __init__(self, objects: Iterable[KubeObject], setup: Setup, *, seed: int = 0) -> None:
        self._engine = Engine(setup.config, plugins=setup.plugins, rng=random.Random(seed))
        for item in objects:
            if not isinstance(item, Pod) or item.node_name:
                self._engine.put(item)
            else:
                self._engine.cache.put(item)  # only for its nomination
        self._table = self._engine.cache.table
        #: For each open transaction, how to undo its changes.
        self._undo: list[list[Callable[[], object]]] = []
        self._copies = 0

    @property
    def depth(self) -> int:
        """The number of open transactions."""
        return len(self._undo)

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self._table)

    @property
    def pods(self) -> int:
        """The number of pods on nodes."""
        return len(self._table.pods)

    def run(self, step: Step) -> Answer:
        """Run a step."""
        match step:
            case Schedule():
                return self.schedule(_pod(step.pod), copies=step.copies)
            case Feasible():
                return self.feasible(_pod(step.pod))
            case AddNode():
                self.add_node(_node(step.node))
            case RemoveNode():
                self.remove_node(step.name)
            case RemovePod():
                self.remove_pod(step.pod)
            case Begin():
                self.begin()
            case Commit():
                self.commit()
            case Rollback():
                self.rollback()
        return Answer()

    # Questions

    def schedule(self, pod: Pod, *, copies: int = 1) -> Answer:
        """Place copies of a pod until one does not fit."""
        if not 0 < copies <= _MAX_COPIES:
            raise InputError(f"copies: must be from 1 to {_MAX_COPIES}")
        runner = self._runner(pod)
        nodes: list[str] = []
        for _ in range(copies):
            outcome = schedule_pod(runner, pod)
            if isinstance(outcome, ScheduleFailure):
                return Answer(nodes=nodes, message=outcome.message)
            nodes.append(outcome.node_name)
            self._place(pod, outcome.node_name)
        return Answer(nodes=nodes)

    def feasible(self, pod: Pod) -> Answer:
        """Return the feasible nodes for a pod."""
        runner, state = self._runner(pod), CycleState()
        try:
            pre_filtered = runner.pre_filter(state, pod)
            if pre_filtered.status.is_success:
                among = runner.rows_of(pre_filtered.names)
                rows = runner.filter(state, pod, self._table.template(pod), among).rows
                count = len(self._table) if rows is None else len(rows)
                if count:
                    first = range(min(count, _NAMES)) if rows is None else rows[:_NAMES].tolist()
                    return Answer(nodes=[self._table.nodes[row].name for row in first], feasible=count)
        except PluginFailure as error:
            raise InputError(error.status.message) from None
        outcome, _ = evaluate_pod(runner, pod)  # for the reasons
        return Answer(message=outcome.message if isinstance(outcome, ScheduleFailure) else "")

    def _runner(self, pod: Pod) -> PluginRunner:
        runner = self._engine.profiles.runners.get(pod.scheduler_name)
        if runner is None:
            known = ", ".join(self._engine.profiles.runners)
            raise InputError(f"pod {pod.key}: there is no profile {pod.scheduler_name!r}; there are: {known}")
        return runner

    def _place(self, pod: Pod, node: str) -> None:
        self._copies += 1
        uid = f"what-if-{self._copies}"
        metadata = _replace(pod.metadata, uid=uid, name=f"{pod.name}-{self._copies}")
        made = _replace(pod, metadata=metadata, spec=_replace(pod.spec, node_name=node))
        self._table.add_pod(made)
        self._changed(lambda: self._table.remove_pod(uid))

    # Changes

    def add_node(self, node: Node) -> None:
        """Add or replace a node."""
        row = self._table.row_of.get(node.name)
        former = None if row is None else self._table.nodes[row].node
        self._table.add_node(node)
        self._changed(lambda: self._table.remove_node(node.name) if former is None else self._table.add_node(former))

    def remove_node(self, name: str) -> None:
        """Remove a node with its pods."""
        row = self._table.row_of.get(name)
        if row is None:
            raise InputError(f"there is no node {name!r}")
        info = self._table.nodes[row]
        for pod in [each.pod for each in info.pods]:
            self._remove(pod, name)
        node = info.node
        self._table.remove_node(name)
        self._changed(lambda: self._table.add_node(node))

    def remove_pod(self, key: str) -> None:
        """Remove a pod (namespace/name) from its node."""
        found = next((info for info in self._table.pods.values() if info.pod.key == key), None)
        if found is None or found.node is None:
            raise InputError(f"there is no pod {key!r} on a node")
        self._remove(found.pod, found.node.name)

    def _remove(self, pod: Pod, node: str) -> None:
        self._table.remove_pod(pod.uid)
        self._changed(lambda: self._table.add_pod(pod, node))

    # Transactions

    def begin(self) -> None:
        """Begin a transaction inside the current one."""
        if self.depth >= _MAX_DEPTH:
            raise InputError(f"there are {_MAX_DEPTH} transactions inside each other already; commit or roll back one")
        self._undo.append([])

    def commit(self) -> None:
        """Keep the changes of the innermost transaction, as part of the one around it."""
        done = self._innermost()
        if self._undo:
            self._undo[-1] += done

    def rollback(self) -> None:
        """Undo the changes of the innermost transaction."""
        for undo in reversed(self._innermost()):
            undo()

    def _innermost(self) -> list[Callable[[], object]]:
        if not self._undo:
            raise InputError("there is no transaction; begin one first")
        return self._undo.pop()

    def _changed(self, undo: Callable[[], object]) -> None:
        if self._undo:
            self._undo[-1].append(undo)


def _pod(raw: dict[str, Any]) -> Pod:
    try:
        return pod_of(raw, "pod")
    except CaseError as error:
        raise InputError(str(error)) from None


def _node(raw: dict[str, Any]) -> Node:
    try:
        item = object_of(raw, "node")
    except CaseError as error:
        raise InputError(str(error)) from None
    if not isinstance(item, Node):
        raise InputError("node: not a Node; give an object with kind: Node")
    return item
