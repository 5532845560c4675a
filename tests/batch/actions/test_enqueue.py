"""enqueue: admission in the order of queues and jobs."""

from __future__ import annotations

from typing import Any

from mooring.batch.actions.enqueue import enqueue
from mooring.batch.callbacks import PERMIT, REJECT
from tests.batch.cases import conf, gang, node, queue, session_of


def admitted(vote: Any, *objects: Any) -> tuple[list[str], list[str]]:
    """The jobs that were voted on, and those that were admitted, in order."""
    session = session_of(conf(("gang",)), node("a"), *objects)
    session.opening = "gang"
    voted: list[str] = []
    entered: list[str] = []

    def on_vote(job: Any) -> int:
        voted.append(job.name)
        return vote(job)

    session.add_job_enqueueable(on_vote)
    session.add_job_enqueued(lambda job: entered.append(job.name))
    enqueue(session)
    assert {job.name for job in session.jobs.values() if job.phase == "Inqueue"} == set(entered)
    return voted, entered


def wants(name: str, **rest: Any) -> list[dict[str, Any]]:
    return gang(name, 1, minResources={"cpu": "1"}, **rest)


def test_queues_take_turns() -> None:
    objects = [queue("p"), queue("q"), wants("a", queue="p"), wants("b", queue="p"), wants("c", queue="q")]
    _, entered = admitted(lambda job: PERMIT, *objects)
    assert sorted(entered) == ["a", "b", "c"]
    assert entered.index("a") < entered.index("b")


def test_a_rejected_job_does_not_stop_the_others() -> None:
    voted, entered = admitted(lambda job: REJECT if job.name == "a" else PERMIT, wants("a"), wants("b"))
    assert (voted, entered) == (["a", "b"], ["b"])


def test_a_job_without_minimum_resources_is_admitted_without_a_vote() -> None:
    assert admitted(lambda job: REJECT, gang("g", 1)) == ([], ["g"])


def test_jobs_that_are_not_pending_are_left_alone() -> None:
    assert admitted(lambda job: PERMIT, wants("g", phase="Running"))[0] == []
