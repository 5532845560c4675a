from __future__ import annotations

from typing import Any

import pytest

from mooring.controllers.jobs.policies import Delayed, Request, cancels, decide, supersedes
from tests.controllers.jobs.builders import job

RESTART = {"event": "PodFailed", "action": "RestartJob"}


@pytest.mark.parametrize(
    ("task_policies", "job_policies", "request_", "action", "delay"),
    [
        ([], [], Request(event="PodFailed", task="t"), "SyncJob", 0),
        ([], [RESTART], Request(event="PodFailed", task="t"), "RestartJob", 0),
        ([], [RESTART], Request(event="PodEvicted", task="t"), "SyncJob", 0),
        (
            [{"event": "PodFailed", "action": "RestartTask"}],
            [RESTART],
            Request(event="PodFailed", task="t"),
            "RestartTask",
            0,
        ),
        (
            [{"event": "PodFailed", "action": "RestartTask"}],
            [RESTART],
            Request(event="PodFailed", task="x"),
            "RestartJob",
            0,
        ),
        (
            [],
            [{"events": ["PodFailed", "PodEvicted"], "action": "AbortJob"}],
            Request(event="PodEvicted"),
            "AbortJob",
            0,
        ),
        ([], [{"event": "*", "action": "AbortJob"}], Request(event="TaskFailed"), "AbortJob", 0),
        ([], [{"event": "*", "action": "AbortJob"}], Request(event="OutOfSync"), "SyncJob", 0),
        ([], [{"event": "*", "action": "AbortJob"}], Request(event="PodRunning"), "SyncJob", 0),
        ([], [{"exitCode": 3, "action": "TerminateJob"}], Request(event="PodFailed", exit_code=3), "TerminateJob", 0),
        ([], [{"exitCode": 3, "action": "TerminateJob"}], Request(event="PodFailed", exit_code=4), "SyncJob", 0),
        ([], [{"event": "PodPending", "action": "RestartJob"}], Request(event="PodPending"), "SyncJob", 0),
        (
            [],
            [{"event": "PodPending", "action": "RestartJob", "timeout": "1m"}],
            Request(event="PodPending"),
            "RestartJob",
            60,
        ),
        ([], [{**RESTART, "timeout": "90s"}], Request(event="PodFailed"), "RestartJob", 90),
        ([], [RESTART], Request(event="CommandIssued", action="AbortJob"), "AbortJob", 0),
        ([], [{"event": "Unknown", "action": "RestartJob"}], Request(event="Unknown"), "RestartJob", 0),
        (
            [],
            [{"event": "TaskCompleted", "action": "CompleteJob"}],
            Request(event="TaskCompleted", task="t"),
            "CompleteJob",
            0,
        ),
    ],
)
def test_decide(
    task_policies: list[Any], job_policies: list[Any], request_: Request, action: str, delay: float
) -> None:
    assert decide(job({"policies": task_policies}, policies=job_policies), request_) == (action, delay)


def test_events_of_pods_of_an_earlier_version_are_ignored() -> None:
    found = job(policies=[RESTART], version=2)
    assert decide(found, Request(event="PodFailed", version=1)).action == "SyncJob"
    assert decide(found, Request(event="PodFailed", version=2)).action == "RestartJob"


def test_delayed_actions_are_cancelled_and_superseded() -> None:
    pending = Delayed(Request(event="PodPending", pod="p", pod_uid="1"), "RestartPod", 10.0)
    assert cancels(Request(event="PodRunning", pod="p", pod_uid="1"), pending)
    assert not cancels(Request(event="PodRunning", pod="p", pod_uid="2"), pending)
    failed = Delayed(Request(event="PodFailed", pod="p", task="t"), "RestartTask", 10.0)
    assert cancels(Request(event="PodRunning", pod="p"), failed)
    assert not cancels(Request(event="PodEvicted", pod="p"), failed)
    assert supersedes("RestartTask", Request(task="t"), failed)
    assert not supersedes("RestartTask", Request(task="other"), failed)
    assert not supersedes("RestartJob", Request(), failed)
    assert supersedes("AbortJob", Request(), Delayed(Request(), "RestartJob", 1.0))
