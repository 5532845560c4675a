"""Jobs and pods for the unit tests of the job controller."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.volcano_jobs import VolcanoJob
from mooring.controllers.jobs.job_admission import with_defaults
from mooring.controllers.jobs.job_pods import JobPod

TEMPLATE = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}


def job(*tasks: dict[str, Any], version: int = 0, metadata: dict[str, Any] | None = None, **spec: Any) -> VolcanoJob:
    made = [{"name": "t", "replicas": 2, "template": TEMPLATE, **task} for task in tasks or ({},)]
    document = {
        "metadata": {"name": "j", "namespace": "default", "uid": "u", **(metadata or {})},
        "spec": {"tasks": made, **spec},
        "status": {"version": version},
    }
    return with_defaults(msgspec.convert(document, VolcanoJob), scheduler_name="volcano", queue="default")


def job_pod(phase: str, *, code: int | None = None, restarts: int = 0, uid: str = "1", **annotations: str) -> JobPod:
    state = {} if code is None else {"terminated": {"exitCode": code}}
    document = {
        "metadata": {"name": "j-t-0", "uid": uid, "annotations": {"volcano.sh/task-spec": "t", **annotations}},
        "status": {"phase": phase, "containerStatuses": [{"restartCount": restarts, "state": state}]},
    }
    return msgspec.convert(document, JobPod)
