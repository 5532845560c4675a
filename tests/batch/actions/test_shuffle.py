"""shuffle: plugins choose among running tasks."""

from __future__ import annotations

from typing import Any

from mooring.batch.actions.shuffle import shuffle
from tests.batch.cases import conf, gang, node, running, session_of


def test_chosen_tasks_are_evicted() -> None:
    session = session_of(conf(("gang",)), node("a"), running("old", ["a", "a"]), gang("new", 1))
    session.opening = "gang"
    given: list[str] = []

    def choose(tasks: list[Any]) -> list[Any]:
        given.extend(task.name for task in tasks)
        return tasks[:1]

    session.add_victim_tasks(choose)
    shuffle(session)
    assert given == ["old-task-0", "old-task-1"]
    assert [(task.name, task.status, reason) for task, reason in session.evictions] == [
        ("old-task-0", "Releasing", "shuffle")
    ]


def test_nothing_is_evicted_without_a_plugin() -> None:
    session = session_of(conf(("gang",)), node("a"), running("old", ["a"]))
    shuffle(session)
    assert session.evictions == []
