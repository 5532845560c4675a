"""backfill: best-effort tasks are placed regardless of queues."""

from __future__ import annotations

from tests.batch.cases import conf, decide, gang, node, queue, running

TEXT = conf(("gang",), ("predicates", "proportion"))


def test_best_effort_tasks_go_to_full_nodes() -> None:
    answer = decide(TEXT, node("a", "2"), running("old", ["a", "a"]), gang("g", 2, cpu=""))
    assert sorted(answer["bound"]) == ["default/g-task-0", "default/g-task-1"]


def test_a_gang_of_best_effort_tasks_starts_when_all_have_a_node() -> None:
    """Nodes are limited to three pods."""
    assert len(decide(TEXT, node("a", pods="3"), gang("g", 3, cpu=""))["bound"]) == 3


def test_the_pod_limit_counts() -> None:
    answer = decide(TEXT, node("a", pods="1"), running("old", ["a"]), gang("g", 1, cpu=""))
    assert answer["bound"] == {}


def test_queues_are_not_asked() -> None:
    objects = [node("a", "2"), queue("p", 1), queue("q", 9), running("old", ["a", "a"], queue="q")]
    assert len(decide(TEXT, *objects, gang("g", 1, queue="p", cpu=""))["bound"]) == 1
