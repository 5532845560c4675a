"""Workload traces: when nodes, pods and other objects appear, change and disappear, from several sources.

A recording of any scheduler, a trace of SimKube, or the manifests of a cluster (`kubectl get -o yaml`) become the same
stream of changes, which `simulation/rerun.py` decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.api.codec import decode_object
from mooring.api.decode_errors import ManifestError
from mooring.api.meta import KubeObject, format_time, parse_time
from mooring.api.pod import Pod
from mooring.recording.recording_file import RecordingReader, is_recording
from mooring.recording.records import Header, Kind, ObjectDecoder, RecordedObjects, attempt_in
from mooring.simulation.scenario import build
from mooring.simulation.sources import Given, InputError, Source, read
from mooring.simulation.workloads import KINDS as WORKLOADS

_replace = msgspec.structs.replace

#: The versions of SimKube's traces that have the same events.
_SIMKUBE_VERSIONS: Final = (2, 3)


class TraceChange(msgspec.Struct, frozen=True):
    """An object that was added or changed, or deleted, at a time."""

    time: float
    item: KubeObject
    deleted: bool = False
    #: For the deletion of a pod: whether it was evicted for another pod.
    evicted: bool = False


class Trace(msgspec.Struct, frozen=True):
    """A stream of changes in the order of time, and how it was made."""

    changes: Iterable[TraceChange]
    header: Header | None = None


def open_trace(path: str, *, more: Sequence[Given] = (), custom: Iterable[type[KubeObject]] = ()) -> Trace:
    """Open a recording, a trace of SimKube, or manifests. Raises InputError, ManifestError or RecordingError.

    ``more`` contains objects that exist from the start, such as the nodes, which traces of SimKube do not have.
    ``custom`` contains the custom resources of plugins.
    """
    if is_recording(path):
        reader = RecordingReader(path)
        started, header = reader.start()
        return Trace(_with(more, started, _recorded(reader, ObjectDecoder(custom))), header)
    if (events := _simkube_events(path)) is not None:
        started = float(events[0]["ts"]) if events else 0.0
        return Trace(_with(more, started, _from_simkube(path, events)))
    return Trace(list(_from_manifests([*more, *read([path])])))


def _with(more: Sequence[Given], started: float, changes: Iterator[TraceChange]) -> Iterator[TraceChange]:
    if more:
        scenario = build(more)
        yield from (TraceChange(started, item) for item in (*scenario.objects, *scenario.nodes))
        yield from (TraceChange(started, each.pod) for each in scenario.pods)
    yield from changes


def _recorded(reader: RecordingReader, decode: ObjectDecoder) -> Iterator[TraceChange]:
    """Yield the changes of a recording. Objects that disappeared between two processes are deleted."""
    known = RecordedObjects()
    victims: set[str] = set()
    for record in reader:
        kind, time = record[0], record[1]
        if kind in (Kind.PUT, Kind.REMOVE):
            item = decode(record[2], record[3])
            if item is None:
                continue
            if kind == Kind.PUT:
                known.put(record[2], item)
                yield TraceChange(time, item)
            else:
                known.remove(record[2], item)
                yield TraceChange(time, item, deleted=True, evicted=item.uid in victims or _is_preempted(item))
        elif kind == Kind.ATTEMPT:
            victims.update(attempt_in(record).victims)
        elif kind == Kind.START:
            known.restart()
        elif kind == Kind.SYNCED:
            yield from (TraceChange(time, item, deleted=True) for _, item in known.synced())


def _is_preempted(item: KubeObject) -> bool:
    if not isinstance(item, Pod):
        return False
    found = item.condition("DisruptionTarget")
    return found is not None and found.reason == "PreemptionByScheduler"


# SimKube


def _simkube_events(path: str) -> list[dict[str, Any]] | None:
    """Return the events of a SimKube trace; None if the file is not one. Raises InputError."""
    try:
        data = Path(path).read_bytes() if Path(path).is_file() else b""
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    # A MessagePack map; text never begins with these bytes.
    if not data or not (0x80 <= data[0] <= 0x8F or data[0] in (0xDE, 0xDF)):
        return None
    try:
        trace = msgspec.msgpack.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise InputError(f"{path}: neither a recording, nor manifests, nor a SimKube trace: {error}") from None
    version = trace.get("version")
    if version not in _SIMKUBE_VERSIONS:
        known = " and ".join(map(str, _SIMKUBE_VERSIONS))
        raise InputError(f"{path}: SimKube trace of version {version!r}; versions {known} can be read")
    events = trace.get("events")
    if not isinstance(events, list) or not all(isinstance(each, dict) and "ts" in each for each in events):
        raise InputError(f"{path}: the SimKube trace has no events")
    found: list[dict[str, Any]] = events
    return found


def _from_simkube(path: str, events: Iterable[dict[str, Any]]) -> Iterator[TraceChange]:
    """Yield the changes of a SimKube trace. Workloads are expanded into pods, as their controllers do."""
    source = Source(path, b"", has_lines=False)
    pods_of: dict[tuple[str, str, str], dict[str, Pod]] = {}
    for event in events:
        time = float(event["ts"])
        for document in event.get("applied_objs") or ():
            given = _given(document, source)
            if given is None or not isinstance(given.item, KubeObject):
                continue
            if not isinstance(given.item, (*WORKLOADS, Pod)):
                yield TraceChange(time, given.item)
                continue
            key = (given.item.kind, given.item.namespace, given.item.name)
            before = pods_of.get(key, {})
            now = {each.pod.key: _created(each.pod, time) for each in build([given]).pods}
            pods_of[key] = {name: before.get(name, pod) for name, pod in now.items()}
            yield from (TraceChange(time, pod, deleted=True) for name, pod in before.items() if name not in now)
            yield from (TraceChange(time, pod) for name, pod in now.items() if name not in before)
        for document in event.get("deleted_objs") or ():
            given = _given(document, source)
            if given is None or not isinstance(given.item, KubeObject):
                continue
            gone = pods_of.pop((given.item.kind, given.item.namespace, given.item.name), None)
            if gone is None:
                yield TraceChange(time, given.item, deleted=True)
            else:
                yield from (TraceChange(time, pod, deleted=True) for pod in gone.values())


def _given(document: Any, source: Source) -> Given | None:
    if not isinstance(document, dict):
        return None
    try:
        item = decode_object(document, source=source.name, check=False)
    except ManifestError as error:
        raise InputError(str(error)) from None
    return Given(item, source, document)


def _created(pod: Pod, time: float) -> Pod:
    metadata = _replace(pod.metadata, creation_timestamp=format_time(time))
    return _replace(pod, metadata=metadata)


# Manifests


def _from_manifests(given: Sequence[Given]) -> Iterator[TraceChange]:
    """Yield the objects of a cluster: pods in the order of their creation, and their binds when they started."""
    scenario = build(given)
    moments = {each.pod.uid: _moment(each.pod.metadata.creation_timestamp, scenario.start) for each in scenario.pods}
    first = min(moments.values(), default=scenario.start)
    yield from (TraceChange(first, item) for item in (*scenario.objects, *scenario.nodes))
    changes: list[tuple[float, int, Pod]] = []
    for number, each in enumerate(scenario.pods):
        pod, moment = each.pod, moments[each.pod.uid]
        if not pod.node_name:
            changes.append((moment, number, pod))
            continue
        status = _replace(pod.status, phase="Pending", nominated_node_name="", start_time=None)
        changes.append((moment, number, _replace(pod, spec=_replace(pod.spec, node_name=""), status=status)))
        changes.append((max(moment, _moment(pod.status.start_time, moment)), len(scenario.pods) + number, pod))
    for time, _, pod in sorted(changes, key=lambda each: each[:2]):
        yield TraceChange(time, pod)


def _moment(text: str | None, otherwise: float) -> float:
    try:
        return parse_time(text) if text else otherwise
    except ValueError:
        return otherwise
