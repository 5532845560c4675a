"""Requests for the tests of admission."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.api.volcano import Queue
from mooring.apiserver.volcano_admission.review import HOOKS, Admission, AdmissionSettings, JobPluginRules, Request

TEMPLATE: dict[str, Any] = {"spec": {"containers": [{"name": "c", "image": "i"}]}}


class State:
    """Queues and the annotations of namespaces."""

    def __init__(self, *queues: dict[str, Any], **annotations: dict[str, str]) -> None:
        self._queues = {each["metadata"]["name"]: msgspec.convert(each, Queue) for each in queues}
        self._annotations = annotations

    def queues(self) -> Mapping[str, Queue]:
        return self._queues

    def namespace_annotations(self, name: str) -> Mapping[str, str]:
        return self._annotations.get(name, {})


def queue(name: str, *, state: str = "Open", pods: int = 0, annotations: Any = None, **spec: Any) -> dict[str, Any]:
    status = {"state": state, **({"allocated": {"pods": pods}} if pods else {})}
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec, "status": status}


def task(**spec: Any) -> dict[str, Any]:
    return {"name": "t", "replicas": 1, "template": TEMPLATE, **spec}


def job(*tasks: dict[str, Any], name: str = "j", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "ns"}, "spec": {"tasks": list(tasks) or [task()], **spec}}


def group(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "g", "namespace": "ns"}, "spec": {"minMember": 1, "queue": "default", **spec}}


def pod(annotations: Any = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "p", "annotations": annotations or {}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}], **spec},
    }


def flow(**needs: list[str]) -> dict[str, Any]:
    flows = [{"name": name, "dependsOn": {"targets": targets}} for name, targets in needs.items()]
    return {"metadata": {"name": "f"}, "spec": {"flows": flows}}


def cron(name: str = "c", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {}}, **spec}}


def hyper_node(*selectors: dict[str, Any]) -> dict[str, Any]:
    members = [{"type": "Node", "selector": each} for each in selectors]
    return {"metadata": {"name": "h"}, "spec": {"tier": 1, "members": members}}


def request(
    resource: str, document: dict[str, Any], old: dict[str, Any] | None = None, *, operation: str = ""
) -> Request:
    hook = next(each for each in HOOKS if each.resource == resource)
    operation = operation or ("CREATE" if old is None else "UPDATE")
    metadata = document.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    name, namespace = metadata.get("name", ""), metadata.get("namespace", "")
    return Request(operation, hook.group, resource, namespace, name, document, old)


OPEN = State(queue("root", state="Open"), queue("default"), queue("q"), queue("shut", state="Closed"))


def refusal(
    resource: str,
    document: dict[str, Any],
    old: dict[str, Any] | None = None,
    *,
    state: State = OPEN,
    operation: str = "",
    plugins: JobPluginRules | None = None,
    **settings: Any,
) -> str:
    admission = Admission(state, AdmissionSettings(**settings), plugins)
    return admission.refusal(request(resource, document, old, operation=operation))


def defaulted(resource: str, document: dict[str, Any], *, state: State = OPEN, **settings: Any) -> dict[str, Any]:
    return Admission(state, AdmissionSettings(**settings)).defaulted(request(resource, document))
