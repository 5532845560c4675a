"""allocate: gangs are placed whole, queues take turns, and nominated nodes come first."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from mooring.batch.actions.allocate import allocate, placeable
from mooring.batch.run import run_actions
from tests.batch.cases import (
    conf,
    decide,
    gang,
    group,
    job,
    jobs_of,
    node,
    pod,
    queue,
    running,
    session_of,
    task,
    tasks_of,
)

TEXT = conf(("gang",), ("predicates", "proportion"))


def bound(*objects: Any, text: str = TEXT) -> Counter[str]:
    return Counter(key.split("/")[1].rsplit("-", 2)[0] for key in decide(text, *objects)["bound"])


@pytest.mark.parametrize(
    ("cores", "pods", "least", "expected"),
    [("4", 4, 4, 4), ("3", 4, 4, 0), ("3", 4, 2, 3), ("3", 4, 3, 3), ("0", 1, 1, 0)],
)
def test_at_least_the_minimum_or_nothing(cores: str, pods: int, least: int, expected: int) -> None:
    assert bound(node("a", cores), gang("g", pods, least))["g"] == expected


def test_a_gang_that_does_not_fit_leaves_its_room_to_others() -> None:
    assert bound(node("a", "3"), gang("big", 4), gang("small", 2)) == {"small": 2}


def test_extra_tasks_get_one_place_a_turn() -> None:
    """Six cores for two jobs of one queue that need one task each and want six."""
    text = conf(("gang", "drf"), ("predicates", "proportion"))
    assert bound(node("a", "6"), gang("x", 6, 1), gang("y", 6, 1), text=text) == {"x": 3, "y": 3}


def test_pending_groups_wait_for_enqueue_unless_it_is_not_configured() -> None:
    session = session_of(conf(("gang", "predicates"), actions="enqueue, allocate"), node("a"), gang("g", 1))
    assert list(allocate(session)) == []
    assert session.bindings == []
    session = session_of(conf(("gang", "predicates"), actions="allocate"), node("a"), gang("g", 1))
    run_actions(session)
    assert len(session.bindings) == 1


def test_a_pipelined_gang_holds_its_room_but_is_not_bound() -> None:
    leaving = running("old", ["a", "a"])
    for each in leaving[1:]:
        each["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    answer = decide(TEXT, node("a", "2"), leaving, gang("first", 2), gang("second", 2))
    assert answer["bound"] == {}
    assert sorted(answer["pipelined"]) == ["default/first-task-0", "default/first-task-1"]


def test_a_nominated_node_comes_first() -> None:
    made = gang("g", 1)
    made[1]["status"]["nominatedNodeName"] = "b"
    answer = decide(conf(("gang",), ("predicates", "binpack")), node("a", "2"), node("b", "8"), made)
    assert answer["bound"] == {"default/g-task-0": "b"}
    full = running("old", ["b"] * 8)
    answer = decide(conf(("gang",), ("predicates", "binpack")), node("a", "2"), node("b", "8"), full, made)
    assert answer["bound"] == {"default/g-task-0": "a"}


def test_overused_queues_get_nothing_more() -> None:
    objects = [node("a", "4"), queue("p"), queue("q"), running("old", ["a", "a"], queue="p"), gang("x", 1, queue="p")]
    assert bound(*objects, gang("y", 2, queue="q")) == {"y": 2}


def test_a_role_that_failed_is_not_tried_again() -> None:
    pods = [pod(f"g-big-{number}", "g", cpu="9") for number in range(2)] + [pod("g-small-0", "g")]
    for each in pods:
        each["metadata"]["annotations"]["volcano.sh/task-spec"] = each["metadata"]["name"].split("-")[1]
    session = session_of(conf(("gang",), ("predicates",)), node("a", "4"), group("g", 1), *pods)
    run_actions(session)
    assert [each.name for each in session.bindings] == ["g-small-0"]
    one, tasks = jobs_of(session)["g"], tasks_of(session)
    assert one.fit_errors[tasks["g-big-0"].uid].text() == "0/1 nodes are unavailable: 1 Insufficient cpu."
    text = "Task g-big-1 with role spec big has already predicated failed, skip"
    assert one.fit_errors[tasks["g-big-1"].uid].text() == text


def test_best_effort_and_gated_tasks_are_left_out() -> None:
    gate = "scheduling.volcano.sh/queue-allocation-gate"
    tasks = [
        task("plain"), task("empty", cpu=""), task("gated", schedulingGates=[{"name": "mine"}]),
        task("queue-gated", schedulingGates=[{"name": gate}]), task("running", on="a"),
    ]  # fmt: skip
    assert [each.name for each in placeable(job(1, *tasks))] == ["plain", "queue-gated"]
