"""Helpers that build structural schemas and CustomResourceDefinitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from mooring.controllers.definitions.validation_rules import Rules, with_rules

Schema = dict[str, Any]

#: The pattern of a Kubernetes quantity.
_QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_NAME_LENGTH: Final = 253
#: The patterns of a DNS subdomain, as the names of most objects, and of a DNS label.
SUBDOMAIN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
#: The patterns of the type and the reason of a condition.
_CONDITION_TYPE: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
_CONDITION_REASON: Final = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
#: What marks a list, or an object, that server-side apply replaces as a whole.
ATOMIC_LIST: Final[Mapping[str, str]] = {"x-kubernetes-list-type": "atomic"}
ATOMIC_MAP: Final[Mapping[str, str]] = {"x-kubernetes-map-type": "atomic"}
#: The label that identifies definitions that Mooring installed.
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MOORING: Final = "mooring"


def text(*choices: str, **more: Any) -> Schema:
    """Return the schema of a string, optionally an enum."""
    return {"type": "string", **({"enum": list(choices)} if choices else {}), **more}


def name(**more: Any) -> Schema:
    """Return the schema of the name of an object."""
    return text(maxLength=_NAME_LENGTH, **more)


def count(**more: Any) -> Schema:
    """Return the schema of a nonnegative integer."""
    return {"type": "integer", "format": "int32", "minimum": 0, **more}


def number(**more: Any) -> Schema:
    """Return the schema of an integer that may be negative."""
    return {"type": "integer", "format": "int32", **more}


def flag() -> Schema:
    """Return the schema of a boolean."""
    return {"type": "boolean"}


def moment() -> Schema:
    """Return the schema of a timestamp."""
    return text(format="date-time")


def listed(items: Schema, **more: Any) -> Schema:
    """Return the schema of an array."""
    return {"type": "array", "items": items, **more}


def mapped(values: Schema) -> Schema:
    """Return the schema of a map with string keys."""
    return {"type": "object", "additionalProperties": values}


def made_of(properties: Mapping[str, Schema], required: Iterable[str] = (), **more: Any) -> Schema:
    """Return the schema of an object with the given properties."""
    found: Schema = {"type": "object", "properties": dict(properties), **more}
    if names := list(required):
        found["required"] = names
    return found


def amounts() -> Schema:
    """Return the schema of a map from resource name to quantity."""
    quantity = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": _QUANTITY,
        "x-kubernetes-int-or-string": True,
    }
    return mapped(quantity)


def anything() -> Schema:
    """Return the schema of an object that is validated elsewhere (a pod template, the spec of a claim)."""
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def label_selector() -> Schema:
    """Return the schema of a label selector."""
    expression = made_of(
        {"key": text(), "operator": text(), "values": listed(text(), **ATOMIC_LIST)},
        required=("key", "operator"),
    )
    return made_of({"matchExpressions": listed(expression, **ATOMIC_LIST), "matchLabels": mapped(text())}, **ATOMIC_MAP)


def condition() -> Schema:
    """Return the schema of a condition of a status."""
    return made_of(
        {
            "type": text(maxLength=316, pattern=_CONDITION_TYPE),
            "status": text("True", "False", "Unknown"),
            "observedGeneration": {"type": "integer", "format": "int64", "minimum": 0},
            "lastTransitionTime": moment(),
            "reason": text(minLength=1, maxLength=1024, pattern=_CONDITION_REASON),
            "message": text(maxLength=32768),
        },
        required=("lastTransitionTime", "message", "reason", "status", "type"),
    )


def without_defaults(schema: Schema) -> Schema:
    """Return a schema without the defaults of its fields."""
    found = {key: value for key, value in schema.items() if key != "default"}
    if "properties" in found:
        found["properties"] = {key: without_defaults(each) for key, each in found["properties"].items()}
    for key in ("items", "additionalProperties"):
        if key in found:
            found[key] = without_defaults(found[key])
    return found


def network_topology() -> Schema:
    """Return the schema of a network topology constraint."""
    return made_of(
        {
            "mode": text("hard", "soft", default="hard"),
            "highestTierAllowed": {"type": "integer", "minimum": 0},
            "highestTierName": name(),
        }
    )


def column(title: str, path: str, kind: str = "string", *, priority: int = 0) -> dict[str, Any]:
    """Return a printer column of `kubectl get`."""
    found: dict[str, Any] = {"name": title, "jsonPath": path, "type": kind}
    return {**found, "priority": priority} if priority else found


def definition(
    group: str,
    version: str,
    kind: str,
    *,
    properties: Mapping[str, Schema],
    columns: Iterable[Mapping[str, Any]] = (),
    short_names: Iterable[str] = (),
    required: Iterable[str] = (),
    plural: str = "",
    namespaced: bool = True,
    status: bool = False,
    rules: Rules | None = None,
) -> dict[str, Any]:
    """Return the CustomResourceDefinition of a kind. ``status`` adds the status subresource."""
    plural = plural or f"{kind.lower()}s"
    fields = {"apiVersion": text(), "kind": text(), "metadata": {"type": "object"}, **properties}
    served: dict[str, Any] = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": with_rules(made_of(fields, required=required), rules or {})},
    }
    if shown := [dict(each) for each in columns]:
        served["additionalPrinterColumns"] = shown
    if status:
        served["subresources"] = {"status": {}}
    names: dict[str, Any] = {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()}
    if shorts := list(short_names):
        names["shortNames"] = shorts
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "labels": {MANAGED_BY: MOORING}},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [served],
        },
    }
