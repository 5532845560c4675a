from __future__ import annotations

import pytest

from mooring.controllers.jobs.job_pods import JobPod, request_for
from tests.controllers.jobs.builders import job, job_pod


@pytest.mark.parametrize(
    ("old", "new", "event", "code"),
    [
        (None, job_pod("Pending"), "PodPending", 0),
        (job_pod("Pending"), job_pod("Running"), "PodRunning", 0),
        (job_pod("Running"), job_pod("Failed", code=7), "PodFailed", 7),
        (job_pod("Failed", code=7), job_pod("Failed", code=7), "OutOfSync", 0),
        (job_pod("Running"), job_pod("Succeeded"), "OutOfSync", 0),
        (job_pod("Running"), job_pod("Running", restarts=5), "TaskFailed", 0),
        (job_pod("Running"), None, "PodEvicted", 0),
        (job_pod("Running", **{"volcano.sh/controller-out-of-sync": "true"}), None, "OutOfSync", 0),
    ],
)
def test_event_of_a_pod_change(old: JobPod | None, new: JobPod | None, event: str, code: int) -> None:
    pods = [] if new is None else [new, job_pod("Running", uid="2")]
    found = request_for(old, new, job().spec.tasks[0], pods)
    assert (found.event, found.exit_code) == (event, code)


def test_a_task_completes_with_its_last_pod() -> None:
    done = job_pod("Succeeded")
    found = request_for(job_pod("Running"), done, job().spec.tasks[0], [done, job_pod("Succeeded", uid="2")])
    assert found.event == "TaskCompleted"
