"""Decodes and encodes objects: JSON of an API server, and manifests.

`decode_json` is for objects of an API server: fast, and it checks only types. `load_manifests` and `decode_object` are
for manifests: they also validate values that a scheduler computes with, and raise a ManifestError with the place.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from mooring.api.coordination import Lease
from mooring.api.core import Namespace, ReplicationController, Service
from mooring.api.events import Event
from mooring.api.manifest_checks import Fault, find_faults, without_nulls
from mooring.api.manifest_error import ManifestError, path_text, type_problem
from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.policy import PodDisruptionBudget, PriorityClass
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.api.volcano import PodGroup, Queue, ResourceQuota
from mooring.api.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from mooring.api.yaml_nodes import ReadError, Step
from mooring.api.yaml_reader import find_line, read_documents

#: The kinds that have a struct, by API group and kind.
KINDS: Final[Mapping[tuple[str, str], type[KubeObject]]] = {
    (cls().api_version.rpartition("/")[0], cls().kind): cls
    for cls in (
        Pod, Node, Namespace, Service, ReplicationController, PersistentVolume, PersistentVolumeClaim, StorageClass,
        CSINode, CSIDriver, CSIStorageCapacity, VolumeAttachment, PodDisruptionBudget, PriorityClass, ReplicaSet,
        Deployment, StatefulSet, DaemonSet, Job, Lease, Event, ResourceQuota, PodGroup, Queue,
    )
}  # fmt: skip

ObjectT = TypeVar("ObjectT", bound=KubeObject)


class Unknown(msgspec.Struct, frozen=True, kw_only=True):
    """An object of a kind without a struct."""

    kind: str
    api_version: str
    metadata: ObjectMeta
    raw: dict[str, Any]

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace in the metadata."""
        return self.metadata.namespace


Loaded: TypeAlias = KubeObject | Unknown


class Manifest(NamedTuple):
    """An object and the document that it was decoded from, which may have more fields."""

    item: Loaded
    document: dict[str, Any]


def decode_json(data: bytes | str, kind: type[ObjectT]) -> ObjectT:
    """Decode one JSON object of a known kind. Raises ManifestError."""
    decoder: msgspec.json.Decoder[ObjectT] = _decoder(kind)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        # Probably a null for a list or mapping, which Kubernetes treats as an absent field.
        return _convert(_parse_json(data, "JSON"), kind, _Place("JSON"))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ManifestError(f"not valid JSON: {error}", source="JSON") from None


def encode_json(value: KubeObject) -> bytes:
    """Encode an object as JSON without absent fields."""
    return msgspec.json.encode(value)


def to_dict(value: KubeObject) -> dict[str, Any]:
    """Return an object as plain dictionaries and lists with Kubernetes' field names."""
    result: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(value))
    return result


def decode_object(value: dict[str, Any] | bytes | str, *, source: str = "object", check: bool = True) -> Loaded:
    """Decode an object from JSON text or plain dictionaries, by its `apiVersion` and `kind`.

    `check` also validates names, quantities and times. Raises ManifestError.
    """
    if isinstance(value, bytes | str):
        value = _parse_json(value, source)
    try:
        return _decode(value, _Place(source), check=check)
    except RecursionError:
        raise ManifestError("nested too deeply", source=source) from None


def load_manifests(text: str | bytes, *, source: str) -> list[Loaded]:
    """Read the objects of a file, as `read_manifests` does."""
    return [each.item for each in read_manifests(text, source=source)]


def read_manifests(text: str | bytes, *, source: str) -> list[Manifest]:
    """Read a file of YAML documents, or of JSON, with lists of objects unwrapped. Empty documents are skipped.

    `source` is the name of the file, for messages. Kinds without a struct become Unknown. Raises ManifestError at the
    first error.
    """
    text = _as_text(text, source)
    loaded: list[Manifest] = []
    try:
        for index, value in enumerate(read_documents(text)):
            if value is not None:
                loaded += _unwrapped(value, _Place(source, text, index))
    except ReadError as error:
        raise ManifestError(str(error), source=source, line=error.line) from None
    except RecursionError:
        raise ManifestError("nested too deeply", source=source) from None
    return loaded


class _Place(NamedTuple):
    """The place of an object: the text, the document and the path."""

    source: str
    text: str | None = None
    document: int | None = None
    steps: tuple[Step, ...] = ()

    def error(self, problem: str, *steps: Step, value: Any = None, remedy: str = "") -> ManifestError:
        """Return a ManifestError about a field of the object `value` at this place."""
        line = None
        if self.text is not None and self.document is not None:
            line = find_line(self.text, self.document, (*self.steps, *steps))
        return ManifestError(
            problem,
            source=self.source,
            document=self.document + 1 if self.document is not None else None,
            line=line,
            object_name=_object_name(value),
            path=path_text(steps),
            remedy=remedy,
        )


