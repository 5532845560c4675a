"""The resources that CustomResourceDefinitions define."""

from typing import Any, Final, NamedTuple

from mooring.apiserver.documents import Document, deep_copy, replaced, rfc3339
from mooring.apiserver.field_errors import FieldError
from mooring.cluster.api_resource import Resource
from mooring.cluster.custom_resources.printer_columns import custom_columns
from mooring.cluster.custom_resources.schema_validation import schema_errors
from mooring.cluster.deletion import CLEANUP
from mooring.cluster.kind import ALL_METADATA, Kind
from mooring.cluster.openapi import OpenApi
from mooring.cluster.registry import Registry
from mooring.cluster.schema.shape import ANY, BOOLEAN, INT_OR_STRING, INTEGER, LIST, MAP, NUMBER, OBJECT, STRING, Shape
from mooring.cluster.selectors import field_reader
from mooring.cluster.store import ADDED, DELETED, MODIFIED, Change, Stored
from mooring.cluster.watch import Broadcaster

_SCALARS: Final = {"string": STRING, "integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN}
DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"


class _Version(NamedTuple):
    """One version of a custom resource."""

    schema: Document
    scale: Document | None
    storage: Resource


class CustomResources:
    """All served custom resources."""

    def __init__(self, registry: Registry, openapi: OpenApi, broadcaster: Broadcaster) -> None:
        self._registry = registry
        self._openapi = openapi
        self._watches = broadcaster
        self._versions: dict[tuple[str, str, str], _Version] = {}
        registry.store.subscribe(self._changed)

    def load(self) -> None:
        """Serve the stored definitions."""
        for stored in self._registry.store.objects(DEFINITIONS):
            self._serve(stored.document)

    def _changed(self, storage: str, change: Change) -> None:
        if storage != DEFINITIONS:
            return
        document = change.stored.document
        if change.kind == DELETED:
            self._withdraw(document)
        elif change.kind in {ADDED, MODIFIED}:
            self._serve(document)

    def stored(self, resource: Resource, stored: Stored) -> None:
        """Accept the names of a new or changed definition, and write that to its status."""
        if resource.stored_as != DEFINITIONS:
            return
        self._serve(stored.document)
        name = stored.document["metadata"]["name"]
        now = rfc3339(self._registry.clock())
        self._registry.modify(DEFINITIONS, "", name, lambda each: _accepted(each, now))

    def removed(self, resource: Resource, stored: Stored, *, gone: bool) -> None:
        """Delete the objects of a deleted definition, and then the definition."""
        if resource.stored_as != DEFINITIONS or gone:
            # The definition has no finalizer, or is already deleted.
            return
        document = stored.document
        group, plural = document["spec"]["group"], document["spec"]["names"]["plural"]
        storage = f"{plural}.{group}"
        store = self._registry.store
        for each in list(store.objects(storage)):
            metadata = each.document["metadata"]
            store.remove(storage, metadata.get("namespace", ""), metadata["name"])
        self._registry.modify(DEFINITIONS, "", document["metadata"]["name"], _without_cleanup)

    def _serve(self, document: Document) -> None:
        spec = document["spec"]
        group, names = spec["group"], spec["names"]
        versions = [each for each in spec["versions"] if each.get("served")]
        storage = next((each for each in spec["versions"] if each.get("storage")), spec["versions"][0])
        native = _resource(spec, storage)
        before = {key for key in self._versions if key[0] == group and key[1] == names["plural"]}
        for version in versions:
            resource = _resource(spec, version)
            schema = (version.get("schema") or {}).get("openAPIV3Schema") or {}
            key = (group, names["plural"], version["name"])
            self._versions[key] = _Version(schema, (version.get("subresources") or {}).get("scale"), native)
            self._registry.mapper.add(_kind(resource, version, schema))
            self._openapi.custom[group, version["name"], names["kind"]] = schema
            before.discard(key)
        if native.version not in {each["name"] for each in versions}:
            self._registry.mapper.define(_kind(native, storage, {}))
        for key in before:
            del self._versions[key]

    def _withdraw(self, document: Document) -> None:
        spec = document["spec"]
        group, plural = spec["group"], spec["names"]["plural"]
        self._registry.mapper.remove(group, plural)
        for key in [key for key in self._versions if key[:2] == (group, plural)]:
            del self._versions[key]
        self._watches.cut(f"{plural}.{group}")

    def _version(self, resource: Resource) -> _Version | None:
        return self._versions.get((resource.group, resource.plural, resource.version))

    def native(self, resource: Resource) -> Resource:
        """Return the version in which objects of a resource are stored."""
        if resource.stored_as == "events" and resource.group:
            return self._registry.mapper.of("events")
        found = self._version(resource)
        return resource if found is None else found.storage

    def complete(self, resource: Resource, document: Document) -> None:
        """Set the defaults of the schema in place."""
        found = self._version(resource)
        if found is not None:
            _set_defaults(document, found.schema)

    def scale(self, resource: Resource) -> Document | None:
        """Return the `scale` paths of a custom resource, or None."""
        found = self._version(resource)
        return None if found is None else found.scale


def _resource(spec: Document, version: Document) -> Resource:
    names = spec["names"]
    subresources = version.get("subresources") or {}
    return Resource(
        spec["group"],
        version["name"],
        names["plural"],
        names["kind"],
        spec["scope"] == "Namespaced",
        tuple(names.get("shortNames", ())),
        tuple(names.get("categories", ())),
        tuple(each for each in ("scale", "status") if each in subresources),
        singular=names.get("singular", ""),
        custom_shape=_shape_of((version.get("schema") or {}).get("openAPIV3Schema") or {}),
        list_kind=names.get("listKind", ""),
    )


def _kind(resource: Resource, version: Document, schema: Document) -> Kind:
    def validate(document: Document) -> list[FieldError]:
        part: dict[str, Any] = {key: value for key, value in document.items() if key != "metadata"}
        return schema_errors(part, _without_metadata(schema))

    paths = [each["jsonPath"].lstrip(".") for each in version.get("selectableFields", ())]
    return Kind(
        resource,
        validate=validate,
        columns=custom_columns(version),
        fields={path: field_reader(*path.split(".")) for path in paths},
        status_protects=ALL_METADATA,
        counts_generation=True,
        unconditional_update=False,
    )


def _without_metadata(schema: Document) -> Document:
    properties = schema.get("properties")
    if not properties or "metadata" not in properties:
        return schema
    return {**schema, "properties": {key: each for key, each in properties.items() if key != "metadata"}}


def _accepted(document: Document, now: str) -> Document:
    status = deep_copy(document.get("status", {}))
    names = deep_copy(document["spec"]["names"])
    conditions = {each["type"]: each for each in status.get("conditions") or ()}
    for kind, reason, message in (
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        ("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ):
        conditions.setdefault(
            kind,
            {"type": kind, "status": "True", "lastTransitionTime": now, "reason": reason, "message": message},
        )
    stored = list(status.get("storedVersions", ()))
    for each in document["spec"]["versions"]:
        if each.get("storage") and each["name"] not in stored:
            stored.append(each["name"])
    fresh = {"acceptedNames": names, "conditions": list(conditions.values()), "storedVersions": stored}
    return {**document, "status": fresh}


def _without_cleanup(document: Document) -> Document:
    rest = [each for each in document["metadata"].get("finalizers", ()) if each != CLEANUP]
    return {**document, "metadata": replaced(document["metadata"], finalizers=rest or None)}


def _shape_of(schema: dict[str, Any]) -> Shape:
    """Return the shape of a structural schema."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return Shape(INT_OR_STRING)
    if kind == "object":
        shape = _object_shape(schema)
    elif kind == "array":
        shape = Shape(LIST)
        shape.item = _shape_of(schema.get("items") or {})
        shape.list_type = schema.get("x-kubernetes-list-type", "atomic")
        shape.list_keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    else:
        shape = Shape(_SCALARS.get(kind or "", ANY))
    shape.nullable = bool(schema.get("nullable"))
    shape.default = schema.get("default")
    return shape


def _object_shape(schema: dict[str, Any]) -> Shape:
    extra = schema.get("additionalProperties")
    properties = schema.get("properties") or {}
    shape = Shape(MAP if extra and not properties else OBJECT)
    shape.fields = {key: _shape_of(each) for key, each in properties.items()}
    shape.required = frozenset(schema.get("required", ()))
    shape.open = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or bool(extra)
    shape.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    shape.atomic = schema.get("x-kubernetes-map-type") == "atomic"
    if isinstance(extra, dict):
        shape.item = _shape_of(extra)
    return shape


def _set_defaults(value: Any, schema: dict[str, Any]) -> None:
    """Set the defaults of a schema in place. Null counts as absent unless it is allowed."""
    if isinstance(value, dict):
        for key, each in (schema.get("properties") or {}).items():
            if value.get(key) is None and not each.get("nullable") and ("default" in each or key in value):
                value.pop(key, None)
                if "default" in each:
                    value[key] = deep_copy(each["default"])
            if key in value:
                _set_defaults(value[key], each)
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            for each in value.values():
                _set_defaults(each, extra)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for each in value:
            _set_defaults(each, schema["items"])
