from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.api.codec import decode_json
from mooring.api.decode_errors import ManifestError
from mooring.api.pod import Pod
from mooring.api.volcano_jobs import VolcanoJob
from mooring.controllers.jobs.job_admission import template_errors, validation_errors, with_defaults
from mooring.controllers.jobs.job_objects import group_for
from tests.controllers.jobs.builders import job
from tests.hostile import Hostile

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
        ({"tasks": [{"dependsOn": {"name": ["x"]}}]}, "depends on x, which is not a task"),
        (
            {"tasks": [{"name": "a", "dependsOn": {"name": ["b"]}}, {"name": "b", "dependsOn": {"name": ["a"]}}]},
            "a directed acyclic graph",
        ),
        ({"policies": [{"event": "PodFailed", "action": "Restart"}]}, '"Restart": invalid policy action'),
        ({"policies": [{"event": "PodRunning", "action": "AbortJob"}]}, '"PodRunning": invalid policy event'),
        ({"policies": [{"action": "AbortJob"}]}, "either event and exitCode"),
        ({"policies": [{"exitCode": 0, "action": "AbortJob"}]}, "0 is not a valid error code"),
        ({"policies": [RESTART, {"event": "*", "action": "AbortJob"}]}, "if there's * here"),
        ({"policies": [{**RESTART, "timeout": "soon"}]}, "timeout"),
        ({"plugins": {"svcs": []}}, "unable to find job plugin: svcs"),
        ({"volumes": [{"mountPath": "/data"}]}, "either VolumeClaim or VolumeClaimName"),
        ({"tasks": [{"replicas": 2**31 - 1}]}, "nor greater than 100000 in total"),
        ({"tasks": [{"replicas": -1}, {"replicas": 5}]}, "must not be negative"),
    ],
)
def test_validation_errors(spec: dict[str, Any], text: str) -> None:
    tasks = spec.pop("tasks", [{}])
    assert any(text in error for error in validation_errors(job(*tasks, **spec)))


@pytest.mark.parametrize(
    "template",
    [
        {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1e1.5"}}}]}},
        {"spec": {"containers": [{"name": "c", "resources": {"limits": {"memory": "lots"}}}]}},
        {"spec": {"containers": "c"}},
        {"spec": {"containers": ["c"]}},
        {"spec": {"containers": [{"name": "c"}], "volumes": 3}},
        {"spec": {"containers": [{"name": "c"}]}, "metadata": "x"},
        {"spec": {"containers": [{"name": "c"}]}, "metadata": {"labels": [1]}},
        {"spec": {"containers": [{"name": "c"}]}},
        {"spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "a"}, {"name": "a"}]}},
        {},
        {"spec": []},
        {"spec": "x"},
    ],
)
def test_errors_of_templates(template: dict[str, Any]) -> None:
    volumes = [{"mountPath": "/data", "volumeClaimName": "data"}]
    (error,) = template_errors(job({"name": "a", "template": template}, {"name": "b"}, volumes=volumes))
    assert error.startswith("spec.task[0].template")


def test_a_valid_job_has_no_errors() -> None:
    policies = [
        RESTART,
        {"exitCode": 3, "action": "AbortJob"},
        {"event": "PodPending", "action": "AbortJob", "timeout": "1h"},
    ]
    plugins = {"env": [], "svc": ["--publish-not-ready-addresses=true"]}
    assert validation_errors(job(policies=policies, plugins=plugins)) == []


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32 - 1))
def test_no_job_raises_anything(seed: int) -> None:
    hostile = Hostile(seed)
    document = hostile.document(VolcanoJob)
    spec = document.get("spec")
    tasks = spec.get("tasks") if isinstance(spec, dict) else None
    for task in tasks if isinstance(tasks, list) else ():
        if isinstance(task, dict):
            task["template"] = {
                "spec": hostile.document(Pod).get("spec"),
                "metadata": hostile.document(Pod)["metadata"],
            }
    try:
        found = decode_json(msgspec.json.encode(document), VolcanoJob)
    except ManifestError:
        return
    found = with_defaults(found, scheduler_name="volcano", queue="default")
    if not [*validation_errors(found), *template_errors(found)]:
        group_for(found, {})
