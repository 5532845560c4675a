"""The base of all objects: structs, metadata, label selectors, timestamps.

The structs have only the fields that a scheduler reads. Other fields are skipped, which makes decoding fast and objects
small. They are immutable, so that plugins can share them. msgspec decodes mappings as plain dictionaries, which is
fast; a mapping becomes a ReadOnlyDict when it is read for the first time.
"""

import functools
import inspect
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, Never, dataclass_transform

import msgspec
from msgspec import field

#: Parts of field names that Kubernetes capitalizes unless they come first (`hostIP`, `volumeID`).
_ACRONYMS: Final = {
    "api": "API",
    "cidr": "CIDR",
    "cidrs": "CIDRs",
    "id": "ID",
    "io": "IO",
    "ip": "IP",
    "ipc": "IPC",
    "ips": "IPs",
    "pid": "PID",
    "uri": "URI",
    "uuid": "UUID",
}


def kubernetes_name(name: str) -> str:
    """Convert a Python field name to that of Kubernetes: `host_ip` becomes `hostIP`."""
    first, *rest = name.rstrip("_").split("_")
    return first + "".join(_ACRONYMS.get(piece, piece.capitalize()) for piece in rest)


class ReadOnlyDict(dict[Any, Any]):
    """A dictionary that cannot be changed."""

    __slots__ = ()

    def _refuse(self, *_args: object, **_keywords: object) -> Never:
        raise TypeError(
            "objects are read-only, because all plugins share them: change a copy, such as dict(pod.labels)"
        )

    __setitem__ = __delitem__ = __ior__ = _refuse
    update = pop = popitem = clear = setdefault = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return ReadOnlyDict, (dict(self),)


_EMPTY: Final = ReadOnlyDict()


class _MappingField(property):
    """A property that reads a mapping from the slot of a field and makes it read-only."""

    #: Reads the mapping as it was decoded.
    plain: Callable[[object], Any]


def plain_mapping(model: type["Model"], field: str) -> Callable[[object], Any]:
    """Return a function that reads a mapping of an object without making it read-only.

    It is for the code that reads the mappings of all pods of a cluster, most of which nothing else reads.
    """
    found: _MappingField = vars(model)[field]
    return found.plain


def _read_only(slot: Any) -> property:
    """Return a property that reads a mapping from the slot of a field and makes it read-only."""
    get, put = slot.__get__, slot.__set__

    def read(self: object) -> Any:
        value = get(self)
        if type(value) is dict:
            if not value:
                return _EMPTY  # not stored: msgspec omits only an empty dict
            value = ReadOnlyDict(value)
            put(self, value)
        return value

    made = _MappingField(read)
    made.plain = get
    return made


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Model(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, rename=kubernetes_name):
    """The base of all structs: immutable, camelCase in JSON, absent fields omitted."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        for name, hint in inspect.get_annotations(cls).items():
            if str(hint).startswith(("dict[", "Dict[", "typing.Dict[")):
                setattr(cls, name, _read_only(cls.__dict__[name]))


class OwnerReference(Model, kw_only=True):
    """A reference to an owner; `controller` marks the managing one."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Model, kw_only=True):
    """Name, labels and history of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class ObjectReference(Model, kw_only=True):
    """A reference to an object, as in `claimRef` of a volume or in an event."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class LabelSelectorRequirement(Model, kw_only=True):
    """One expression of a label selector."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Model, kw_only=True):
    """A label selector. Both parts must match. Empty matches everything, absent matches nothing."""

    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Model, kw_only=True):
    """A condition of a status."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    observed_generation: int = 0
    last_probe_time: str | None = None
    last_heartbeat_time: str | None = None
    last_transition_time: str | None = None


class KubeObject(Model, kw_only=True):
    """A top-level object: the fields of every kind, and shortcuts to common ones."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def name(self) -> str:
        """The object's name."""
        return self.metadata.name

    @property
    def namespace(self) -> str:
        """The namespace in the metadata; empty for cluster-scoped kinds."""
        return self.metadata.namespace

    @property
    def labels(self) -> dict[str, str]:
        """The object's labels, read-only."""
        return self.metadata.labels

    @property
    def annotations(self) -> dict[str, str]:
        """The object's annotations, read-only."""
        return self.metadata.annotations

    @property
    def uid(self) -> str:
        """The UID of the object."""
        return self.metadata.uid


class NamespacedObject(KubeObject, kw_only=True):
    """A namespaced object. The default namespace is `default`."""

    @property
    def namespace(self) -> str:
        """The namespace of the object."""
        return self.metadata.namespace or "default"

    @property
    def key(self) -> str:
        """`namespace/name`, which is unique among objects of the kind."""
        return f"{self.namespace}/{self.metadata.name}"


#: The seconds from the start of year 0 to the start of year 4.
_FOUR_YEARS: Final = (4 * 365 + 1) * 86_400


@functools.lru_cache(maxsize=65536)
def parse_time(text: str) -> float:
    """Parse an RFC 3339 timestamp to seconds since the epoch."""
    if text.startswith("0000-"):  # valid in Kubernetes, but Python has no year 0
        return parse_time(f"0004{text[4:]}") - _FOUR_YEARS
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a timestamp such as 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None or "T" not in text.upper():
        raise ValueError(f"{text!r} is not a timestamp such as 2026-01-31T12:00:00Z (with T and a time zone)")
    return moment.timestamp()


def format_time(seconds: float, *, micros: bool = False) -> str:
    """Format seconds since the epoch as RFC 3339 in UTC, with microseconds for a MicroTime."""
    # Exact, and rounded as datetime does: half a microsecond to the even one.
    whole, rest = divmod(seconds, 1)
    micro = round(rest * 1e6)
    if micro == 1_000_000:
        whole, micro = whole + 1, 0
    text = _format_second(int(whole))
    return f"{text}.{micro:06d}Z" if micros else f"{text}Z"


@functools.lru_cache(maxsize=16)
def _format_second(seconds: int) -> str:
    """Format a second. Most events share it with the one before."""
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat()[:-6]