def _unwrapped(value: Any, place: _Place) -> Iterator[Manifest]:
    """Yield the object, or all objects of a list."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or not kind.endswith("List") or not (kind == "List" or "items" in value):
        yield Manifest(_decode(value, place, check=True), value)
        return
    items = value.get("items") or []
    if not isinstance(items, list):
        raise place.error(f"must be a list, not {_json_type(items)}", "items", value=value)
    # Lists of one kind need not repeat it in every item.
    repeated = {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")} if kind != "List" else {}
    for index, item in enumerate(items):
        inner = place._replace(steps=(*place.steps, "items", index))
        yield from _unwrapped(repeated | item if isinstance(item, dict) else item, inner)


def _decode(value: Any, place: _Place, *, check: bool) -> Loaded:
    if not isinstance(value, dict):
        raise place.error(
            f"must be a mapping, not {_json_type(value)}", remedy="write an object with apiVersion, kind and metadata"
        )
    api_version, kind = value.get("apiVersion"), value.get("kind")
    for field, given in (("apiVersion", api_version), ("kind", kind)):
        if not isinstance(given, str) or not given:
            raise place.error("is required", field, value=value, remedy=f"add a line such as `{_EXAMPLES[field]}`")
    cls = KINDS.get((str(api_version).rpartition("/")[0], str(kind)))
    if cls is None:
        metadata = value.get("metadata") or {}
        unknown = _convert({"metadata": metadata}, KubeObject, place, shown=value)
        return Unknown(kind=str(kind), api_version=str(api_version), metadata=unknown.metadata, raw=value)
    decoded = _convert(value, cls, place)
    if check:
        _raise_first(find_faults(decoded, value), value, place)
    return decoded


_EXAMPLES: Final = {"apiVersion": "apiVersion: v1", "kind": "kind: Pod"}


def _raise_first(faults: Iterator[Fault], value: Any, place: _Place) -> None:
    for fault in faults:
        raise place.error(fault.problem, *fault.steps, value=value, remedy=fault.remedy)


def _convert(value: Any, cls: type[ObjectT], place: _Place, *, shown: Any = None) -> ObjectT:
    try:
        return fit(value, cls)
    except Misfit as error:
        fault = error.fault
        raise place.error(fault.problem, *fault.steps, value=shown or value, remedy=fault.remedy) from None


class Misfit(ValueError):
    """A value that does not match its kind; ``fault`` has the place and the reason."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.problem)
        self.fault = fault


def fit(value: Any, cls: type[ObjectT]) -> ObjectT:
    """Convert plain dictionaries to an object; nulls count as absent. Raises Misfit."""
    try:
        return msgspec.convert(value, cls)
    except msgspec.ValidationError:
        pass
    value = without_nulls(value)
    try:
        return msgspec.convert(value, cls)
    except msgspec.ValidationError as error:
        raise Misfit(Fault(*_explained(str(error), value))) from None


_AT: Final = re.compile(r"(?P<message>.*?)(?: - at `(?:key` in `)?\$(?P<path>[^`]*)`)?", re.DOTALL)
_EXPECTED: Final = re.compile(r"Expected `(?P<expected>[^`]*)`, got `(?P<got>[^`]*)`")
_STEP: Final = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")


def _explained(message: str, value: Any) -> tuple[tuple[Step, ...], str, str]:
    """Return the path, the problem and the remedy for an error of msgspec."""
    parts = _AT.fullmatch(message)
    steps = _steps(parts["path"] or "" if parts else "", value, message)
    for step in steps:
        value = value[step]
    types = _EXPECTED.search(message)
    if types is None:
        return steps, parts["message"] if parts else message, ""
    return steps, *type_problem(types["expected"], types["got"], value)


def _steps(path: str, value: Any, message: str) -> tuple[Step, ...]:
    """Return the path of an error as steps. If msgspec reports no key of a mapping, use the first that matches."""
    types = _EXPECTED.search(message)
    steps: list[Step] = []
    for name, index in _STEP.findall(path):
        step: Step | None = name or None
        if index == "...":
            wrong = types["got"] if types else ""
            step = next((key for key, item in value.items() if _json_type(item, msgspec_name=True) == wrong), None)
        elif index:
            step = int(index)
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            break
        steps.append(step if step is not None else "")
    return tuple(steps)


def _json_type(value: Any, *, msgspec_name: bool = False) -> str:
    names = {str: "str", bool: "bool", int: "int", float: "float", dict: "object", list: "array", type(None): "null"}
    readable = {
        "str": "text",
        "bool": "true or false",
        "int": "a number",
        "float": "a number",
        "array": "a list",
        "object": "a mapping",
        "null": "nothing",
    }
    name = names.get(type(value), type(value).__name__)
    return name if msgspec_name else readable.get(name, name)


def _object_name(value: Any) -> str:
    if not isinstance(value, dict):
        return ""
    metadata = value.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    names = [name for name in (metadata.get("namespace"), metadata.get("name")) if isinstance(name, str) and name]
    kind = value.get("kind")
    return " ".join(part for part in (kind if isinstance(kind, str) else "", "/".join(names)) if part)


def _as_text(text: str | bytes, source: str) -> str:
    try:
        text = text.decode("utf-8-sig") if isinstance(text, bytes) else text.removeprefix("\ufeff")
        text.encode()
    except UnicodeError as error:
        raise ManifestError(f"not UTF-8 text: {error}", source=source, remedy="save the file as UTF-8") from None
    return text


def _parse_json(data: bytes | str, source: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ManifestError(f"not valid JSON: {error}", source=source) from None


@functools.lru_cache(maxsize=64)  # bounded: plugins declare kinds too, anew at each reload
def _decoder(kind: type[ObjectT]) -> "msgspec.json.Decoder[ObjectT]":
    return msgspec.json.Decoder(kind)
