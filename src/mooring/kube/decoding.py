"""Decoding of lists and watch events into typed objects. Hot path: one decoder per kind, no Python code per object.

Kubernetes sometimes writes null for a list or a mapping. The fast decoders reject that, and `mooring.api.codec` decodes
the object again. An object that it rejects too is reported and skipped, because one invalid object must not stop a
scheduler. Values that are nested too deeply for the decoders are removed first.
"""

import functools
import gc
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from mooring.api import KubeObject, ObjectReference
from mooring.api.codec import cache_json, decode_json
from mooring.api.decode_errors import ManifestError
from mooring.api.json_depth import MAX_DEPTH, prune_json
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.protobuf.decode import MAGIC
from mooring.kube.api_resources import RESOURCES, Resource
from mooring.kube.binding_bodies import to_json
from mooring.kube.client_errors import ApiError, BadAnswer, error_from_status
from mooring.kube.event_bodies import is_protobuf_event
from mooring.logs import get_logger
from mooring.unexpected_errors import shortened

ObjectT = TypeVar("ObjectT", bound=KubeObject)
#: Called with an object that cannot be decoded, and the reason.
OnInvalid: TypeAlias = Callable[[ObjectReference, str], None]
EventType: TypeAlias = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
#: The pages after the first one have up to this many times as many objects, if they are expected to be this small.
_GROWTH: Final = 4
_PAGE_BYTES: Final = 4 << 20
_GC_THRESHOLDS: Final = (2_000_000, 50, 100)
_KNOWN_TYPES: Final = frozenset({"ADDED", "MODIFIED", "DELETED", "BOOKMARK"})
#: The annotation of the bookmark that ends the initial objects of a streamed list.
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"

#: The number of cached decoders. It is bounded because plugins declare kinds again at each reload.
_DECODERS: Final = 64

#: API servers write the metadata of a list before its items, within this many bytes.
_HEAD_BYTES: Final = 4096

#: A larger response in protobuf is checked without a cache.
_CACHED_BYTES: Final = 256

_ADVICE: Final = "check that the address is that of an API server and not of a proxy that requires a login"

log: Final = get_logger(__name__)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _HeadMeta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Head(msgspec.Struct):
    """The part of an object that distinguishes it from other JSON and from other objects."""

    kind: str = ""
    metadata: _HeadMeta | None = None
    #: The outcome, if the object is a Status; otherwise the status of the object.
    status: msgspec.Raw = msgspec.Raw()


class Expected(msgspec.Struct, frozen=True, gc=False):
    """What a successful response must be. Empty values are not checked."""

    #: The kind of the object. A Status also fits if it is `Status`.
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    #: Whether a Status that reports a success fits too, as after a deletion.
    or_status: bool = False


class _List(msgspec.Struct, Generic[ObjectT]):
    metadata: _ListMeta
    kind: str = ""
    items: list[ObjectT] | None = None


class _RawList(msgspec.Struct):
    metadata: _ListMeta
    kind: str = ""
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


#: Makes a watch event without Python code.
_make_event: Final[Callable[[tuple[Any, Any, str]], WatchEvent[Any]]] = functools.partial(tuple.__new__, WatchEvent)


def continue_token(body: bytes) -> str:
    """Return the token for the next page without decoding the items; empty if it is not at the start of the list."""
    head = body[:_HEAD_BYTES]
    start, end = head.find(b'"metadata":{'), head.find(b'},"items":[')
    if start < 0 or end < start:
        return ""
    try:
        return msgspec.json.decode(head[start + len(b'"metadata":') : end + 1], type=_ListMeta).continue_
    except (msgspec.DecodeError, UnicodeError):
        return ""


def decode_page(body: bytes, resource: Resource[ObjectT], on_invalid: OnInvalid | None = None) -> Page[ObjectT]:
    """Decode a list. Raises BadAnswer."""
    try:
        return _decode_page(body, resource, on_invalid)
    except RecursionError:
        _warn_of_depth(str(resource))
        return _decode_page(prune_json(body), resource, on_invalid)


