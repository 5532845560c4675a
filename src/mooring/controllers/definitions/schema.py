"""Short ways to write the structural schemas of custom resources."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

Schema = dict[str, Any]

#: What Kubernetes takes for a quantity.
_QUANTITY: Final = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_NAME_LENGTH: Final = 253
#: By this label we know again what we put on a cluster.
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
OURS: Final = "mooring"


def text(*choices: str, **more: Any) -> Schema:
    """A string, perhaps one of a few."""
    return {"type": "string", **({"enum": list(choices)} if choices else {}), **more}


def name(**more: Any) -> Schema:
    """The name of an object."""
    return text(maxLength=_NAME_LENGTH, **more)


def count(**more: Any) -> Schema:
    """A number of things, none by default."""
    return {"type": "integer", "format": "int32", "minimum": 0, **more}


def number(**more: Any) -> Schema:
    """An integer that may be negative."""
    return {"type": "integer", "format": "int32", **more}


def flag() -> Schema:
    """True or false."""
    return {"type": "boolean"}


def moment() -> Schema:
    """A time."""
    return text(format="date-time")


def listed(items: Schema, **more: Any) -> Schema:
    """A list."""
    return {"type": "array", "items": items, **more}


def mapped(values: Schema) -> Schema:
    """A mapping from any name."""
    return {"type": "object", "additionalProperties": values}


def made_of(properties: Mapping[str, Schema], required: Iterable[str] = (), **more: Any) -> Schema:
    """An object with these fields."""
    found: Schema = {"type": "object", "properties": dict(properties), **more}
    if names := list(required):
        found["required"] = names
    return found


def amounts() -> Schema:
    """Quantities by resource."""
    quantity = {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": _QUANTITY,
        "x-kubernetes-int-or-string": True,
    }
    return mapped(quantity)


def anything() -> Schema:
    """An object of another kind, whose rules are kept where it ends up (a pod template, the spec of a claim)."""
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def label_selector() -> Schema:
    """A label selector."""
    expression = made_of(
        {"key": text(), "operator": text(), "values": listed(text())},
        required=("key", "operator"),
    )
    return made_of({"matchExpressions": listed(expression), "matchLabels": mapped(text())})


def network_topology() -> Schema:
    """How near to each other pods must be."""
    return made_of(
        {
            "mode": text("hard", "soft", default="hard"),
            "highestTierAllowed": {"type": "integer", "minimum": 0},
            "highestTierName": name(),
        }
    )


def column(title: str, path: str, kind: str = "string", *, priority: int = 0) -> dict[str, Any]:
    """A column of `kubectl get`."""
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
    namespaced: bool = True,
    status: bool = False,
) -> dict[str, Any]:
    """The CustomResourceDefinition of a kind; ``status`` gives it a status subresource."""
    plural = f"{kind.lower()}s"
    served: dict[str, Any] = {
        "name": version,
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": made_of(
                {"apiVersion": text(), "kind": text(), "metadata": {"type": "object"}, **properties}
            )
        },
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
        "metadata": {"name": f"{plural}.{group}", "labels": {MANAGED_BY: OURS}},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [served],
        },
    }
