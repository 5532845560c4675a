"""A job: how its tasks are counted, and when its gang is complete."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.volcano import PodGroupCondition
from mooring.batch.fit_errors import FitErrors
from mooring.batch.job import JobInfo
from mooring.batch.resource import Resource
from mooring.batch.task import Status, TaskInfo
from tests.batch.cases import job, task


def with_statuses(least: int, *statuses: str, **spec: Any) -> JobInfo:
    """A job with a task for each status; a trailing ``!`` marks a best-effort task, ``role:`` in front its role."""
    tasks = []
    for number, text in enumerate(statuses):
        role, _, status = text.rpartition(":")
        made = task(f"job-task-{number}", cpu="" if status.endswith("!") else "1")
        made.status, made.role = status.removesuffix("!"), role  # type: ignore[assignment]
        tasks.append(made)
    return job(least, *tasks, **spec)


@pytest.mark.parametrize(
    ("least", "statuses", "ready", "pipelined", "starving"),
    [
        (2, ["Running", "Bound"], True, True, False),
        (2, ["Running", "Pending"], False, False, True),
        (2, ["Running", "Pipelined"], False, True, False),
        (2, ["Running", "Succeeded"], True, True, False),
        (2, ["Allocated", "Binding"], True, True, False),
        (2, ["Running", "Releasing"], False, False, True),
        (2, ["Running", "Failed"], False, False, True),
        (2, ["Running", "Pending!"], True, True, True),
        (0, [], True, True, False),
    ],
)
def test_gang(least: int, statuses: list[str], ready: bool, pipelined: bool, starving: bool) -> None:
    """Pending best-effort tasks count as ready, but do not feed a starving job."""
    one = with_statuses(least, *statuses)
    assert (one.is_ready, one.is_pipelined, one.is_starving) == (ready, pipelined, starving)


def test_counts() -> None:
    one = with_statuses(1, "Running", "Bound", "Binding", "Allocated", "Succeeded", "Pipelined", "Pending", "Failed")
    assert (one.ready_count, one.holding_count, one.waiting_count, one.valid_count) == (5, 4, 1, 7)


@pytest.mark.parametrize(
    ("least", "minimums", "statuses", "valid", "ready", "pipelined"),
    [
        (2, {"ps": 1, "w": 1}, ["ps:Running", "w:Running"], True, True, True),
        (2, {"ps": 1, "w": 1}, ["w:Running", "w:Running"], False, False, False),
        (2, {"ps": 1, "w": 1}, ["ps:Pending", "w:Running"], True, False, False),
        (2, {"ps": 1, "w": 1}, ["ps:Pipelined", "w:Running"], True, False, True),
        (2, {"ps": 1, "w": 1}, ["ps:Pending!", "w:Running"], True, True, True),
        (1, {"ps": 1, "w": 1}, ["w:Running"], True, True, True),
        (2, {"ps": 0, "w": 1}, ["w:Running", "w:Running"], True, True, True),
    ],
    ids=["met", "missing role", "pending", "pipelined", "best effort", "minimum below the sum", "zero"],
)
def test_roles(
    least: int, minimums: dict[str, int], statuses: list[str], valid: bool, ready: bool, pipelined: bool
) -> None:
    one = with_statuses(least, *statuses, minTaskMember=minimums)
    assert (one.roles_valid, one.roles_ready, one.roles_pipelined) == (valid, ready, pipelined)


def test_a_status_moves_the_task_and_what_is_allocated() -> None:
    one = with_statuses(1, "Pending", "Running")
    first = one.of_status("Pending")[0]
    assert one.allocated.cpu == 1000
    one.set_status(first, "Allocated")
    assert one.allocated.cpu == 2000
    assert "Pending" not in one.by_status
    one.set_status(first, "Pipelined")
    assert one.allocated.cpu == 1000
    one.remove(first)
    assert (one.total_request.cpu, len(one.tasks)) == (1000, 1)
    assert "Pipelined" not in one.by_status


@pytest.mark.parametrize(
    ("least", "statuses", "failed", "minimums", "expected"),
    [
        (2, ["a:Pending", "a:Pending"], [0], {}, False),
        (1, ["a:Pending", "b:Pending"], [0], {}, True),
        (1, ["a:Pending", "a:Pending", "b:Running"], [0], {"a": 1, "b": 1}, True),
        (2, ["a:Pending", "a:Pending", "b:Running"], [0], {"a": 2, "b": 1}, False),
        (2, ["a:Pending", "b:Pending", "b:Running"], [0], {"a": 1, "b": 1}, False),
        (2, ["a:Running", "a:Pending", "b:Pending"], [1], {"a": 1, "b": 1}, True),
    ],
    ids=["all needed", "no roles", "enough others", "too few others", "role unmet", "role met"],
)
def test_worth_continuing(
    least: int, statuses: list[str], failed: list[int], minimums: dict[str, int], expected: bool
) -> None:
    """After a task found no node, the others are tried only if the gang can still be complete."""
    one = with_statuses(least, *statuses, minTaskMember=minimums)
    for number in failed:
        one.fit_errors[list(one.tasks)[number]] = FitErrors()
    assert one.worth_continuing() is expected


def test_elastic_is_what_exceeds_the_minimum() -> None:
    one = with_statuses(1, "Running", "Running", "Pending", minResources={"cpu": "1500m"})
    assert one.elastic().cpu == 500
    assert with_statuses(1, "Running").elastic().cpu == 1000


def test_gated_tasks_are_not_part_of_what_is_reserved() -> None:
    gated: TaskInfo = task("a", schedulingGates=[{"name": "mine"}])
    queue_gated = task("b", schedulingGates=[{"name": "scheduling.volcano.sh/queue-allocation-gate"}])
    one = job(2, gated, queue_gated)
    wanted = Resource(2500, 10)
    left = one.without_gated(wanted)
    assert (left.cpu, left.memory) == (1500, 10)
    assert wanted.cpu == 2500
    assert job(1, task("c")).without_gated(wanted) is wanted
    assert one.without_gated(Resource(500)).cpu == 0


@pytest.mark.parametrize(
    ("annotations", "seconds"),
    [
        ({}, None),
        ({"volcano.sh/sla-waiting-time": "1m"}, 60.0),
        ({"sla-waiting-time": "2s"}, 2.0),
        ({"volcano.sh/sla-waiting-time": "junk", "sla-waiting-time": "2s"}, 2.0),
        ({"sla-waiting-time": "-2s"}, None),
    ],
)
def test_waiting_time(annotations: dict[str, str], seconds: float | None) -> None:
    from mooring.api.codec import decode_object
    from tests.batch.cases import group

    made = group("g", 1)
    made["metadata"]["annotations"] = annotations
    assert JobInfo(decode_object(made), queue="q", priority=0).waiting_time == seconds  # type: ignore[arg-type]


def test_a_job_is_not_preemptable_unless_it_says_so() -> None:
    assert not job(1).preemptable


def test_conditions_are_replaced_by_type() -> None:
    one = job(1)
    one.set_condition(PodGroupCondition(type="Scheduled", status="True"))
    one.set_condition(PodGroupCondition(type="Unschedulable", status="True"))
    one.set_condition(PodGroupCondition(type="Scheduled", status="False"))
    assert [(each.type, each.status) for each in one.conditions] == [("Scheduled", "False"), ("Unschedulable", "True")]
    assert one.status("Running").phase == "Running"


@pytest.mark.parametrize(("phase", "pending"), [("", True), ("Pending", True), ("Inqueue", False), ("Running", False)])
def test_is_pending(phase: str, pending: bool) -> None:
    assert job(1, phase=phase).is_pending is pending


def test_status_counts_tasks() -> None:
    statuses: list[Status] = ["Running", "Running", "Succeeded", "Failed"]
    status = with_statuses(1, *statuses).status("Running")
    assert (status.running, status.succeeded, status.failed) == (2, 1, 1)
