"""gang: validity, readiness, surplus tasks and conditions."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.eviction import EvictionContext
from mooring.batch.run import close_session, open_session, run_actions
from tests.batch.cases import conf, gang, group, jobs_of, node, opened, pod, running, session_of, tasks_of

TEXT = conf(("gang", "predicates"), actions="enqueue, allocate")


def roles(*names: str) -> list[dict[str, Any]]:
    pods = [pod(f"g-{name}-{number}", "g") for number, name in enumerate(names)]
    for each, name in zip(pods, names, strict=True):
        each["metadata"]["annotations"]["volcano.sh/task-spec"] = name
    return pods


@pytest.mark.parametrize(
    ("spec", "members", "reason"),
    [
        ({"least": 2}, ["w", "w"], None),
        ({"least": 3}, ["w", "w"], "NotEnoughTasks"),
        ({"least": 2, "minTaskMember": {"ps": 1, "w": 1}}, ["w", "w"], "NotEnoughPodsOfTask"),
        ({"least": 1, "minTaskMember": {"ps": 1, "w": 1}}, ["w"], None),
    ],
)
def test_valid_jobs(spec: dict[str, Any], members: list[str], reason: str | None) -> None:
    session = session_of(TEXT, node("a"), group("g", **spec), roles(*members))
    problem = session.job_valid(jobs_of(session)["g"])
    assert (problem.reason if problem else None) == reason


def test_the_message_counts_valid_tasks() -> None:
    session = session_of(TEXT, node("a"), gang("g", 1, 3))
    problem = session.job_valid(jobs_of(session)["g"])
    assert problem is not None
    assert problem.message == "Not enough valid tasks for gang-scheduling, valid: 1, min: 3"


@pytest.mark.parametrize(("least", "victims"), [(1, 2), (2, 1), (3, 0), (5, 0)])
def test_a_job_loses_only_what_exceeds_its_minimum(least: int, victims: int) -> None:
    session = session_of(TEXT, node("a"), running("old", ["a", "a", "a"], least), gang("new", 1))
    tasks = tasks_of(session)
    candidates = [tasks[f"old-task-{number}"] for number in range(3)]
    for found in (session.preemptable, session.reclaimable):
        assert found(tasks["new-task-0"], candidates) == candidates[:victims]
    context = EvictionContext("preempt", jobs_of(session)["new"])
    assert session.unified_evictable(context, candidates) == candidates


def test_jobs_that_are_not_ready_come_first() -> None:
    session = session_of(TEXT, node("a"), running("ready", ["a"]), gang("new", 1))
    jobs = jobs_of(session)
    assert session.job_less(jobs["new"], jobs["ready"])


def test_starving_and_pipelined() -> None:
    session = session_of(TEXT, node("a"), gang("g", 2))
    job, tasks = jobs_of(session)["g"], tasks_of(session)
    assert session.job_starving(job)
    assert not session.job_pipelined(job), "gang rejects, it never abstains"
    statement = session.statement()
    statement.allocate(tasks["g-task-0"], "a")
    statement.pipeline(tasks["g-task-1"], "a", evicted=False)
    assert session.job_pipelined(job)
    assert not session.job_ready(job)
    assert not session.job_starving(job)


def test_conditions_at_close() -> None:
    _, session, _ = opened(TEXT, node("a", "3"), gang("fits", 2), gang("big", 2, 2))
    plugins = open_session(session)
    run_actions(session)
    outcome = close_session(session, plugins)
    (fits,) = outcome.groups["default/fits"].conditions
    assert (fits.type, fits.status, fits.reason) == ("Scheduled", "True", "tasks in gang are ready to be scheduled")
    (big,) = outcome.groups["default/big"].conditions
    assert (big.type, big.reason, big.transition_id) == ("Unschedulable", "NotEnoughResources", session.uid)
    assert big.message.startswith("1/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable")
