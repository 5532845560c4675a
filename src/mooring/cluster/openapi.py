"""OpenAPI documents of the served resources, for kubectl to apply, patch and validate.

They have no descriptions: `kubectl explain` shows names and types.
"""

import hashlib
from collections.abc import Callable
from typing import Any, Final

from mooring.apiserver.documents import Document
from mooring.cluster.api_resource import Resource
from mooring.cluster.errors import no_such_path
from mooring.cluster.openapi_protobuf import encode_document
from mooring.cluster.rest_mapper import RestMapper
from mooring.cluster.schema.shape import VERSION, definitions, names_by_kind
from mooring.cluster.store import encode

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_WRITE_PARAMETERS: Final = ("dryRun", "fieldManager", "fieldValidation")
_METHODS: Final = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}


def _parameter(name: str) -> Document:
    kind = "boolean" if name == "force" else "string"
    return {"name": name, "in": "query", "schema": {"type": kind, "uniqueItems": True}}


def _kind(resource: Resource) -> Document:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


class OpenApi:
    """The OpenAPI documents, which are cached until the resources change."""

    def __init__(self, mapper: RestMapper) -> None:
        self._mapper = mapper
        self._made: dict[str, bytes] = {}
        self._generation = -1
        #: The schemas of custom resources by group, version and kind.
        self.custom: dict[tuple[str, str, str], Document] = {}

    def index(self) -> Document:
        """Return the document at `/openapi/v3`."""
        paths: Document = {}
        for group, versions in self._mapper.groups().items():
            for version in versions:
                path = f"apis/{group}/{version}" if group else f"api/{version}"
                digest = hashlib.sha256(self.version3(path)).hexdigest().upper()
                paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return {"paths": paths}

    def version3(self, path: str) -> bytes:
        """Return the document at `/openapi/v3/apis/GROUP/VERSION`."""
        return self._kept(path, lambda key: encode(self._version3(key)))

    def version2(self) -> bytes:
        """Return the document at `/openapi/v2`, which contains all resources."""
        return self._kept("v2", lambda _: encode(self._version2()))

    def version2_protobuf(self) -> bytes:
        """Return the document at `/openapi/v2` in protobuf, which kubectl asks for."""
        return self._kept("v2.protobuf", lambda _: encode_document(self._version2()))

    def _kept(self, key: str, make: Callable[[str], bytes]) -> bytes:
        if self._generation != self._mapper.generation:
            self._made.clear()
            self._generation = self._mapper.generation
        found = self._made.get(key)
        if found is None:
            found = self._made[key] = make(key)
        return found

    def _resources(self, path: str) -> list[Resource]:
        match path.split("/"):
            case ["api", version]:
                group = ""
            case ["apis", group, version] if group:
                pass
            case _:
                raise no_such_path()
        found = self._mapper.groups().get(group, {}).get(version)
        if not found:
            raise no_such_path()
        return found

    def _version3(self, path: str) -> Document:
        resources = self._resources(path)
        names = [self._name(each) for each in resources] + [_META]
        schemas = {name: _referring(self._schema(name), "#/components/schemas/") for name in self._closure(names)}
        paths: Document = {}
        for each in resources:
            paths.update(_paths(each, "/" + path))
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": VERSION},
            "paths": paths,
            "components": {"schemas": schemas},
        }

    def _version2(self) -> Document:
        names = [self._name(each) for each in self._mapper]
        found = {name: _flattened(_referring(self._schema(name), "#/definitions/")) for name in self._closure(names)}
        paths: Document = {}
        for each in self._mapper:
            paths.update(_paths(each, f"/apis/{each.group_version}" if each.group else "/api/v1", swagger=True))
        return {
            "swagger": "2.0",
            "info": {"title": "Kubernetes", "version": VERSION},
            "paths": paths,
            "definitions": found,
        }

    def _name(self, resource: Resource) -> str:
        if not resource.is_custom:
            return names_by_kind()[resource.group, resource.version, resource.kind]
        return ".".join([*reversed(resource.group.split(".")), resource.version, resource.kind])

    def _schema(self, name: str) -> Document:
        raw = definitions().raw.get(name)
        if raw is not None:
            return dict(raw)
        for (group, version, kind), schema in self.custom.items():
            if name == ".".join([*reversed(group.split(".")), version, kind]):
                return _custom_schema(schema, {"group": group, "version": version, "kind": kind})
        return {"type": "object"}

    def _closure(self, names: list[str]) -> list[str]:
        """Return the names of definitions and of all definitions that they refer to."""
        found: dict[str, None] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = None
                waiting += _references(self._schema(name))
        return sorted(found)


def _custom_schema(schema: Document, kind: Document) -> Document:
    properties = {
        **schema.get("properties", {}),
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"$ref": f"#/{_META}"},
    }
    return {**schema, "properties": properties, "x-kubernetes-group-version-kind": [kind]}


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        found = [value["$ref"][2:]] if isinstance(value.get("$ref"), str) else []
        return found + [each for inner in value.values() for each in _references(inner)]
    if isinstance(value, list):
        return [each for inner in value for each in _references(inner)]
    return []


def _referring(value: Any, prefix: str) -> Any:
    """Return a value with references for one version of OpenAPI."""
    if isinstance(value, dict):
        return {
            key: prefix + each[2:] if key == "$ref" and isinstance(each, str) else _referring(each, prefix)
            for key, each in value.items()
        }
    return [_referring(each, prefix) for each in value] if isinstance(value, list) else value


def _flattened(value: Any) -> Any:
    """Return a value for OpenAPI v2, where references stand alone and a field has one type."""
    if isinstance(value, dict):
        if len(value.get("allOf", ())) == 1:
            rest = {key: each for key, each in value.items() if key.startswith("x-")}
            return {**value["allOf"][0], **rest}
        if "oneOf" in value and "properties" not in value:
            return {"type": "string", **({"format": value["format"]} if "format" in value else {})}
        return {key: _flattened(each) for key, each in value.items() if key not in {"nullable", "default"}}
    return [_flattened(each) for each in value] if isinstance(value, list) else value


def _paths(resource: Resource, root: str, *, swagger: bool = False) -> Document:
    middle = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{root}{middle}/{resource.plural}"
    single: Document = {}
    for verb, method in _METHODS.items():
        if verb in resource.verbs:
            single[method] = _operation(resource, verb, swagger=swagger)
    several: Document = {}
    if "create" in resource.verbs:
        several["post"] = _operation(resource, "post", swagger=swagger)
    if "list" in resource.verbs:
        several["get"] = _operation(resource, "list", swagger=swagger)
    paths: Document = {}
    if several:
        paths[collection] = several
    if single:
        paths[collection + "/{name}"] = single
    return paths


def _operation(resource: Resource, verb: str, *, swagger: bool) -> Document:
    names = _WRITE_PARAMETERS if verb in {"update", "patch", "post"} else ("dryRun",) if verb == "delete" else ()
    parameters = [_parameter(name) for name in (*names, *(("force",) if verb == "patch" else ()))]
    if swagger:
        parameters = [{**each, **each.pop("schema")} for each in parameters]
    return {
        "operationId": f"{verb}{resource.kind}",
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
        "x-kubernetes-action": "put" if verb == "update" else verb,
        "x-kubernetes-group-version-kind": _kind(resource),
    }
