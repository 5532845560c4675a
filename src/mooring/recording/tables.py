"""Tables of a recording, as rows for pandas and polars: `pandas.DataFrame(rows("FILE", "decisions"))`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from mooring.recording.recording_file import RecordingReader
from mooring.recording.records import Kind, RecordingError, attempt_in

Row = dict[str, Any]


def decisions(reader: RecordingReader) -> Iterator[Row]:
    """Yield the scheduling cycles of Mooring: one row for each attempt."""
    for record in reader:
        if record[0] == Kind.ATTEMPT:
            attempt = attempt_in(record)
            if attempt.outcome != "skipped":
                yield {"time": record[1], **msgspec.structs.asdict(attempt)}


def events(reader: RecordingReader) -> Iterator[Row]:
    """Yield all records: their time, kind, and for objects what they are about."""
    for number, record in enumerate(reader):
        row: Row = {"number": number, "time": record[1], "event": Kind(record[0]).name.lower()}
        if record[0] in (Kind.PUT, Kind.REMOVE):
            meta = _decoded(_METADATA, record[3]).metadata
            row |= {"kind": record[2], "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
        yield row


def placements(reader: RecordingReader) -> Iterator[Row]:
    """Yield the pods with a node: when they were created and first observed with it. Works for every scheduler."""
    created: dict[str, float] = {}
    for record in reader:
        if record[0] != Kind.PUT or record[2] != "Pod":
            continue
        pod = _decoded(_POD, record[3])
        uid = pod.metadata.uid
        first = created.setdefault(uid, record[1])
        if pod.spec.nodeName and first >= 0:
            created[uid] = -1.0
            yield {
                "pod": f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}",
                "uid": uid,
                "scheduler": pod.spec.schedulerName or "default-scheduler",
                "node": pod.spec.nodeName,
                "seen": first,
                "bound": record[1],
            }


class _Meta(msgspec.Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""


class _Object(msgspec.Struct, frozen=True):
    metadata: _Meta = _Meta()


class _Spec(msgspec.Struct, frozen=True):
    nodeName: str = ""  # noqa: N815 - the name in Kubernetes
    schedulerName: str = ""  # noqa: N815 - the name in Kubernetes


class _Pod(_Object, frozen=True):
    spec: _Spec = _Spec()


_METADATA: Final = msgspec.msgpack.Decoder(_Object)
_POD: Final = msgspec.msgpack.Decoder(_Pod)

T = TypeVar("T")


def _decoded(decoder: msgspec.msgpack.Decoder[T], data: bytes) -> T:
    try:
        return decoder.decode(data)
    except msgspec.DecodeError as error:
        raise RecordingError(f"the recording has an invalid object: {error}") from None


TABLES: Final[Mapping[str, Callable[[RecordingReader], Iterator[Row]]]] = {
    "decisions": decisions,
    "events": events,
    "placements": placements,
}


def rows(path: str | Path, table: str = "decisions") -> list[Row]:
    """Return a table of a recording: ``decisions``, ``events`` or ``placements``. Raises RecordingError."""
    return list(TABLES[table](RecordingReader(path)))
