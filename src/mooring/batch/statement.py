"""Statement: operations on a session that take effect together or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from mooring.batch.task import ALLOCATED, BINDING, PENDING, PIPELINED, RELEASING, RUNNING, TaskInfo

if TYPE_CHECKING:
    from mooring.batch.session import Session


class Operation(NamedTuple):
    """One step."""

    kind: Literal["evict", "pipeline", "allocate"]
    task: TaskInfo
    reason: str = ""


class SavedOperation(NamedTuple):
    """One step with where it went, to be done again later."""

    kind: Literal["evict", "pipeline", "allocate"]
    task: TaskInfo
    node_name: str
    evicted: bool
    reason: str


class Statement:
    """Applies operations to the session at once, and remembers them until ``commit`` or ``discard``."""

    __slots__ = ("_session", "operations")

    def __init__(self, session: Session) -> None:
        self._session = session
        self.operations: list[Operation] = []

    def evict(self, task: TaskInfo, reason: str) -> None:
        """Count a task as leaving its node."""
        self._session.move(task, RELEASING)
        self._session.fire_deallocate(task)
        self.operations.append(Operation("evict", task, reason))

    def pipeline(self, task: TaskInfo, node_name: str, *, evicted: bool) -> str:
        """Promise a task a place on a node; the answer says what went wrong, if anything (then nothing changed)."""
        task.evicted = evicted
        error = self._session.place(task, PIPELINED, node_name)
        if error:
            self._session.unplace(task)
            return error
        self.operations.append(Operation("pipeline", task))
        return ""

    def allocate(self, task: TaskInfo, node_name: str) -> str:
        """Give a task a place on a node; the answer says what went wrong, if anything (then nothing changed)."""
        error = self._session.place(task, ALLOCATED, node_name)
        if error:
            self._session.unplace(task)
            return error
        self.operations.append(Operation("allocate", task))
        return ""

    def discard(self) -> None:
        """Take everything back, last things first."""
        session = self._session
        for operation in reversed(self.operations):
            operation.task.remember()
            if operation.kind == "evict":
                # A task that was bound but not running yet counts as running from now on: Volcano's way.
                session.move(operation.task, RUNNING)
                session.fire_allocate(operation.task)
            else:
                session.unplace(operation.task)
        self.operations = []

    def commit(self) -> None:
        """Hand evictions and bindings over; promises stay within the session."""
        session = self._session
        for operation in self.operations:
            operation.task.last = None
            if operation.kind == "evict":
                session.evictions.append((operation.task, operation.reason))
            elif operation.kind == "allocate":
                session.dispatch(operation.task)
        self.operations = []

    def merge(self, other: Statement) -> None:
        """Take over the operations of another statement."""
        self.operations += other.operations
        other.operations = []

    def recover(self, saved: list[SavedOperation]) -> str:
        """Do saved operations again; the answer says what went wrong, if anything."""
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
    """The operations of some statements, as they can be recovered after a discard."""
    return [
        SavedOperation(op.kind, op.task, op.task.node_name, op.task.evicted, op.reason)
        for statement in statements
        for op in statement.operations
    ]


__all__ = ["BINDING", "PENDING", "Operation", "SavedOperation", "Statement", "save"]
