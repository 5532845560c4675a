"""Nodes of a session: tasks are read from the table when a plugin first needs them."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNodes
from mooring.batch.task import ALLOCATED, RELEASING
from tests.batch.cases import conf, gang, node, opened, pod, running


def session_with(*objects: object) -> Session:
    return opened(conf(), node("a", "8"), node("b", "8"), *objects)[1]


@pytest.mark.parametrize("read_first", [True, False], ids=["tasks read first", "tasks read last"])
def test_tasks_are_the_same_whether_they_are_read_before_or_after_a_change(read_first: bool) -> None:
    session = session_with(running("r", ["a", "a", "b"]), gang("g", 2))
    first = session.nodes["a"]
    victim = session.jobs["default/r"].tasks
    moved = next(task for task in victim.values() if task.name == "r-task-0")
    if read_first:
        assert list(first.tasks) == ["default/r-task-0", "default/r-task-1"]
    new = next(iter(session.jobs["default/g"].tasks.values()))
    assert session.place(new, ALLOCATED, "a") == ""
    session.move(moved, RELEASING)
    session.fire_deallocate(moved)
    assert list(first.tasks) == ["default/r-task-1", "default/g-task-0", "default/r-task-0"]
    assert first.tasks["default/r-task-0"] is moved
    session.unplace(new)
    assert "default/g-task-0" not in first.tasks
    assert (first.used.cpu, first.releasing.cpu) == (2000, 1000)


def test_a_pod_of_another_scheduler_is_a_task_of_its_node() -> None:
    other = pod("other", "", on="a", cpu="3")
    other["spec"]["schedulerName"] = "default-scheduler"
    session = session_with(other)
    (task,) = session.nodes["a"].tasks.values()
    assert (task.key, task.job, task.status, task.node_name) == ("default/other", "", "Running", "a")
    assert session.nodes["a"].tasks["default/other"] is task
    assert session.nodes["a"].idle.cpu == 5000


def test_a_task_is_not_added_twice() -> None:
    session = session_with(gang("g", 1))
    task = next(iter(session.jobs["default/g"].tasks.values()))
    assert session.nodes["a"].add(task) == ""
    assert session.nodes["a"].add(task) == "task <default/g-task-0> already on node <a>"
    assert session.nodes["b"].add(task) == "task <default/g-task-0> already on different node <a>"
    session.nodes["a"].remove(task)
    session.nodes["a"].remove(task)
    assert session.nodes["a"].used.cpu == 0


def test_columns_follow_the_chosen_rows() -> None:
    session = session_with(pod("p", "", on="b", cpu="3"))
    nodes = SessionNodes(session)
    assert (nodes.names, nodes.idle("cpu").tolist()) == (["a", "b"], [8000, 5000])
    second = SessionNodes(session, np.array([1]))
    assert (second.names, second.used("cpu").tolist(), len(second)) == (["b"], [3000], 1)
    assert nodes.allocatable("no/such").tolist() == [0, 0]


def test_nodes_are_created_once_and_found_by_row_and_by_name() -> None:
    session = session_with(node("b", cpu="4"), node("a", cpu="4"))
    nodes = session.node_list
    assert [each.name for each in nodes] == ["a", "b"] == list(session.nodes)
    assert nodes[1] is nodes[-1] is nodes[:][1] is session.nodes["b"]
    assert (len(nodes), len(session.nodes), "c" in session.nodes, session.nodes.get("c")) == (2, 2, False, None)
    with pytest.raises(IndexError):
        _ = nodes[2]
