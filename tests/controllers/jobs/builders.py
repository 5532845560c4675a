"""Jobs and pods for the unit tests of the job controller."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.volcano_jobs import VolcanoJob
from mooring.controllers.jobs.job_admission import with_defaults
from mooring.controllers.jobs.job_objects import pod_document
from mooring.controllers.jobs.job_plugins import JobPlugins
from mooring.controllers.jobs.job_pods import JobPod

MASTER: dict[str, Any] = {"name": "master", "replicas": 1}
WORKER: dict[str, Any] = {"name": "worker", "replicas": 2}
TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}


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


def plugin_pod(task: str, index: int = 0, *tasks: dict[str, Any], **plugins: list[str]) -> dict[str, Any]:
    found = job(*(tasks or (MASTER, WORKER)), plugins=plugins)
    chosen = next(each for each in found.spec.tasks if each.name == task)
    return pod_document(found, chosen, index, JobPlugins(found))


def pod_env(found: dict[str, Any]) -> dict[str, Any]:
    return {each["name"]: each.get("value") for each in found["spec"]["containers"][0].get("env", ())}


def plugin_objects(*tasks: dict[str, Any], **plugins: list[str]) -> dict[str, dict[str, Any]]:
    found = job(*(tasks or (MASTER, WORKER)), plugins=plugins)
    return {f"{each['kind']} {each['metadata']['name']}": each for each in JobPlugins(found).documents()}
