"""Decodes and encodes objects: JSON of an API server, and manifests.

`decode_json` is for objects of an API server: fast, and it checks only types. `load_manifests` and `decode_object` are
for manifests: they also validate values that a scheduler computes with, and raise a ManifestError with the place.
"""

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from mooring.api.coordination import Lease
from mooring.api.core import Namespace, ReplicationController, Service
from mooring.api.decode_errors import ConversionError, Fault, ManifestError, describe_error, path_text
from mooring.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from mooring.api.events import Event
from mooring.api.hyper_nodes import HyperNode
from mooring.api.json_depth import prune_json
from mooring.api.manifest_checks import find_faults, without_nulls
from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.node import Node
from mooring.api.numa_topology import Numatopology
from mooring.api.pod import Pod
from mooring.api.policy import PodDisruptionBudget, PriorityClass
from mooring.api.scheduling import NativePodGroup
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
from mooring.api.volcano_jobs import VolcanoJob
from mooring.api.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet
from mooring.api.yaml_nodes import ReadError, Step
from mooring.api.yaml_reader import find_line, read_documents

#: The kinds that have a struct, by API group and kind.
KINDS: Final[Mapping[tuple[str, str], type[KubeObject]]] = {
    (cls().api_version.rpartition("/")[0], cls().kind): cls
    for cls in (
        Pod, Node, Namespace, Service, ReplicationController, PersistentVolume, PersistentVolumeClaim, StorageClass,
        CSINode, CSIDriver, CSIStorageCapacity, VolumeAttachment, PodDisruptionBudget, PriorityClass, ReplicaSet,
        Deployment, StatefulSet, DaemonSet, Job, Lease, Event, ResourceQuota, PodGroup, Queue, VolcanoJob, HyperNode,
        Numatopology,
        DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice, DeviceTaintRule, NativePodGroup,
    )
}  # fmt: skip

T = TypeVar("T")
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
    """Decode one JSON object of a known kind, without fields that are nested too deeply. Raises ManifestError."""
    decoder: msgspec.json.Decoder[ObjectT] = _decoder(kind)
    try:
        return decoder.decode(data)
    except RecursionError:
        pruned = prune_json(data.encode() if isinstance(data, str) else data)
        return _convert(_parse_json(pruned, "JSON"), kind, _Place("JSON"))
    except msgspec.ValidationError:
        # Probably a null for a list or mapping, which Kubernetes treats as an absent field.
        return _convert(_parse_json(data, "JSON"), kind, _Place("JSON"))
    except (msgspec.DecodeError, UnicodeError) as error:
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


def read_manifests(text: str | bytes, *, source: str, skip: Callable[[Any], bool] | None = None) -> list[Manifest]:
    """Read a file of YAML documents, or of JSON, with lists of objects unwrapped. Empty documents are skipped.

    `source` is the name of the file, for messages. Documents for which `skip` is true are left out. Kinds without a
    struct become Unknown. Raises ManifestError at the first error.
    """
    text = _as_text(text, source)
    loaded: list[Manifest] = []
    try:
        for index, value in enumerate(read_documents(text)):
            if value is not None and not (skip is not None and skip(value)):
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
    except ConversionError as error:
        fault = error.fault
        raise place.error(fault.problem, *fault.steps, value=shown or value, remedy=fault.remedy) from None


def fit(value: Any, cls: type[T]) -> T:
    """Convert plain dictionaries to an object; nulls count as absent. Raises ConversionError."""
    try:
        return msgspec.convert(value, cls)
    except msgspec.ValidationError:
        pass
    value = without_nulls(value)
    try:
        return msgspec.convert(value, cls)
    except msgspec.ValidationError as error:
        raise ConversionError(describe_error(error, value, cls)) from None


def _json_type(value: Any) -> str:
    return _JSON_TYPES.get(type(value), type(value).__name__)


_JSON_TYPES: Final = {
    str: "text",
    bool: "true or false",
    int: "a number",
    float: "a number",
    dict: "a mapping",
    list: "a list",
    type(None): "nothing",
}


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


# Raw objects: the structs have only the fields that a scheduler reads, but extenders get all fields. So the JSON text
# can be cached with the struct.

_TEXT, _ENCODED = "json text", "json without kind"


def cache_json(item: Pod | Node, text: bytes) -> None:
    """Cache the JSON text that an object was decoded from."""
    item.__dict__[_TEXT] = text


def raw_json(item: KubeObject) -> msgspec.Raw:
    """Return an object with all fields, without kind and apiVersion, as nested objects are encoded.

    Pods have no `managedFields`, which kube-scheduler drops too. If the text is not cached, the fields are those of
    the struct.
    """
    cached: dict[str, Any] = getattr(item, "__dict__", {})
    encoded: msgspec.Raw | None = cached.get(_ENCODED)
    if encoded is None:
        text = cached.get(_TEXT)
        fields: dict[str, Any] = msgspec.json.decode(text if text is not None else msgspec.json.encode(item))
        fields.pop("kind", None)
        fields.pop("apiVersion", None)
        if isinstance(item, Pod):
            fields.get("metadata", {}).pop("managedFields", None)
        encoded = cached[_ENCODED] = msgspec.Raw(msgspec.json.encode(fields))
    return encoded
