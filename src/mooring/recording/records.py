"""Records: the kinds of entries of a recording, and the conversion of objects.

Objects are recorded as the structs of `mooring.api`, which have only the fields that a scheduler reads: no environment
variables, commands or arguments of containers, and no Secrets or ConfigMaps.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from mooring.api.codec import KINDS
from mooring.api.meta import KubeObject
from mooring.framework.custom_resources import event_name

#: Contains the whole manifest of an object, environment variables included.
LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"

T = TypeVar("T")
_replace = msgspec.structs.replace


class RecordingError(ValueError):
    """A file that is not a recording, or that this version cannot read. The message is one line for the user."""


class Kind(enum.IntEnum):
    """The kinds of records. Each record is an array of the kind, the time, and the fields that are listed here."""

    #: A process starts to record: the header.
    START = 0
    #: An object was added or changed: the name of its kind, the object.
    PUT = 1
    #: An object was deleted: the name of its kind, its last version.
    REMOVE = 2
    #: All objects that existed at the start are recorded.
    SYNCED = 3
    #: A scheduling cycle ended: an `Attempt`.
    ATTEMPT = 4
    #: A binding cycle succeeded: the uid of the pod.
    BOUND = 5
    #: A binding cycle failed: the uid of the pod, the status code, the reasons, the plugin.
    BIND_FAILED = 6
    #: Time passed: backoffs ended, pods waited too long, or deadlines at Permit passed.
    TICK = 7
    #: An extender replied: its URL, the body, the error.
    EXTENDER_REPLY = 8
    #: The uid of a preemptor, and the uid of its last victim that is evicted; None if the evictions have ended.
    PREEMPTING = 9
    #: The nomination of a pod was cleared: its uid.
    NOMINATION_CLEARED = 10
    #: A pod that was not bound yet was preempted: its uid, the plugin.
    BINDING_CANCELLED = 11
    #: The eviction of a pod failed: its uid.
    EVICTION_FAILED = 12
    #: A preemption failed: the uid of the preemptor.
    PREEMPTION_FAILED = 13
    #: A plugin requeued pods outside of an attempt: their keys.
    ACTIVATE = 14
    #: A plugin requeued the pods that it rejected: the profile, the plugin.
    RETRY = 15
    #: The configuration or the plugins were reloaded: the header.
    RELOAD = 16


class PluginFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A plugin that is not built in."""

    name: str
    sha256: str = ""


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a replay needs to know about the process that recorded."""

    #: ``mooring run``, ``mooring record``, ``simkube`` or ``manifests``.
    source: str
    #: The version of Mooring.
    mooring: str = ""
    #: The configuration as `mooring run --write-config-to` writes it, without the TLS settings of extenders.
    config: dict[str, Any] = {}
    tie_break: str = "random"
    #: The emulated release of kube-scheduler, and the feature gates that differ from its defaults.
    release: str = ""
    gates: dict[str, bool] = {}
    #: The seed of the random numbers that break ties.
    seed: int | None = None
    #: Seconds after which a pod in the unschedulable queue is retried.
    max_in_unschedulable: float = 300.0
    plugins: tuple[PluginFile, ...] = ()
    anonymized: bool = False


class Attempt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The outcome of a scheduling cycle."""

    uid: str
    pod: str
    #: ``placed``, ``unschedulable``, ``error``, ``skipped`` (deleted or already placed), or ``stopped`` (CPU time).
    outcome: str
    node: str = ""
    #: The number of attempts of the pod so far.
    number: int = 0
    evaluated: int = 0
    feasible: int = 0
    message: str = ""
    #: The uids of the pods to evict, and the node that the pod is nominated to (None keeps the nomination).
    victims: tuple[str, ...] = ()
    nominated: str | None = None
    #: The plugins that rejected the pod.
    rejectors: tuple[str, ...] = ()
    #: Whether the pod waits at Permit.
    waits: bool = False
    #: When the cycle ended, if it awaited extenders or paused; otherwise it took no time.
    ended: float = 0.0
    #: The backoff in seconds, if it does not follow from the number of failures.
    backoff: float | None = None


def attempt_in(record: list[Any]) -> Attempt:
    """Return the attempt of a record. Raises RecordingError."""
    return _fields(record, Attempt)


def header_in(record: list[Any]) -> Header:
    """Return the header of a record. Raises RecordingError."""
    return _fields(record, Header)


def _fields(record: list[Any], cls: type[T]) -> T:
    try:
        return msgspec.convert(record[2], cls)
    except (msgspec.ValidationError, IndexError) as error:
        raise RecordingError(f"the recording has an invalid {cls.__name__.lower()}: {error}") from None


def redacted(item: KubeObject) -> KubeObject:
    """Return an object without the annotation that contains its whole manifest."""
    annotations = item.metadata.annotations
    if LAST_APPLIED not in annotations:
        return item
    rest = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
    return _replace(item, metadata=_replace(item.metadata, annotations=rest))


class RecordedObjects:
    """The objects of a cluster at a time of a recording: apply all records up to it."""

    def __init__(self) -> None:
        self._objects: dict[tuple[str, str, str], KubeObject] = {}
        #: After a restart, the objects that are not listed again were deleted meanwhile.
        self._before: set[tuple[str, str, str]] = set()

    def restart(self) -> None:
        """Apply the start of a recording process."""
        self._before = set(self._objects)

    def synced(self) -> list[tuple[str, KubeObject]]:
        """Apply the end of the first lists. Return the objects that were deleted while nothing was recorded."""
        gone = [(key[0], self._objects.pop(key)) for key in self._before]
        self._before = set()
        return gone

    def put(self, kind: str, item: KubeObject) -> KubeObject | None:
        """Apply an added or changed object. Return the previous version."""
        key = (kind, item.namespace, item.name)
        before = self._objects.get(key)
        self._objects[key] = item
        self._before.discard(key)
        return before

    def remove(self, kind: str, item: KubeObject) -> None:
        """Apply a deletion."""
        key = (kind, item.namespace, item.name)
        self._objects.pop(key, None)
        self._before.discard(key)

    def __iter__(self) -> Iterator[KubeObject]:
        return iter(self._objects.values())


class ObjectDecoder:
    """Decodes recorded objects by the names of their kinds."""

    def __init__(self, custom: Iterable[type[KubeObject]] = ()) -> None:
        """``custom`` contains the custom resources of plugins. Objects of other kinds are left out."""
        kinds: Mapping[str, type[KubeObject]] = {
            **{name: kind for (_, name), kind in KINDS.items()},
            **{event_name(kind): kind for kind in custom},
        }
        self._decode: dict[str, Callable[[bytes], KubeObject]] = {
            name: msgspec.msgpack.Decoder(kind).decode for name, kind in kinds.items()
        }
        #: The names of kinds that no struct is known for.
        self.unknown: set[str] = set()

    def __call__(self, kind: str, data: bytes) -> KubeObject | None:
        """Return an object; None if its kind is unknown. Raises RecordingError."""
        decode = self._decode.get(kind)
        if decode is None:
            self.unknown.add(kind)
            return None
        try:
            return decode(data)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RecordingError(f"the recording has an invalid {kind}: {error}") from None
