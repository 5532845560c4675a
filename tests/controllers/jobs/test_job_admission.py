from __future__ import annotations

from typing import Any

import pytest

from mooring.controllers.jobs.job_admission import validation_errors
from tests.controllers.jobs.builders import job

RESTART = {"event": "PodFailed", "action": "RestartJob"}


def test_defaults() -> None:
    found = job({"name": "", "replicas": 3}, {"name": "w", "replicas": 2, "minAvailable": 1}, plugins={"pytorch": []})
    assert [task.name for task in found.spec.tasks] == ["default0", "w"]
    assert [task.min_available for task in found.spec.tasks] == [3, 1]
    assert (found.spec.min_available, found.spec.max_retry, found.spec.queue) == (4, 3, "default")
    assert found.spec.scheduler_name == "volcano"
    assert set(found.spec.plugins) == {"svc", "pytorch"}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"minAvailable": 3}, "greater than total replicas"),
        ({"tasks": [{"name": "a"}, {"name": "a"}]}, "duplicated task name a"),
        ({"tasks": [{"replicas": 1, "minAvailable": 2}]}, "'minAvailable' is greater than 'replicas'"),
        ({"tasks": [{"template": {}}]}, "no containers"),
        ({"tasks": [{"dependsOn": {"name": ["x"]}}]}, "depends on x, which is not a task"),
        (
            {"tasks": [{"name": "a", "dependsOn": {"name": ["b"]}}, {"name": "b", "dependsOn": {"name": ["a"]}}]},
            "cycle",
        ),
        ({"policies": [{"event": "PodFailed", "action": "Restart"}]}, "invalid policy action 'Restart'"),
        ({"policies": [{"event": "PodRunning", "action": "AbortJob"}]}, "invalid policy event 'PodRunning'"),
        ({"policies": [{"action": "AbortJob"}]}, "either events or an exitCode"),
        ({"policies": [{"exitCode": 0, "action": "AbortJob"}]}, "0 is not a valid error code"),
        ({"policies": [RESTART, {"event": "*", "action": "AbortJob"}]}, "a policy for * excludes"),
        ({"policies": [{**RESTART, "timeout": "soon"}]}, "timeout"),
        ({"plugins": {"svcs": []}}, "unable to find job plugin: svcs"),
        ({"volumes": [{"mountPath": "/data"}]}, "either volumeClaim or volumeClaimName"),
    ],
)
def test_validation_errors(spec: dict[str, Any], text: str) -> None:
    tasks = spec.pop("tasks", [{}])
    assert any(text in error for error in validation_errors(job(*tasks, **spec)))


def test_a_valid_job_has_no_errors() -> None:
    policies = [
        RESTART,
        {"exitCode": 3, "action": "AbortJob"},
        {"event": "PodPending", "action": "AbortJob", "timeout": "1h"},
    ]
    plugins = {"env": [], "svc": ["--publish-not-ready-addresses=true"]}
    assert validation_errors(job(policies=policies, plugins=plugins)) == []