def _decode_page(body: bytes, resource: Resource[ObjectT], on_invalid: OnInvalid | None) -> Page[ObjectT]:
    model = resource.model
    try:
        if resource.caches_json is not None:
            return _decode_raw_page(body, resource, on_invalid)
        page = _list_decoder(model).decode(body)
        items = page.items or []
        metadata = page.metadata
        _check_list(page.kind, resource)
    except msgspec.ValidationError:
        raw = _raw_page(body, resource)
        metadata = raw.metadata
        decoded = (_decode_leniently(item, resource, on_invalid) for item in raw.items or ())
        items = [each for each in decoded if each is not None]
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadAnswer(f"a list of {model.__name__} is not JSON: {error}") from None
    return Page(items, metadata.resource_version, metadata.continue_)


def decode_lines(
    lines: Iterable[bytes], resource: Resource[ObjectT], on_invalid: OnInvalid | None = None
) -> "tuple[list[WatchEvent[ObjectT]], ApiError | None]":
    """Decode watch events; return also the error with which the server ends the watch. Raises BadAnswer."""
    events: list[WatchEvent[ObjectT]] = []
    decode, kind = _line_decoder(resource.model).decode, resource.kind
    usual = resource.caches_json is None
    for line in lines:
        if not line or line.isspace():
            continue
        if usual:
            try:
                decoded = decode(line)
            except (msgspec.DecodeError, UnicodeError, RecursionError):
                pass  # handled by decode_line
            else:
                found = decoded.object
                if decoded.type in _KNOWN_TYPES and found.kind == kind:
                    events.append(_make_event((decoded.type, found, found.metadata.resource_version)))
                    continue
        event = decode_line(line, resource, on_invalid)
        if isinstance(event, ApiError):
            return events, event
        events.append(event)
    return events, None


def decode_line(
    line: bytes, resource: Resource[ObjectT], on_invalid: OnInvalid | None = None
) -> "WatchEvent[ObjectT] | ApiError":
    """Decode a watch event, or return the error with which the server ends the watch. Raises BadAnswer."""
    try:
        return _decode_line(line, resource, on_invalid)
    except RecursionError:
        _warn_of_depth(str(resource))
        return _decode_line(prune_json(line), resource, on_invalid)


def _decode_line(
    line: bytes, resource: Resource[ObjectT], on_invalid: OnInvalid | None
) -> "WatchEvent[ObjectT] | ApiError":
    model = resource.model
    try:
        if resource.caches_json is not None:
            return _decode_raw_line(line, resource, on_invalid)
        decoded = _line_decoder(model).decode(line)
    except msgspec.ValidationError:
        return _decode_unusual_line(line, resource, on_invalid)
    except (msgspec.DecodeError, UnicodeError) as error:
        raise BadAnswer(f"a watch event of {model.__name__} is not JSON: {error}") from None
    if decoded.type not in _KNOWN_TYPES:
        return _decode_unusual_line(line, resource, on_invalid)
    _check_kind(decoded.object, resource)
    return WatchEvent(decoded.type, decoded.object, decoded.object.metadata.resource_version)  # type: ignore[arg-type]  # checked above


def _decode_raw_page(body: bytes, resource: Resource[ObjectT], on_invalid: OnInvalid | None) -> Page[ObjectT]:
    raw = _raw_page(body, resource)
    decoded = (_decode_and_cache(item, resource, on_invalid) for item in raw.items or ())
    items = [each for each in decoded if each is not None]
    return Page(items, raw.metadata.resource_version, raw.metadata.continue_)


