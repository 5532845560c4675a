"""What is allowed but probably not meant: the client is told, and the object is stored."""

from typing import Final

from mooring.apiserver.documents import Document, look

_NO_POD: Final = "a null labelSelector results in matching no pod"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
_DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_NO_CEL: Final = (
    "x-kubernetes-validations: the embedded cluster does not evaluate these rules (CEL): objects that they forbid are"
    " accepted"
)
#: Kinds that people expect something of, which does not happen here.
_IDLE: Final = {
    "cronjobs.batch": "CronJobs",
    "ingresses.networking.k8s.io": "Ingresses",
    "networkpolicies.networking.k8s.io": "NetworkPolicies",
}


def warnings_for(storage: str, document: Document) -> list[str]:
    """The warnings about a new object."""
    if storage in _IDLE:
        return [f"the embedded cluster has no controller for {_IDLE[storage]}: it is stored, and nothing happens"]
    if storage == _DEFINITIONS and "x-kubernetes-validations" in repr(document["spec"]):
        return [_NO_CEL]
    if storage == "pods":
        return _pod(document["spec"], "spec")
    template = look(document, "spec", "template", "spec")
    return _pod(template, "spec.template.spec") if isinstance(template, dict) else []


def _pod(spec: Document, path: str) -> list[str]:
    found = [
        f"{path}.topologySpreadConstraints[{index}].labelSelector: {_NO_POD}"
        for index, each in enumerate(spec.get("topologySpreadConstraints") or ())
        if "labelSelector" not in each
    ]
    for kind in ("podAffinity", "podAntiAffinity"):
        given = look(spec, "affinity", kind) or {}
        found += [
            f"{path}.affinity.{kind}.{_REQUIRED}[{index}].labelSelector: {_NO_POD}"
            for index, each in enumerate(given.get(_REQUIRED) or ())
            if "labelSelector" not in each
        ]
        found += [
            f"{path}.affinity.{kind}.{_PREFERRED}[{index}].podAffinityTerm.labelSelector: {_NO_POD}"
            for index, each in enumerate(given.get(_PREFERRED) or ())
            if "labelSelector" not in (each.get("podAffinityTerm") or {})
        ]
    return found
