"""Decoding of request bodies, with the field validation that the client requests."""

import json
from collections import Counter
from typing import Any, Final

import msgspec

from mooring.api.json_depth import MAX_DEPTH, is_too_deep
from mooring.api.protobuf import ProtobufError, decode_object
from mooring.api.yaml_nodes import ReadError, plain
from mooring.api.yaml_reader import read_yaml
from mooring.apiserver.documents import Document
from mooring.cluster.api_resource import Resource
from mooring.cluster.errors import ApiError, bad_request, unsupported_media
from mooring.cluster.request_context import RequestContext
from mooring.cluster.schema.shape import definitions
from mooring.cluster.schema.strict_decoding import DecodeError, check, prune_custom

_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
_TYPES: Final = ("application/json", "application/yaml", _PROTOBUF)
_decode: Final = msgspec.json.Decoder().decode


def parse_body(body: bytes, content_type: str) -> Any:
    """Decode a body."""
    media = content_type.partition(";")[0].strip()
    if media in {"", "application/json"} or media.endswith("+json"):
        return _parse_json(body)
    if media == "application/yaml" or media.endswith("+yaml"):
        return _parse_yaml(body)
    if media == _PROTOBUF:
        try:
            return decode_object(body)
        except ProtobufError as error:
            raise bad_request(f"the body cannot be read as protobuf: {error}") from None
    raise unsupported_media(media, _TYPES)


def _parse_json(body: bytes) -> Any:
    if is_too_deep(body):
        raise _too_deep()
    try:
        return _decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_request(
            f"the object provided is unrecognized: couldn't get version/kind; json parse error: {error}"
        ) from None


def _parse_yaml(body: bytes) -> Any:
    if body.lstrip()[:1] == b"{":
        return _parse_json(body)
    try:
        parsed = plain(read_yaml(body.decode()))
        if is_too_deep(msgspec.json.encode(parsed)):
            raise _too_deep()
    except (ReadError, UnicodeError) as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    except RecursionError:
        raise _too_deep() from None
    return parsed


def _too_deep() -> ApiError:
    return bad_request(f"the object provided is nested more than {MAX_DEPTH} levels deep")


def read_document(body: bytes, content_type: str, resource: Resource, context: RequestContext) -> Document:
    """Return the object in a body. Raises ApiError if its kind is not that of the resource."""
    parsed = parse_body(body, content_type)
    if not isinstance(parsed, dict):
        raise bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal into Go value of type struct"
        )
    check_kind(parsed, resource)
    is_json = not content_type or "json" in content_type
    doubled = _duplicate_fields(body) if is_json and context.validation == "Strict" else []
    return checked(parsed, resource, context, doubled)


def metadata_of(document: Document) -> Document:
    """Return the metadata of an unchecked document, created if it is missing."""
    metadata = document.get("metadata")
    if metadata is None:
        metadata = document["metadata"] = {}
    if not isinstance(metadata, dict):
        raise bad_request("json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta")
    return metadata


def check_kind(document: Document, resource: Resource) -> None:
    """Raise ApiError unless the object has the kind of the resource."""
    kind = document.get("kind") or resource.kind
    version = document.get("apiVersion") or resource.group_version
    document.update(kind=kind, apiVersion=version)
    if version != resource.group_version:
        raise bad_request(
            f"the API version in the data ({version}) does not match the expected API version"
            f" ({resource.group_version})"
        )
    if kind != resource.kind:
        raise bad_request(
            f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}:'
            f" the path is for {resource.plural}, the body is a {kind}"
        )


def checked(
    document: Document, resource: Resource, context: RequestContext, doubled: list[str] | None = None
) -> Document:
    """Check a document and clean it in place. Unknown and duplicate fields are rejected, reported or ignored."""
    try:
        return cleaned(document, resource, context, doubled)
    except DecodeError as error:
        raise cannot_be_handled(resource, str(error)) from None


def cleaned(
    document: Document, resource: Resource, context: RequestContext, doubled: list[str] | None = None
) -> Document:
    """Clean a document like `checked`, but raise DecodeError instead of ApiError."""
    unknown = prune_custom(document, resource.shape) if resource.is_custom else check(document, resource.shape)
    faults = [f'unknown field "{each}"' for each in unknown] + [f'duplicate field "{each}"' for each in doubled or ()]
    if faults:
        if context.validation == "Strict":
            raise DecodeError("strict decoding error: " + ", ".join(faults))
        if context.validation == "Warn":
            context.warnings += faults
    document.setdefault("metadata", {})
    return document


def cannot_be_handled(resource: Resource, why: str) -> ApiError:
    """Return the error for a body that cannot be decoded."""
    return bad_request(f'{resource.kind} in version "{resource.version}" cannot be handled as a {resource.kind}: {why}')


def read_plain(body: bytes, content_type: str, definition: str, kind: str) -> Document:
    """Return a body that is not a stored object, such as DeleteOptions or a Scale; empty if there is none."""
    if not body.strip():
        return {}
    parsed = parse_body(body, content_type)
    if not isinstance(parsed, dict):
        raise bad_request(f"the body must be a {kind}")
    try:
        check(parsed, definitions().shape(definition))
    except DecodeError as error:
        raise bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {error}') from None
    return parsed


class _Marked(dict[str, Any]):
    """A JSON object with the names of its duplicate fields."""

    doubled: tuple[str, ...] = ()


def _pairs(pairs: list[tuple[str, Any]]) -> Document:
    found = _Marked(pairs)
    if len(found) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        found.doubled = tuple(key for key, count in counts.items() if count > 1)
    return found


def _duplicate_fields(body: bytes) -> list[str]:
    """Return the paths of duplicate fields."""
    found: list[str] = []
    _collect_duplicates(json.loads(body, object_pairs_hook=_pairs), "", found)
    return found


def _collect_duplicates(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, dict):
        found.extend(f"{path}.{key}" if path else key for key in getattr(value, "doubled", ()))
        for key, each in value.items():
            if isinstance(each, (dict, list)):
                _collect_duplicates(each, f"{path}.{key}" if path else key, found)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            _collect_duplicates(each, f"{path}[{index}]", found)