def _decode_raw_line(
    line: bytes, resource: Resource[ObjectT], on_invalid: OnInvalid | None
) -> "WatchEvent[ObjectT] | ApiError":
    raw = msgspec.json.decode(line, type=_RawLine)
    usual = raw.type in _KNOWN_TYPES and raw.type != "BOOKMARK"
    decoded = _decode_and_cache(raw.object, resource, None) if usual else None
    if decoded is None:
        return _decode_unusual_line(line, resource, on_invalid)
    _check_kind(decoded, resource)
    return WatchEvent(raw.type, decoded, decoded.metadata.resource_version)  # type: ignore[arg-type]  # checked above


def _decode_and_cache(raw: msgspec.Raw, resource: Resource[ObjectT], on_invalid: OnInvalid | None) -> ObjectT | None:
    """Decode an object, and cache its JSON text if the resource selects it."""
    decoded = _decode_leniently(raw, resource, on_invalid)
    if isinstance(decoded, Pod | Node) and resource.caches_json is not None and resource.caches_json(decoded):
        cache_json(decoded, bytes(raw))
    return decoded


def _raw_page(body: bytes, resource: Resource[Any]) -> _RawList:
    try:
        raw = msgspec.json.decode(body, type=_RawList)
    except msgspec.ValidationError as error:
        raise BadAnswer(f"not a list: {error}") from None
    _check_list(raw.kind, resource)
    return raw


def _check_list(kind: str, resource: Resource[Any]) -> None:
    """Raise BadAnswer unless the response is a Kubernetes list. The list kind of a custom kind can have any name."""
    custom = resource.model not in RESOURCES
    if not kind or kind == "Status" or not (custom or kind == f"{resource.kind}List"):
        raise BadAnswer(f"a list of {resource} has the kind {kind!r}: {_ADVICE}")


def check_object(body: bytes, expected: Expected) -> None:
    """Raise BadAnswer unless a successful response is what it must be, and not for example the page of a proxy."""
    if body.startswith(MAGIC):
        if expected.kind == "Event" and is_protobuf_event(body, expected.name, expected.namespace):
            return
        # All successful binds have the same response, so one check is enough. Exceptions are not cached.
        (_check_protobuf if len(body) <= _CACHED_BYTES else _check_protobuf.__wrapped__)(body, expected)
        return
    try:
        try:
            head = _heads.decode(body)
        except RecursionError:
            head = _heads.decode(prune_json(body))
    except (msgspec.DecodeError, UnicodeError):
        head = _Head()
    kind = head.kind
    if not kind:
        start = " ".join(body[:60].decode("utf-8", "replace").split())
        raise BadAnswer(f"the response is not an object of Kubernetes but {start!r}: {_ADVICE}")
    if kind == "Status":
        if head.status != _SUCCESS:
            raise BadAnswer("the response has a code of success but is a Status without success")
        if expected.or_status or expected.kind in ("", "Status"):
            return
    if expected.kind and kind != expected.kind:
        raise BadAnswer(f"the response is not a {expected.kind} but a {shortened(kind, 60)}")
    found = head.metadata or _HeadMeta()
    if (
        found.name == (expected.name or found.name)
        and found.namespace == (expected.namespace or found.namespace)
        and found.uid == (expected.uid or found.uid)
    ):
        return
    for field in ("name", "namespace", "uid"):
        wanted, got = getattr(expected, field), getattr(found, field)
        if wanted and got != wanted:
            what = f"{field} {shortened(got, 60)!r} instead of {shortened(wanted, 60)!r}"
            raise BadAnswer(f"the response is another {kind}: it has the {what}")


@functools.lru_cache(maxsize=16)
def _check_protobuf(body: bytes, expected: Expected) -> None:
    document = to_json(body)
    if not document:
        raise BadAnswer(f"the response is damaged protobuf: {_ADVICE}")
    check_object(document, expected)


def _check_kind(found: KubeObject, resource: Resource[Any]) -> None:
    """Raise BadAnswer if an object of a watch has another kind."""
    if found.kind != resource.kind:
        raise BadAnswer(f"a watch of {resource} sent a {shortened(found.kind, 60)}")


