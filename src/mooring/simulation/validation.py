"""Validation of the amounts, counts and constraints in manifests, by the rules of the API server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from mooring.api.codec import fit
from mooring.api.decode_errors import ConversionError
from mooring.api.manifest_checks import without_nulls
from mooring.api.pod import PodTemplateSpec
from mooring.api.volcano_jobs import VolcanoJob
from mooring.api.yaml_nodes import Step
from mooring.apiserver.documents import Document, nested_field
from mooring.apiserver.field_errors import FieldError, not_negative
from mooring.apiserver.resource_amounts import amount_errors, pod_amount_errors
from mooring.apiserver.scheduling_fields import placement_errors, taints_errors
from mooring.simulation.sources import Given

#: Kind -> the fields with amounts of resources.
_AMOUNTS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "Node": (("status", "capacity"), ("status", "allocatable")),
    "PersistentVolume": (("spec", "capacity"),),
    "PersistentVolumeClaim": (("spec", "resources", "requests"),),
    "ResourceQuota": (("spec", "hard"),),
    "PodGroup": (("spec", "minResources"),),
    "Queue": (("spec", "capability"), ("spec", "deserved"), ("spec", "guarantee", "resource")),
}
#: Kind -> the fields with counts.
_COUNTS: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "PodGroup": (("spec", "minMember"),),
    "Queue": (("spec", "weight"),),
    "Job": (("spec", "parallelism"), ("spec", "completions"), ("spec", "minAvailable")),
    **dict.fromkeys(("Deployment", "ReplicaSet", "ReplicationController", "StatefulSet"), (("spec", "replicas"),)),
}
_TEMPLATED: Final = frozenset({"Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"})
_STEP: Final = re.compile(r"\[(?P<inside>[^\]]*)\]")


def validate(given: Given) -> None:
    """Raise ManifestError if the API server would reject an amount, a count or a scheduling constraint."""
    document = without_nulls(given.document)
    if isinstance(given.item, VolcanoJob):
        _check_templates(given, given.item)
    for error in _errors(given.item.kind, document):
        raise given.fault(error.body, *_steps(error.field, document))


def _check_templates(given: Given, job: VolcanoJob) -> None:
    """Raise ManifestError if a pod template of a job has fields of a wrong type; the job has them as plain data."""
    for number, task in enumerate(job.spec.tasks):
        try:
            fit(task.template, PodTemplateSpec)
        except ConversionError as error:
            fault = error.fault
            steps = ("spec", "tasks", number, "template", *fault.steps)
            raise given.fault(fault.problem, *steps, remedy=fault.remedy) from None


def _errors(kind: str, document: Document) -> Iterator[FieldError]:
    for steps in _AMOUNTS.get(kind, ()):
        for name, amount in _mapping(nested_field(document, *steps)).items():
            yield from amount_errors(name, amount, f"{'.'.join(steps)}[{name}]")
    for steps in _COUNTS.get(kind, ()):
        yield from not_negative(nested_field(document, *steps), ".".join(steps))
    if kind == "Node":
        yield from taints_errors(_objects(nested_field(document, "spec", "taints")), "spec.taints")
    elif kind == "Pod":
        yield from _pod_errors(_mapping(document.get("spec")), "spec")
    elif kind in _TEMPLATED:
        yield from _pod_errors(_mapping(nested_field(document, "spec", "template", "spec")), "spec.template.spec")
        for number, task in enumerate(_objects(nested_field(document, "spec", "tasks"))):
            path = f"spec.tasks[{number}]"
            for key in ("replicas", "minAvailable"):
                yield from not_negative(task.get(key), f"{path}.{key}")
            yield from _pod_errors(_mapping(nested_field(task, "template", "spec")), f"{path}.template.spec")
        for number, claim in enumerate(_objects(nested_field(document, "spec", "volumeClaimTemplates"))):
            for name, amount in _mapping(nested_field(claim, "spec", "resources", "requests")).items():
                path = f"spec.volumeClaimTemplates[{number}].spec.resources.requests[{name}]"
                yield from amount_errors(name, amount, path)


def _mapping(value: Any) -> Document:
    """Return an object; an empty one for anything else, which the decoder rejects or ignores."""
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> list[Document]:
    """Return a list of objects; an empty one for anything else."""
    return value if isinstance(value, list) and all(isinstance(each, dict) for each in value) else []


def _pod_errors(spec: Document, path: str) -> Iterator[FieldError]:
    yield from pod_amount_errors(spec, path)
    yield from placement_errors(spec, path)


def _steps(path: str, document: Document) -> tuple[Step, ...]:
    """Return the steps to a field, such as ``spec.containers[0].resources.requests[cpu]``, as far as they exist."""
    steps: list[Step] = []
    value: Any = document
    for step in _split(path):
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        elif isinstance(value, dict) and step in value:
            value = value[str(step)]
        else:
            break
        steps.append(step)
    return tuple(steps)


def _split(path: str) -> Iterator[Step]:
    """Split a path into keys and indexes. A key in brackets may contain dots."""
    end = 0
    for match in _STEP.finditer(path):
        yield from filter(None, path[end : match.start()].split("."))
        inside = match["inside"]
        yield int(inside) if inside.isdecimal() else inside
        end = match.end()
    yield from filter(None, path[end:].split("."))
