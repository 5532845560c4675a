"""Nodes of a session: amounts by status, in rows and in columns."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.batch.session_nodes import SessionNodes
from tests.batch.cases import conf, gang, node, running, session_of, tasks_of


@pytest.mark.parametrize(
    ("status", "idle", "used", "releasing", "future"),
    [
        ("Allocated", 2, 2, 0, 2),
        ("Binding", 2, 2, 0, 2),
        ("Running", 2, 2, 0, 2),
        ("Pipelined", 3, 1, 0, 2),
        ("Releasing", 2, 2, 1, 3),
    ],
)
def test_amounts_by_status(status: str, idle: int, used: int, releasing: int, future: int) -> None:
    """Four cores, one in use; a task of one core is added and removed."""
    session = session_of(conf(("gang",)), node("a", "4"), running("old", ["a"]), gang("g", 1))
    own, task = session.nodes["a"], tasks_of(session)["g-task-0"]
    task.status = status  # type: ignore[assignment]
    assert own.add(task) == ""
    found = [each.cpu / 1000 for each in (own.idle, own.used, own.releasing, own.future_idle)]
    assert found == [idle, used, releasing, future]
    assert own.add(task) == "task <default/g-task-0> already on node <a>"
    own.remove(task)
    assert [each.cpu / 1000 for each in (own.idle, own.used, own.future_idle)] == [3, 1, 3]
    assert "default/g-task-0" not in own.tasks


def test_a_task_is_on_one_node_only() -> None:
    session = session_of(conf(("gang",)), node("a"), node("b"), gang("g", 1))
    task = tasks_of(session)["g-task-0"]
    session.nodes["a"].add(task)
    assert session.nodes["b"].add(task) == "task <default/g-task-0> already on different node <a>"


def test_columns() -> None:
    nodes = [node("a", "4"), node("b", "2", **{"nvidia.com/gpu": "1"})]
    session = session_of(conf(("gang",)), *nodes, running("old", ["a"]))
    all_nodes, last = SessionNodes(session), SessionNodes(session, np.array([1]))
    assert (len(all_nodes), all_nodes.names, last.names) == (2, ["a", "b"], ["b"])
    assert all_nodes.allocatable("cpu").tolist() == [4000, 2000]
    assert all_nodes.used("cpu").tolist() == [1000, 0]
    assert all_nodes.idle("cpu").tolist() == [3000, 2000]
    assert last.future_idle("cpu").tolist() == [2000]
    assert all_nodes.allocatable("nvidia.com/gpu").tolist() == [0, 1000]
    assert all_nodes.idle("example.com/none").tolist() == [0, 0]
    assert [each.name for each in last.kube] == ["b"]


def test_pods_of_other_schedulers_count() -> None:
    other = running("x", ["a"])[1]
    other["spec"]["schedulerName"] = "default-scheduler"
    other["metadata"]["annotations"] = {}
    session = session_of(conf(("gang",)), node("a", "4"), other)
    assert session.nodes["a"].used.cpu == 1000
    assert list(session.nodes["a"].tasks) == ["default/x-task-0"]
