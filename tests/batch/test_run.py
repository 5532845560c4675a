"""Phases and amounts at the end of a session."""

from __future__ import annotations

import pytest

from mooring.api.volcano import PodGroupCondition
from mooring.batch.resource import Resource
from mooring.batch.run import amounts, phase_of
from tests.batch.cases import conf, decide, gang, job, node, queue, running, task


@pytest.mark.parametrize(
    ("least", "statuses", "before", "stuck", "phase"),
    [
        (1, ["Running"], "Inqueue", "", "Running"),
        (2, ["Running", "Bound"], "Inqueue", "", "Running"),
        (2, ["Running", "Pending"], "Inqueue", "", "Inqueue"),
        (2, ["Running", "Pending"], "Running", "", "Pending"),
        (1, ["Succeeded"], "Running", "", "Completed"),
        (2, ["Succeeded", "Failed"], "Running", "", "Completed"),
        (2, ["Succeeded", "Running"], "Running", "", "Running"),
        (1, ["Running", "Pending"], "Running", "now", "Unknown"),
        (1, ["Running", "Pending"], "Running", "before", "Running"),
        (1, ["Pending"], "Inqueue", "now", "Inqueue"),
        (1, ["Pending"], "", "", "Pending"),
    ],
)
def test_phases(least: int, statuses: list[str], before: str, stuck: str, phase: str) -> None:
    """``stuck`` is the session of an Unschedulable condition; the current session is called now."""
    tasks = []
    for number, status in enumerate(statuses):
        made = task(f"t{number}")
        made.status = status  # type: ignore[assignment]
        tasks.append(made)
    one = job(least, *tasks, phase=before)
    if stuck:
        one.set_condition(PodGroupCondition(type="Unschedulable", status="True", transition_id=stuck))
    assert phase_of(one, "now") == phase


def test_amounts_are_quantities() -> None:
    found = amounts(Resource(1500, 2048, {"pods": 3, "nvidia.com/gpu": 2000}))
    assert found == {"cpu": "1500m", "memory": "2Ki", "pods": "3", "nvidia.com/gpu": "2"}


def test_queues_include_their_children() -> None:
    objects = [node("a", "8"), queue("eng"), queue("dev", parent="eng"), running("x", ["a", "a"], queue="dev")]
    answer = decide(conf(("gang",)), *objects, running("y", ["a"], queue="eng"))
    cpu = {name: held["allocated"]["cpu"] for name, held in answer["queues"].items()}
    assert cpu == {"root": "3", "default": "0", "eng": "3", "dev": "2"}


def test_pods_that_are_not_bound_say_why() -> None:
    answer = decide(conf(("gang",), ("predicates",)), node("a", "1"), gang("g", 2))
    assert answer["pods"] == {f"default/g-task-{number}": {"reason": reason} for number, reason in
                              ((0, "Schedulable"), (1, "Unschedulable"))}  # fmt: skip
