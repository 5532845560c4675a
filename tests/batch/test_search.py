"""Search: feasible nodes, reasons for the others, and the choice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.batch.search import ErrorCache, best_node, best_with_room, find_nodes, nowhere, pre_predicate
from mooring.batch.session import Session
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts
from tests.batch.cases import conf, gang, node, running, session_of, tasks_of


def world(*objects: Any) -> Session:
    nodes = [node("small", "1"), node("medium", "2"), node("large", "4")]
    session = session_of(conf(("gang",)), *nodes, gang("g", 2, cpu="2"), *objects)
    session.opening = "gang"
    return session


def found(
    session: Session, mode: Any = "allocate", cache: ErrorCache | None = None, **more: Any
) -> tuple[list[str], str]:
    task = tasks_of(session)["g-task-0"]
    result = find_nodes(session, task, mode, cache or ErrorCache(enabled=False), **more)
    return [session.node_list[row].name for row in result.rows.tolist()], result.errors.text()


LARGE_ONLY = Status.unschedulable("too small")
NEVER = Status.unresolvable("never")


@pytest.mark.parametrize(
    ("mode", "names", "text"),
    [
        ("allocate", ["medium", "large"], "0/1 nodes are unavailable: 1 Insufficient cpu."),
        ("simulate", ["medium", "large"], "0/1 nodes are unavailable: 1 Insufficient cpu."),
        ("backfill", ["small", "medium", "large"], "0/0 nodes are unavailable"),
        ("evict", ["small", "medium", "large"], "0/0 nodes are unavailable"),
    ],
)
def test_room_counts_by_mode(mode: str, names: list[str], text: str) -> None:
    assert found(world(), mode) == (names, text)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize(
    ("mode", "status", "names"),
    [
        ("backfill", LARGE_ONLY, ["large"]),
        ("evict", LARGE_ONLY, ["small", "medium", "large"]),
        ("evict", NEVER, ["large"]),
        ("evict", Status.error("broken"), ["large"]),
        ("simulate", LARGE_ONLY, ["medium", "large"]),
    ],
)
def test_evictions_may_cure_what_is_merely_unschedulable(
    columns: bool, mode: str, status: Status, names: list[str]
) -> None:
    session = world()
    one = lambda task, node: None if node.name == "large" else status  # noqa: E731
    every = lambda task, nodes: Verdicts.of([one(task, each) for each in nodes])  # noqa: E731
    session.add_predicate(every if columns else one, columns=columns)
    assert found(session, mode)[0] == names


def test_the_first_predicate_that_rejects_a_node_gives_the_reason() -> None:
    session = world()
    session.add_predicate(lambda task, node: "first" if node.name != "large" else None)
    session.opening = "second"
    asked: list[str] = []
    session.add_predicate(lambda task, node: asked.append(node.name) or "second")
    session.opening = "gang"
    assert found(session, "backfill")[1] == "0/2 nodes are unavailable: 2 first."
    assert asked == [], "the plugin is in no tier"


def test_allowed_nodes_restrict_the_search() -> None:
    session = world()
    only = np.array([False, True, False])
    assert found(session, "allocate", allowed=only) == (["medium"], "0/0 nodes are unavailable")


@pytest.mark.parametrize(("role", "enabled", "calls"), [("w", True, 3), ("w", False, 6), ("", True, 6)])
def test_nodes_that_failed_for_a_role_are_not_evaluated_again(role: str, enabled: bool, calls: int) -> None:
    session = world()
    task, cache = tasks_of(session)["g-task-0"], ErrorCache(enabled=enabled)
    task.role = role
    asked: list[str] = []

    def predicate(task: Any, node: Any) -> str:
        asked.append(node.name)
        return "no"

    session.add_predicate(predicate)
    texts = [find_nodes(session, task, "backfill", cache).errors.text() for _ in range(2)]
    assert texts == ["0/3 nodes are unavailable: 3 no."] * 2
    assert len(asked) == calls


def test_the_best_score_wins_and_a_single_candidate_is_not_scored() -> None:
    session = world()
    task = tasks_of(session)["g-task-0"]
    scored: list[str] = []
    session.add_node_order(lambda task, node: scored.append(node.name) or float(node.name == "medium"))
    chosen = best_node(session, task, np.array([0, 1, 2]))
    assert chosen is not None
    assert (chosen.name, scored) == ("medium", ["small", "medium", "large"])
    scored.clear()
    single = best_node(session, task, np.array([0]))
    assert single is not None
    assert (single.name, scored) == ("small", [])
    assert best_node(session, task, np.array([], dtype=np.intp)) is None


def test_a_chooser_sees_all_candidates_by_score() -> None:
    session = world()
    seen: dict[float, list[str]] = {}

    def choose(task: Any, by_score: Any) -> Any:
        seen.update({score: [each.name for each in nodes] for score, nodes in by_score.items()})
        return by_score[0.0][0]

    session.add_node_order(lambda task, node: float(node.name == "large"))
    session.add_best_node(choose)
    chosen = best_node(session, tasks_of(session)["g-task-0"], np.array([0, 1, 2]))
    assert chosen is not None
    assert chosen.name == "small"
    assert seen == {0.0: ["small", "medium"], 1.0: ["large"]}


def test_a_failed_batch_scorer_leaves_no_choice() -> None:
    session = world()
    session.add_batch_node_order(lambda task, nodes: "broken")
    assert best_node(session, tasks_of(session)["g-task-0"], np.array([0, 1])) is None


def test_room_now_goes_before_room_later() -> None:
    leaving = running("old", ["large"], cpu="3")
    leaving[1]["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    session = world(leaving)
    session.add_node_order(lambda task, node: float(node.name == "large"))
    task = tasks_of(session)["g-task-0"]
    chosen = best_with_room(session, task, np.array([1, 2]))
    assert chosen is not None
    assert chosen.name == "medium"
    later = best_with_room(session, task, np.array([2]))
    assert later is not None
    assert later.name == "large"


def test_errors_before_the_search() -> None:
    session = world()
    assert pre_predicate(session, tasks_of(session)["g-task-0"]) == ""
    session.add_pre_predicate(lambda task: "not ready")
    assert pre_predicate(session, tasks_of(session)["g-task-0"]) == "not ready"
    assert nowhere(session, "bad").text() == "0/3 nodes are unavailable: 3 bad."
    assert nowhere(session, "bad").unresolvable() is None


@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("mode", ["allocate", "backfill"])
def test_groups_are_the_verdicts_by_row(mode: Any, by_row: bool) -> None:
    session = world(*(node(f"n{row}", str(1 + row % 3), memory=("1Gi", "8Gi")[row % 2]) for row in range(12)))
    by_code = Verdicts.of([Status.unschedulable(f"code {row % 2}") if row % 4 else None for row in range(15)])
    if by_row:
        session.add_predicate(lambda _task, each: f"no {each.name}" if each.row < 9 else None)
    else:
        session.add_predicate(lambda _task, _nodes: by_code, columns=True)
    errors = find_nodes(session, tasks_of(session)["g-task-0"], mode, ErrorCache(enabled=False)).errors
    expanded = {row: verdict for verdict, rows in errors.groups() for row in rows.tolist()}
    assert expanded == dict(errors.verdicts())
    assert len(expanded) >= 9
