"""The state machine of a job: what happens in each phase, and the next phase."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.api.volcano_jobs import TaskSpec, VolcanoJobSpec
from mooring.controllers.jobs.job_status import Counts, JobProgress
from mooring.controllers.jobs.state_machine import step


def spec(*tasks: tuple[str, int, int | None], least: int = 2, retries: int = 3, success: int | None = None) -> Any:
    made = tuple(TaskSpec(name=name, replicas=count, min_available=lowest) for name, count, lowest in tasks)
    return VolcanoJobSpec(tasks=made or (TaskSpec(name="t", replicas=3, min_available=1),), min_available=least,
                          max_retry=retries, min_success=success)  # fmt: skip


KEPT = frozenset({"Succeeded", "Failed"})


@pytest.mark.parametrize(
    ("phase", "action", "verb", "keep", "after"),
    [
        ("", "SyncJob", "sync", KEPT, None),
        ("Pending", "AbortJob", "kill", KEPT, "Aborting"),
        ("Pending", "RestartJob", "kill", frozenset(), "Restarting"),
        ("Pending", "RestartTask", "kill part", KEPT, "Restarting"),
        ("Pending", "CompleteJob", "kill", KEPT, "Completing"),
        ("Pending", "TerminateJob", "kill", KEPT, "Terminating"),
        ("Running", "RestartJob", "kill", frozenset(), "Restarting"),
        ("Running", "RestartPod", "kill part", KEPT, "Restarting"),
        ("Running", "RestartPartition", "kill part", KEPT, "Restarting"),
        ("Running", "AbortJob", "kill", KEPT, "Aborting"),
        ("Running", "CompleteJob", "kill", KEPT, "Completing"),
        ("Running", "TerminateJob", "kill", KEPT, "Terminating"),
        ("Restarting", "SyncJob", "sync", KEPT, "Pending"),
        ("Restarting", "RestartTask", "kill part", KEPT, "Pending"),
        ("Restarting", "AbortJob", "kill", frozenset(), "Pending"),
        ("Aborting", "SyncJob", "kill", KEPT, "Aborted"),
        ("Aborting", "ResumeJob", "kill", KEPT, "Restarting"),
        ("Aborted", "ResumeJob", "kill", KEPT, "Restarting"),
        ("Aborted", "SyncJob", "kill", KEPT, None),
        ("Completing", "SyncJob", "kill", KEPT, "Completed"),
        ("Terminating", "SyncJob", "kill", KEPT, "Terminated"),
        ("Completed", "RestartJob", "kill", KEPT, None),
        ("Failed", "SyncJob", "kill", KEPT, None),
        ("Terminated", "ResumeJob", "kill", KEPT, None),
    ],
)
def test_step(phase: str, action: str, verb: str, keep: frozenset[str], after: str | None) -> None:
    found = step(phase, action)
    assert (found.verb, found.keep) == (verb, keep)
    progress = found.advance(spec(), JobProgress(phase, 0), Counts())
    assert (None if progress is None else progress.phase) == after


@pytest.mark.parametrize(
    ("phase", "counts", "after"),
    [
        # minAvailable 2 of 3
        ("Pending", Counts(pending=1, running=1), None),
        ("Pending", Counts(running=2), "Running"),
        ("Pending", Counts(running=1, failed=1), "Running"),
        ("Running", Counts(running=3), None),
        ("Running", Counts(running=1, pending=1), None),
        ("Running", Counts(running=1, pending=2), "Pending"),
        ("Running", Counts(succeeded=2, running=1), None),
        ("Running", Counts(succeeded=3, tasks={"t": {"Succeeded": 3}}), "Completed"),
        ("Running", Counts(succeeded=2, failed=1, tasks={"t": {"Succeeded": 2, "Failed": 1}}), "Completed"),
        ("Running", Counts(succeeded=1, failed=2, tasks={"t": {"Succeeded": 1, "Failed": 2}}), "Failed"),
        ("Aborting", Counts(terminating=1), None),
        ("Aborting", Counts(running=1), None),
        ("Aborting", Counts(failed=1), "Aborted"),
        ("Restarting", Counts(terminating=2), None),
        ("Restarting", Counts(terminating=1), "Pending"),
    ],
)
def test_next_phase_from_pod_counts(phase: str, counts: Counts, after: str | None) -> None:
    progress = step(phase, "SyncJob").advance(spec(), JobProgress(phase, 0), counts)
    assert (None if progress is None else progress.phase) == after


def test_min_success_completes_a_job_early() -> None:
    wanted = spec(success=2)
    assert step("Running", "SyncJob").advance(wanted, JobProgress("Running", 0), Counts(succeeded=1, running=2)) is None
    done = step("Running", "SyncJob").advance(wanted, JobProgress("Running", 0), Counts(succeeded=2, running=1))
    assert done == JobProgress("Completed", 0)
    short = step("Running", "SyncJob").advance(wanted, JobProgress("Running", 0), Counts(succeeded=1, failed=2))
    assert short == JobProgress("Failed", 0)


def test_every_task_needs_its_min_available_successes() -> None:
    wanted = spec(("a", 2, 2), ("b", 2, 1), least=3)
    counts = Counts(succeeded=3, failed=1, tasks={"a": {"Succeeded": 1, "Failed": 1}, "b": {"Succeeded": 2}})
    assert step("Running", "SyncJob").advance(wanted, JobProgress("Running", 0), counts) == JobProgress("Failed", 0)
    # Not if the job's minAvailable is less than the sum of its tasks'.
    loose = spec(("a", 2, 2), ("b", 2, 1), least=2)
    assert step("Running", "SyncJob").advance(loose, JobProgress("Running", 0), counts) == JobProgress("Completed", 0)


def test_restarts_are_counted_and_limited() -> None:
    wanted = spec(retries=3)
    assert step("Running", "RestartJob").advance(wanted, JobProgress("Running", 2), Counts()) == JobProgress(
        "Restarting", 3
    )
    assert step("Restarting", "SyncJob").advance(wanted, JobProgress("Restarting", 3), Counts()) == JobProgress(
        "Failed", 3
    )
    assert step("Restarting", "SyncJob").advance(wanted, JobProgress("Restarting", 2), Counts()) == JobProgress(
        "Pending", 2
    )


def test_a_job_without_replicas_stays_running() -> None:
    assert step("Running", "SyncJob").advance(spec(("t", 0, 0), least=0), JobProgress("Running", 0), Counts()) is None
