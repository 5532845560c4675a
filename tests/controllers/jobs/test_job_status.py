from __future__ import annotations

import msgspec

from mooring.api.volcano_jobs import JobState, TaskState, VolcanoJobStatus
from mooring.controllers.jobs.job_status import Counts, JobProgress, count_pods, next_status, patch_for
from tests.controllers.jobs.builders import job, job_pod


def test_count_pods_by_phase_and_task() -> None:
    pods = [job_pod("Running"), job_pod("Running", uid="2"), job_pod("Failed", uid="3"), job_pod("", uid="4")]
    counts = count_pods([*pods, job_pod("Odd", uid="5"), job_pod("Running", uid="6")], deleted=["6"])
    assert (counts.running, counts.failed, counts.pending, counts.unknown, counts.terminating) == (2, 1, 1, 1, 1)
    assert counts.tasks == {"t": {"Running": 2, "Failed": 1, "Pending": 1, "Unknown": 1}}
    assert counts.alive == 4


def test_a_new_phase_adds_a_condition_and_the_duration() -> None:
    found = job(metadata={"creationTimestamp": "2026-01-01T00:00:00Z"})
    running = next_status(found, Counts(running=2), JobProgress("Running", 1), 1767225610.0, version=3, controlled={})
    assert (running.state.phase, running.retry_count, running.version) == ("Running", 1, 3)
    assert [each.status for each in running.conditions] == ["Running"]
    assert running.running_duration is None
    found = msgspec.structs.replace(found, status=running)
    done = next_status(found, Counts(succeeded=2), JobProgress("Completed", 1), 1767225660.0, version=3, controlled={})
    assert [each.status for each in done.conditions] == ["Running", "Completed"]
    assert done.running_duration == "1m0s"


def test_an_unchanged_phase_keeps_its_transition_time() -> None:
    found = job()
    first = next_status(found, Counts(), JobProgress("Pending", 0), 0.0, version=0, controlled={})
    found = msgspec.structs.replace(found, status=first)
    second = next_status(found, Counts(pending=1), JobProgress("Pending", 0), 100.0, version=0, controlled={})
    assert second.state == first.state


def test_patch_removes_fields_and_writes_zero_counts() -> None:
    old = VolcanoJobStatus(state=JobState(phase="Running"), task_status_count={"a": TaskState(phase={"Running": 1})})
    patch = patch_for(old, VolcanoJobStatus(state=JobState(phase="Running")))["status"]
    assert patch["running"] == 0
    assert patch["taskStatusCount"] is None
