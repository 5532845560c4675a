"""CustomResourceDefinitions. The resources that they define are served by `mooring.cluster.custom_resources`."""

from typing import Any, Final

from mooring.api.patterns import PatternIssue, compile_pattern
from mooring.apiserver.documents import Document
from mooring.apiserver.field_errors import FieldError, invalid, required
from mooring.apiserver.field_rules import choice, immutable
from mooring.apiserver.object_names import dns_1035_label, dns_subdomain
from mooring.apiserver.volcano_admission.review import HOOKS
from mooring.cluster.api_resource import Resource
from mooring.cluster.kind import ALL_METADATA, Kind
from mooring.cluster.store import Store
from mooring.cluster.table_printer import PLAIN

_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")
_NO_CEL: Final = (
    "x-kubernetes-validations: the embedded cluster does not evaluate these rules (CEL): objects that they forbid are"
    " accepted"
)


def _set_custom_resource_definition_defaults(document: Document) -> None:
    spec = document["spec"]
    names = spec["names"]
    if names.get("kind"):
        names.setdefault("singular", names["kind"].lower())
        names.setdefault("listKind", f"{names['kind']}List")
    spec.setdefault("conversion", {"strategy": "None"})


def _prepare(document: Document, _store: Store, _now: float) -> None:
    document["status"] = {"acceptedNames": {"kind": "", "plural": ""}, "conditions": None, "storedVersions": [
        each["name"] for each in document["spec"].get("versions", ()) if each.get("storage")
    ]}  # fmt: skip


def _definition_errors(document: Document) -> list[FieldError]:
    spec = document["spec"]
    names, versions = spec.get("names") or {}, spec.get("versions") or []
    name, wanted = document["metadata"].get("name", ""), f"{names.get('plural', '')}.{spec.get('group', '')}"
    errors: list[FieldError] = []
    if name != wanted:
        detail = 'must be spec.names.plural+"."+spec.group'
        errors.append(invalid("metadata.name", name, detail))
    if not spec.get("group"):
        errors.append(required("spec.group"))
    else:
        errors += [invalid("spec.group", spec["group"], fault) for fault in dns_subdomain(spec["group"])]
        if "." not in spec["group"]:
            errors.append(invalid("spec.group", spec["group"], "should be a domain with at least one dot"))
    errors += choice(spec.get("scope"), "spec.scope", ("Cluster", "Namespaced"), needed=True)
    for key in ("plural", "kind"):
        if not names.get(key):
            errors.append(required(f"spec.names.{key}"))
    for key in ("plural", "singular"):
        if names.get(key):
            errors += [invalid(f"spec.names.{key}", names[key], fault) for fault in dns_1035_label(names[key])]
    return errors + _versions(versions)


def _versions(versions: list[Document]) -> list[FieldError]:
    if not versions:
        return [required("spec.versions", "must have at least one version")]
    errors: list[FieldError] = []
    if sum(bool(each.get("storage")) for each in versions) != 1:
        shown = [each.get("name") for each in versions]
        errors.append(invalid("spec.versions", shown, "must have exactly one version marked as storage version"))
    for index, each in enumerate(versions):
        path = f"spec.versions[{index}]"
        errors += [
            invalid(f"{path}.name", each.get("name", ""), fault) for fault in dns_1035_label(each.get("name", ""))
        ]
        schema = (each.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            errors.append(required(f"{path}.schema.openAPIV3Schema"))
        else:
            # With one version, Kubernetes reports the field that contained the schema before there were versions.
            place = "spec.validation.openAPIV3Schema" if len(versions) == 1 else f"{path}.schema.openAPIV3Schema"
            errors += _schema(schema, place, root=True)
    return errors


def _schema(schema: Any, path: str, *, root: bool = False) -> list[FieldError]:
    """Return the errors of a schema that is not structural."""
    if not isinstance(schema, dict):
        return []
    errors: list[FieldError] = []
    for key, each in (schema.get("properties") or {}).items():
        if not (root and key in {"metadata", "apiVersion", "kind"}):
            errors += _schema(each, f"{path}.properties[{key}]")
    errors += _schema(schema.get("items"), f"{path}.items")
    errors += _schema(schema.get("additionalProperties"), f"{path}.additionalProperties")
    return errors + _own(schema, path, root=root)


def _own(schema: Document, path: str, *, root: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    kind = schema.get("type")
    if root and kind is None:
        errors.append(required(f"{path}.type", "must not be empty at the root"))
    elif root and kind != "object":
        errors.append(invalid(f"{path}.type", kind, "must be object at the root"))
    elif kind is None:
        if not (schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")):
            errors.append(required(f"{path}.type", "must not be empty for specified object fields"))
    else:
        errors += choice(kind, f"{path}.type", _TYPES)
    if kind == "array" and not isinstance(schema.get("items"), dict):
        errors.append(required(f"{path}.items", "must be specified"))
    if "pattern" in schema:
        try:
            compile_pattern(schema["pattern"])
        except PatternIssue as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            errors.append(invalid(f"{path}.pattern", schema["pattern"], detail))
    return errors


def _definition_update_errors(new: Document, old: Document) -> list[FieldError]:
    fresh, before = new["spec"], old["spec"]
    errors = immutable(fresh.get("group"), before.get("group"), "spec.group")
    errors += immutable(fresh.get("scope"), before.get("scope"), "spec.scope")
    for key in ("kind", "plural"):
        errors += immutable(fresh["names"].get(key), before["names"].get(key), f"spec.names.{key}")
    return errors


def _warnings(document: Document) -> list[str]:
    # The rules of Volcano's kinds are applied by admission.
    reviewed = {f"{each.resource}.{each.group}" for each in HOOKS}
    if document["metadata"].get("name") in reviewed:
        return []
    return [_NO_CEL] if "x-kubernetes-validations" in repr(document["spec"]) else []


CUSTOM_RESOURCE_DEFINITION: Final = Kind(
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=("status",),
    ),
    set_defaults=_set_custom_resource_definition_defaults,
    prepare=_prepare,
    status_protects=ALL_METADATA,
    validate=_definition_errors,
    validate_update=_definition_update_errors,
    warnings=_warnings,
    columns=PLAIN,
    counts_generation=True,
    unconditional_update=False,
)
