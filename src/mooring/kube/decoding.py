"""Decodes lists and watch events into typed objects. Hot path: one decoder for each kind, and no Python per object.

Kubernetes sometimes writes null for a list or a mapping. The fast decoders reject that, and `mooring.api.codec` decodes
the object again. An object that it rejects too is logged and skipped, because one invalid object must not stop a
scheduler.
"""

import functools
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec
import structlog

from mooring.api import KubeObject
from mooring.api.codec import cache_json, decode_json
from mooring.api.decode_errors import ManifestError
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.kube.api_resources import Resource
from mooring.kube.client_errors import ApiError, BadAnswer, error_from_status

ObjectT = TypeVar("ObjectT", bound=KubeObject)
EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
_KNOWN_TYPES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})
#: The annotation of the bookmark that ends the initial objects of a streamed list.
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

#: The number of cached decoders. It is bounded because plugins declare kinds again at each reload.
_DECODERS: Final = 64

log: Final = structlog.get_logger(__name__)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct, Generic[ObjectT]):
    metadata: _ListMeta
    items: list[ObjectT] | None = None


class _RawList(msgspec.Struct):
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct, Generic[ObjectT]):
    type: str
    object: ObjectT


class _RawLine(msgspec.Struct):
    type: str
    object: msgspec.Raw


class Page(NamedTuple, Generic[ObjectT]):
    """One page of a list: its resource version, and the token for the next page, empty on the last."""

    items: list[ObjectT]
    resource_version: str
    continue_token: str


class WatchEvent(NamedTuple, Generic[ObjectT]):
    """One watch event. `object` is None if it could not be decoded; `version` is valid nevertheless."""

    type: EventType
    object: ObjectT | None
    version: str


def decode_page(body: bytes, resource: Resource[ObjectT]) -> Page[ObjectT]:
    """Decode a list. Raises BadAnswer."""
    model = resource.model
    try:
        if resource.caches_json is not None:
            return _decode_raw_page(body, resource)
        page = _list_decoder(model).decode(body)
        items = page.items or []
        metadata = page.metadata
    except msgspec.ValidationError:
        raw = _raw_page(body)
        metadata = raw.metadata
        items = [each for each in (_decode_leniently(item, model) for item in raw.items or ()) if each is not None]
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadAnswer(f"a list of {model.__name__} is not JSON: {error}") from None
    return Page(items, metadata.resource_version, metadata.continue_)


def decode_line(line: bytes, resource: Resource[ObjectT]) -> "WatchEvent[ObjectT] | ApiError":
    """Decode a watch event, or return the error with which the server ends the watch. Raises BadAnswer."""
    model = resource.model
    try:
        if resource.caches_json is not None:
            return _decode_raw_line(line, resource)
        decoded = _line_decoder(model).decode(line)
    except msgspec.ValidationError:
        return _decode_unusual_line(line, model)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadAnswer(f"a watch event of {model.__name__} is not JSON: {error}") from None
    if decoded.type not in _KNOWN_TYPES:
        return _decode_unusual_line(line, model)
    return WatchEvent(decoded.type, decoded.object, decoded.object.metadata.resource_version)  # type: ignore[arg-type]  # checked above


def _decode_raw_page(body: bytes, resource: Resource[ObjectT]) -> Page[ObjectT]:
    raw = _raw_page(body)
    items = [each for each in (_decode_and_cache(item, resource) for item in raw.items or ()) if each is not None]
    return Page(items, raw.metadata.resource_version, raw.metadata.continue_)


def _decode_raw_line(line: bytes, resource: Resource[ObjectT]) -> "WatchEvent[ObjectT] | ApiError":
    raw = msgspec.json.decode(line, type=_RawLine)
    decoded = _decode_and_cache(raw.object, resource) if raw.type in _KNOWN_TYPES and raw.type != "BOOKMARK" else None
    if decoded is None:
        return _decode_unusual_line(line, resource.model)
    return WatchEvent(raw.type, decoded, decoded.metadata.resource_version)  # type: ignore[arg-type]  # checked above


def _decode_and_cache(raw: msgspec.Raw, resource: Resource[ObjectT]) -> ObjectT | None:
    """Decode an object, and store its JSON text if the resource selects it."""
    decoded = _decode_leniently(raw, resource.model)
    if isinstance(decoded, Pod | Node) and resource.caches_json is not None and resource.caches_json(decoded):
        cache_json(decoded, bytes(raw))
    return decoded


def _raw_page(body: bytes) -> _RawList:
    try:
        return msgspec.json.decode(body, type=_RawList)
    except msgspec.ValidationError as error:
        raise BadAnswer(f"not a list: {error}") from None


def _decode_unusual_line(line: bytes, model: type[ObjectT]) -> "WatchEvent[ObjectT] | ApiError":
    try:
        raw = msgspec.json.decode(line, type=_RawLine)
    except msgspec.ValidationError as error:
        raise BadAnswer(f"not a watch event: {error}") from None
    if raw.type == "ERROR":
        return error_from_status(raw.object)
    if raw.type not in _KNOWN_TYPES:
        raise BadAnswer(f"a watch sent an event of unknown type {raw.type[:20]!r}")
    if raw.type == "BOOKMARK":  # a bookmark has only metadata
        mark = _bare(raw.object)
        return WatchEvent("BOOKMARK", mark, mark.metadata.resource_version)  # type: ignore[arg-type]  # metadata only
    decoded = _decode_leniently(raw.object, model)
    if decoded is not None:
        return WatchEvent(raw.type, decoded, decoded.metadata.resource_version)  # type: ignore[arg-type]  # checked above
    bare = _bare(raw.object)
    # The name is enough to delete an object.
    gone = bare if raw.type == "DELETED" else None
    return WatchEvent(raw.type, gone, bare.metadata.resource_version)  # type: ignore[arg-type]  # checked above


def _decode_leniently(raw: msgspec.Raw, model: type[ObjectT]) -> ObjectT | None:
    try:
        return decode_json(bytes(raw), model)
    except ManifestError as error:
        _warn_once(model.__name__, str(error))
        return None


@functools.lru_cache(maxsize=1024)
def _warn_once(kind: str, text: str) -> None:
    """Log a problem the first time: every list contains the same object again."""
    log.warning("an object cannot be decoded and is ignored", kind=kind, error=text)


def _bare(raw: msgspec.Raw) -> KubeObject:
    """Return an object with only the metadata of an object that cannot be decoded, or None."""
    try:
        return msgspec.json.decode(raw, type=KubeObject)
    except msgspec.DecodeError:
        return KubeObject()


@functools.lru_cache(maxsize=_DECODERS)
def _list_decoder(model: type[ObjectT]) -> "msgspec.json.Decoder[_List[ObjectT]]":
    return msgspec.json.Decoder(_List[model])  # type: ignore[valid-type]  # a class made at run time


@functools.lru_cache(maxsize=_DECODERS)
def _line_decoder(model: type[ObjectT]) -> "msgspec.json.Decoder[_Line[ObjectT]]":
    decoder: Any = msgspec.json.Decoder(_Line[model])  # type: ignore[valid-type]  # a class made at run time
    return decoder  # type: ignore[no-any-return]  # as declared