def _decode_unusual_line(
    line: bytes, resource: Resource[ObjectT], on_invalid: OnInvalid | None
) -> "WatchEvent[ObjectT] | ApiError":
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
    decoded = _decode_leniently(raw.object, resource, on_invalid if raw.type != "DELETED" else None)
    if decoded is not None:
        _check_kind(decoded, resource)
        return WatchEvent(raw.type, decoded, decoded.metadata.resource_version)  # type: ignore[arg-type]  # checked above
    bare = _bare(raw.object)
    # The name is enough to delete an object.
    gone = bare if raw.type == "DELETED" else None
    return WatchEvent(raw.type, gone, bare.metadata.resource_version)  # type: ignore[arg-type]  # checked above


def _decode_leniently(raw: msgspec.Raw, resource: Resource[ObjectT], on_invalid: OnInvalid | None) -> ObjectT | None:
    try:
        return decode_json(bytes(raw), resource.model)
    except ManifestError as error:
        message = shortened(str(error))
        _warn_once(resource.kind, message)
        if on_invalid is not None:
            metadata = _bare(raw).metadata
            about = ObjectReference(
                api_version=resource.api_version,
                kind=resource.kind,
                namespace=metadata.namespace,
                name=metadata.name,
                uid=metadata.uid,
            )
            on_invalid(about, message)
        return None


@functools.lru_cache(maxsize=1024)
def _warn_once(kind: str, text: str) -> None:
    """Log a problem only once, because every list contains the same object."""
    log.warning("an object cannot be decoded and is ignored", kind=kind, error=text)


@functools.lru_cache(maxsize=1024)
def _warn_of_depth(kind: str) -> None:
    log.warning("an object is nested too deeply; the deeper levels are ignored", kind=kind, levels=MAX_DEPTH)


def _bare(raw: msgspec.Raw) -> KubeObject:
    """Return an object with only the metadata of an object that cannot be decoded, or None."""
    try:
        return msgspec.json.decode(raw, type=KubeObject)
    except (msgspec.DecodeError, UnicodeError):
        return KubeObject()


_heads: Final = msgspec.json.Decoder(_Head)
_SUCCESS: Final = msgspec.Raw(b'"Success"')


@functools.lru_cache(maxsize=_DECODERS)
def _list_decoder(model: type[ObjectT]) -> "msgspec.json.Decoder[_List[ObjectT]]":
    return msgspec.json.Decoder(_List[model])  # type: ignore[valid-type]  # a class made at run time


@functools.lru_cache(maxsize=_DECODERS)
def _line_decoder(model: type[ObjectT]) -> "msgspec.json.Decoder[_Line[ObjectT]]":
    decoder: Any = msgspec.json.Decoder(_Line[model])  # type: ignore[valid-type]  # a class made at run time
    return decoder  # type: ignore[no-any-return]  # as declared


class ServerVersion(msgspec.Struct):
    """The version that a server reports."""

    minor: str = ""


class _ServedResource(msgspec.Struct):
    name: str


class ServedResources(msgspec.Struct):
    """The resources of an API group that a server reports."""

    resources: list[_ServedResource] = []


def next_page_size(first: int, size: int, length: int) -> int:
    """Return how many objects to request after a page with a number of objects and of bytes.

    `first` is the number of objects of the first page. A server needs half the CPU time for pages of 2,000 pods,
    compared with 500. But tenants can create large objects, and a page is decoded at once.
    """
    return max(first, min(_GROWTH * first, size * _PAGE_BYTES // max(1, length)))


class RelaxedGarbageCollection:
    """A reentrant context manager that raises the thresholds of the garbage collector while many objects are decoded.

    The default thresholds double the time of reading a list, and the collections free nothing.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._before = gc.get_threshold()

    def __enter__(self) -> None:
        if self._depth == 0:
            self._before = gc.get_threshold()
            gc.set_threshold(*_GC_THRESHOLDS)
        self._depth += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._depth -= 1
        if self._depth == 0:
            gc.set_threshold(*self._before)
