"""Operations take effect at once, and can be committed, rolled back, merged and replayed."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.session import Session
from mooring.batch.statement import save
from tests.batch.cases import conf, gang, node, running, session_of, tasks_of

TIERS = (("gang", "predicates", "proportion"),)


def world() -> Session:
    return session_of(conf(*TIERS), node("a", "4"), node("b", "4"), running("old", ["a", "a"]), gang("new", 2))


def amounts(session: Session, name: str) -> tuple[float, float, float, float]:
    """Idle, used, releasing and future CPU of a node."""
    own = session.nodes[name]
    return own.idle.cpu, own.used.cpu, own.releasing.cpu, own.future_idle.cpu


@pytest.mark.parametrize(
    ("operation", "status", "expected"),
    [
        (lambda s, t: s.allocate(t["new-task-0"], "a"), "Allocated", (1000, 3000, 0, 1000)),
        (lambda s, t: s.pipeline(t["new-task-0"], "a", evicted=False), "Pipelined", (2000, 2000, 0, 1000)),
        (lambda s, t: s.evict(t["old-task-0"], "test"), "Releasing", (2000, 2000, 1000, 3000)),
    ],
    ids=["allocate", "pipeline", "evict"],
)
def test_node_amounts_by_status(operation: Any, status: str, expected: tuple[float, ...]) -> None:
    """Future idle = idle + releasing - pipelined. Discarding restores everything."""
    session = world()
    tasks, statement = tasks_of(session), session.statement()
    before = amounts(session, "a")
    assert not operation(statement, tasks)
    assert status in {task.status for task in tasks.values()}
    assert amounts(session, "a") == expected
    statement.discard()
    assert amounts(session, "a") == before
    assert {task.status for task in tasks.values()} == {"Running", "Pending"}
    assert session.bindings == []
    assert session.evictions == []


def test_commit_hands_over_bindings_and_evictions_but_not_pipelined_tasks() -> None:
    session = world()
    tasks, statement = tasks_of(session), session.statement()
    statement.allocate(tasks["new-task-0"], "b")
    statement.evict(tasks["old-task-0"], "because")
    statement.pipeline(tasks["new-task-1"], "a", evicted=True)
    statement.commit()
    assert [task.name for task in session.bindings] == ["new-task-0"]
    assert [(task.name, reason) for task, reason in session.evictions] == [("old-task-0", "because")]
    assert [tasks[name].status for name in ("new-task-0", "old-task-0", "new-task-1")] == [
        "Binding", "Releasing", "Pipelined"
    ]  # fmt: skip
    statement.discard()
    assert tasks["new-task-0"].status == "Binding", "a committed statement has nothing to roll back"


def test_operations_are_undone_in_reverse_order() -> None:
    session = world()
    tasks, statement = tasks_of(session), session.statement()
    session.journal = []
    statement.allocate(tasks["new-task-0"], "a")
    statement.allocate(tasks["new-task-1"], "b")
    statement.discard()
    assert [line.split()[1] for line in session.journal[2:]] == ["default/new-task-1", "default/new-task-0"]


def test_an_evicted_task_that_was_bound_is_running_after_a_rollback() -> None:
    """As in Volcano."""
    old = running("old", ["a"])
    old[1]["status"]["phase"] = "Pending"
    session = session_of(conf(*TIERS), node("a"), old)
    (task,) = tasks_of(session).values()
    assert task.status == "Bound"
    statement = session.statement()
    statement.evict(task, "test")
    statement.discard()
    assert task.status == "Running"


def test_a_discarded_statement_is_remembered_for_messages() -> None:
    session = world()
    task, statement = tasks_of(session)["new-task-0"], session.statement()
    statement.pipeline(task, "a", evicted=True)
    statement.discard()
    assert task.outcome == ("Pipelined", "a", True)
    again = session.statement()
    again.allocate(task, "a")
    again.commit()
    assert task.last is None


@pytest.mark.parametrize("kind", ["allocate", "pipeline"])
def test_a_handler_s_error_undoes_the_operation_at_once(kind: str) -> None:
    session = world()
    task, statement = tasks_of(session)["new-task-0"], session.statement()
    seen: list[str] = []
    session.add_event_handler(lambda task: "no", lambda task: seen.append(task.name))
    before = amounts(session, "a")
    more = {"evicted": False} if kind == "pipeline" else {}
    assert getattr(statement, kind)(task, "a", **more) == "no"
    assert (task.status, task.node_name, statement.operations) == ("Pending", "", [])
    assert amounts(session, "a") == before
    assert seen == ["new-task-0"]


def test_a_node_that_does_not_exist_is_an_error() -> None:
    session = world()
    task = tasks_of(session)["new-task-0"]
    assert session.statement().allocate(task, "missing") == "there is no node missing"
    assert task.status == "Pending"


def test_merge_moves_operations() -> None:
    session = world()
    tasks = tasks_of(session)
    first, second = session.statement(), session.statement()
    first.allocate(tasks["new-task-0"], "a")
    second.allocate(tasks["new-task-1"], "b")
    first.merge(second)
    second.discard()
    assert tasks["new-task-1"].status == "Allocated"
    first.discard()
    assert tasks["new-task-1"].status == "Pending"


def test_saved_operations_can_be_replayed_after_a_rollback() -> None:
    session = world()
    tasks, statement = tasks_of(session), session.statement()
    statement.evict(tasks["old-task-0"], "because")
    statement.pipeline(tasks["new-task-0"], "a", evicted=True)
    during = amounts(session, "a")
    saved = save(statement)
    statement.discard()
    again = session.statement()
    assert again.recover(saved) == ""
    assert amounts(session, "a") == during
    again.commit()
    assert [reason for _, reason in session.evictions] == ["because"]


def test_handlers_see_every_change() -> None:
    session = world()
    task, statement = tasks_of(session)["new-task-0"], session.statement()
    seen: list[str] = []
    session.add_event_handler(lambda task: seen.append(f"+{task.status}"), lambda task: seen.append(f"-{task.status}"))
    statement.allocate(task, "a")
    statement.discard()
    old = tasks_of(session)["old-task-0"]
    statement.evict(old, "")
    statement.discard()
    assert seen == ["+Allocated", "-Pending", "-Releasing", "+Running"]
