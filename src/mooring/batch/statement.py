"""Statement: operations on a session that are committed or discarded together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from mooring.batch.task import ALLOCATED, PIPELINED, RELEASING, RUNNING, TaskInfo

if TYPE_CHECKING:
    from mooring.batch.session import Session


class Operation(NamedTuple):
    """One operation of a statement."""

    kind: Literal["evict", "pipeline", "allocate"]
    task: TaskInfo
    reason: str = ""


class SavedOperation(NamedTuple):
    """An operation with its node, to be repeated after a discard."""

    kind: Literal["evict", "pipeline", "allocate"]
    task: TaskInfo
    node_name: str
    evicted: bool
    reason: str


class Statement:
    """Applies operations to the session immediately, and records them until ``commit`` or ``discard``."""

    __slots__ = ("_session", "operations")

    def __init__(self, session: Session) -> None:
        self._session = session
        #: The operations so far, in order.
        self.operations: list[Operation] = []

    def evict(self, task: TaskInfo, reason: str) -> None:
        """Count a task as releasing."""
        self._session.move(task, RELEASING)
        self._session.fire_deallocate(task)
        self.operations.append(Operation("evict", task, reason))

    def pipeline(self, task: TaskInfo, node_name: str, *, evicted: bool) -> str:
        """Allocate resources that are being released. Return an error (then nothing changed), or "" on success."""
        task.evicted = evicted
        error = self._session.place(task, PIPELINED, node_name)
        if error:
            self._session.unplace(task)
            return error
        self.operations.append(Operation("pipeline", task))
        return ""

    def allocate(self, task: TaskInfo, node_name: str) -> str:
        """Allocate a task on a node. Return an error (then nothing changed), or "" on success."""
        error = self._session.place(task, ALLOCATED, node_name)
        if error:
            self._session.unplace(task)
            return error
        self.operations.append(Operation("allocate", task))
        return ""

    def discard(self) -> None:
        """Roll back all operations, the last one first."""
        session = self._session
        for operation in reversed(self.operations):
            operation.task.save_outcome()
            if operation.kind == "evict":
                # A task that was bound but not running yet counts as running from now on, as in Volcano.
                session.move(operation.task, RUNNING)
                session.fire_allocate(operation.task)
            else:
                session.unplace(operation.task)
        self.operations = []

    def commit(self) -> None:
        """Commit evictions and bindings; pipelined tasks stay within the session."""
        session = self._session
        for operation in self.operations:
            operation.task.last = None
            if operation.kind == "evict":
                session.evictions.append((operation.task, operation.reason))
            elif operation.kind == "allocate":
                session.dispatch(operation.task)
        self.operations = []

    def merge(self, other: Statement) -> None:
        """Move the operations of another statement to this one."""
        self.operations += other.operations
        other.operations = []

    def recover(self, saved: list[SavedOperation]) -> str:
        """Repeat saved operations. Return an error, or "" on success."""
        for operation in saved:
            if operation.kind == "evict":
                self.evict(operation.task, operation.reason)
                continue
            if operation.kind == "pipeline":
                error = self.pipeline(operation.task, operation.node_name, evicted=operation.evicted)
            else:
                error = self.allocate(operation.task, operation.node_name)
            if error:
                return error
        return ""


def save(*statements: Statement) -> list[SavedOperation]:
    """Return the operations of statements in a form that can be recovered after a discard."""
    return [
        SavedOperation(op.kind, op.task, op.task.node_name, op.task.evicted, op.reason)
        for statement in statements
        for op in statement.operations
    ]
