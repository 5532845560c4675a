"""Volcano's queues and groups as a cluster can serve them, without any rules for their fields."""

from __future__ import annotations

from typing import Any

GROUP = "scheduling.volcano.sh"


def definition(kind: str, *, namespaced: bool, status: bool) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    version: dict[str, Any] = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
    }
    if status:
        version["subresources"] = {"status": {}}
    names = {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": names,
            "scope": "Namespaced" if namespaced else "Cluster",
            "versions": [version],
        },
    }


#: As Volcano installs them: queues have a status subresource, groups have none.
QUEUE = definition("Queue", namespaced=False, status=True)
POD_GROUP = definition("PodGroup", namespaced=True, status=False)
POD_GROUP_WITH_STATUS = definition("PodGroup", namespaced=True, status=True)
