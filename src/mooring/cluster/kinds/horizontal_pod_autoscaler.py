"""HorizontalPodAutoscalers. They are stored, and nothing scales."""

from typing import Any, Final

from mooring.apiserver.documents import Document, nested_field
from mooring.apiserver.field_errors import FieldError, invalid, required
from mooring.cluster.api_resource import Resource
from mooring.cluster.kind import Kind, no_controller_warning
from mooring.cluster.table_printer import NONE, UNKNOWN, UNSET, age, columns

_DEFAULT_METRIC: Final = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def _set_defaults(document: Document) -> None:
    spec = document["spec"]
    spec.setdefault("minReplicas", 1)
    if not spec.get("metrics"):
        spec["metrics"] = [_DEFAULT_METRIC]
    document["status"].setdefault("desiredReplicas", 0)
    document["status"].setdefault("currentMetrics", None)


def _errors(document: Document) -> list[FieldError]:
    spec = document["spec"]
    errors = [
        required(f"spec.scaleTargetRef.{key}")
        for key in ("kind", "name")
        if not nested_field(spec, "scaleTargetRef", key)
    ]
    version = nested_field(spec, "scaleTargetRef", "apiVersion") or ""
    if "/" not in version and version != "v1":
        errors.append(invalid("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group"))
    least, most = spec.get("minReplicas", 1), spec.get("maxReplicas", 0)
    if least < 1:
        errors.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most < 1:
        errors.append(required("spec.maxReplicas", "must be set and greater than 0"))
    if most < least:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`"))
    return errors


def _target(metric: Document) -> str:
    kind = str(metric.get("type", ""))
    source = metric.get(kind[:1].lower() + kind[1:]) or {}
    target = source.get("target") or {}
    if "averageUtilization" in target:
        return f"{source.get('name', '')}: {UNKNOWN}/{target['averageUtilization']}%"
    wanted = target.get("averageValue") or target.get("value") or UNSET
    name = source.get("name")
    return f"{name}: {UNKNOWN}/{wanted}" if name else f"{UNKNOWN}/{wanted}"


def _row(document: Document, now: float) -> list[Any]:
    spec, target = document["spec"], document["spec"].get("scaleTargetRef") or {}
    return [
        document["metadata"]["name"],
        f"{target.get('kind', '')}/{target.get('name', '')}",
        ", ".join(map(_target, spec.get("metrics") or ())) or NONE,
        str(spec.get("minReplicas", UNSET)),
        str(spec.get("maxReplicas", 0)),
        str(nested_field(document, "status", "currentReplicas") or 0),
        age(document, now),
    ]


HORIZONTAL_POD_AUTOSCALER: Final = Kind(
    Resource(
        "autoscaling",
        "v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        short_names=("hpa",),
        categories=("all",),
        subresources=("status",),
    ),
    set_defaults=_set_defaults,
    initial_status={"desiredReplicas": 0, "currentMetrics": None},
    validate=_errors,
    warnings=no_controller_warning("HorizontalPodAutoscalers"),
    columns=columns("Name Reference Targets MinPods MaxPods Replicas Age", _row),
)
