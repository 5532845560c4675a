"""CustomResourceDefinitions of declared kinds, as ``kubectl apply`` takes them."""

from __future__ import annotations

import re
from typing import Any, Final

from mooring.framework.custom_resources import CustomResource
from mooring.framework.custom_schemas import column_of, schema_of

#: Groups that belong to Kubernetes: a server takes definitions in them only with a word about approval.
_PROTECTED: Final = re.compile(r"(.*\.)?(k8s|kubernetes)\.io")
_APPROVAL: Final = "api-approved.kubernetes.io"
_AGE: Final = {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}


def definition_of(kind: type[CustomResource]) -> dict[str, Any]:
    """The CustomResourceDefinition of a declared kind. Raises DeclarationError."""
    declared = kind.declaration
    metadata: dict[str, Any] = {"name": declared.definition_name}
    if _PROTECTED.fullmatch(declared.group):
        metadata["annotations"] = {_APPROVAL: "unapproved, made from a plugin's declaration"}
    names: dict[str, Any] = {
        "kind": declared.kind,
        "listKind": f"{declared.kind}List",
        "plural": declared.plural,
        "singular": declared.singular,
    }
    if declared.short_names:
        names["shortNames"] = list(declared.short_names)
    if declared.categories:
        names["categories"] = list(declared.categories)
    version: dict[str, Any] = {
        "name": declared.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema_of(kind)},
    }
    if "status" in kind.__struct_fields__:
        version["subresources"] = {"status": {}}
    if declared.columns:
        columns = [column_of(kind, heading, path) for heading, path in declared.columns.items()]
        version["additionalPrinterColumns"] = [*columns, _AGE]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": {"group": declared.group, "scope": declared.scope, "names": names, "versions": [version]},
    }
