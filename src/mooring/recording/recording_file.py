"""The file of a recording: a header line, then compressed blocks of records, each with a checksum.

A block is one MessagePack array and self-contained, so a file can be read while it is written, and a crash loses at
most the last block. The blocks are compressed and written by a thread. zlib releases the interpreter meanwhile, so that
the scheduler's thread only encodes.
"""

from __future__ import annotations

import os
import queue
import struct
import threading
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

import msgspec

from mooring.api.meta import KubeObject
from mooring.logs import get_logger
from mooring.recording.records import (
    Header,
    Kind,
    ObjectDecoder,
    RecordedObjects,
    RecordingError,
    header_in,
)

VERSION: Final = 1
MAGIC: Final = b"mooring-recording "
SUFFIX: Final = ".mooring"
_HEAD: Final = MAGIC + f"{VERSION} zlib\n".encode()
#: The length of the compressed block and its CRC-32.
_BLOCK: Final = struct.Struct("<II")
#: The head of a MessagePack array whose length follows in four bytes.
_ARRAY: Final = b"\xdd" + bytes(4)
#: The thread that writes interrupts the scheduler's thread a few times for each block, so blocks are large.
_BLOCK_BYTES: Final = 1 << 20
_BLOCK_SECONDS: Final = 1.0
#: Level 1 needs a third of the time of level 6 for a sixth more space.
_LEVEL: Final = 1
#: A larger block is damage, not data: one record is limited by the size of an object in etcd.
_MAX_BLOCK: Final = 256 << 20
#: The number of blocks that may wait for the disk.
_MAX_WAITING: Final = 64

_OBJECTS: Final = frozenset((int(Kind.PUT), int(Kind.REMOVE)))
_OBJECT_BYTES: Final = frozenset(bytes((kind,)) for kind in _OBJECTS)
_KINDS: Final = frozenset(map(int, Kind))
_RECORDS: Final = msgspec.msgpack.Decoder(list[msgspec.Raw])
_OBJECT: Final = msgspec.msgpack.Decoder(tuple[int, float, str, msgspec.Raw])
_OTHER: Final = msgspec.msgpack.Decoder(list[Any])
#: The maximum size of a block. A few bytes can decompress to gigabytes.
_MAX_CONTENT: Final = 256 << 20

log: Final = get_logger("mooring.recording")


class RecordingWriter:
    """Appends records to a file. Belongs to one thread."""

    def __init__(self, path: str | Path, header: Header, *, time: float) -> None:
        """Create the file, or append to a recording after removing an incomplete block. Raises RecordingError."""
        self.path = Path(path)
        #: Why the recording has ended early; empty if it has not.
        self.problem = ""
        #: The numbers of records and of compressed bytes so far.
        self.records = 0
        self.bytes = 0
        self._written = 0
        self._encode_into = msgspec.msgpack.Encoder().encode_into
        self._buffer = bytearray(_ARRAY)
        self._since = time
        self._file = _open(self.path)
        self._blocks: queue.SimpleQueue[bytearray | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_blocks, name="mooring-recording", daemon=True)
        self._thread.start()
        self.add((Kind.START, time, header))
        self.flush()

    def add(self, record: tuple[Any, ...]) -> None:
        """Append a record: its kind, its time, and the fields of the kind."""
        if self.problem:
            return
        buffer = self._buffer
        size = len(buffer)
        try:
            self._encode_into(record, buffer, -1)
        except (OverflowError, ValueError, TypeError, RecursionError) as error:
            # For example an integer of a custom resource that has more than 64 bits.
            del buffer[size:]
            self.flush()
            self._fail(f"a record cannot be encoded: {error}")
            return
        self.records += 1
        if size >= _BLOCK_BYTES:
            self.flush(record[1])

    def flush_after(self, now: float) -> None:
        """Write the records of the last second, if there are any."""
        if self.records > self._written and now - self._since >= _BLOCK_SECONDS:
            self.flush(now)

    def flush(self, now: float | None = None) -> None:
        """Pass the records so far to the thread that writes them."""
        if now is not None:
            self._since = now
        count = self.records - self._written
        if not count:
            return
        block, self._buffer, self._written = self._buffer, bytearray(_ARRAY), self.records
        block[1:5] = count.to_bytes(4, "big")
        if self._blocks.qsize() >= _MAX_WAITING:
            self._fail("the disk is too slow")
        if not self.problem:
            self._blocks.put(block)

    def close(self) -> None:
        """Write the remaining records and close the file."""
        if self._file.closed:
            return
        self.flush()
        self._blocks.put(None)
        self._thread.join()
        self._file.close()

    def _write_blocks(self) -> None:
        broken = False
        while (block := self._blocks.get()) is not None:
            if broken:
                continue
            packed = zlib.compress(block, _LEVEL)
            try:
                self._file.write(_BLOCK.pack(len(packed), zlib.crc32(packed)) + packed)
                self._file.flush()
            except OSError as error:
                broken = True
                self._fail(error.strerror or str(error))
            else:
                self.bytes += _BLOCK.size + len(packed)

    def _fail(self, problem: str) -> None:
        """End the recording. A recording with a gap could not be replayed."""
        if not self.problem:
            self.problem = problem
            log.error("the recording ends here; scheduling continues", file=str(self.path), error=problem)


def _open(path: Path) -> BinaryIO:
    """Open a recording for appending; cut an incomplete block. Raises RecordingError."""
    try:
        if not path.exists() or path.stat().st_size == 0:
            # Names and labels of all tenants: for the owner only.
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            created = os.fdopen(descriptor, "ab")
            created.write(_HEAD)
            created.flush()
            return created
        with path.open("rb") as file:
            end = _check_head(file, path)
            for place, _ in _blocks(file):
                end = place
        existing = path.open("r+b")
        existing.truncate(end)
        existing.seek(end)
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from None
    return existing


def is_recording(path: str | Path) -> bool:
    """Return whether a file begins as a recording does."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


class RecordingReader:
    """Reads the records of a file. An incomplete or damaged end is left out, and ``problem`` says so."""

    def __init__(self, path: str | Path) -> None:
        """Read the head. Raises RecordingError."""
        self.path = Path(path)
        #: Why the end of the file was left out; empty if it is complete.
        self.problem = ""
        try:
            with self.path.open("rb") as file:
                _check_head(file, self.path)
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror or error}") from None

    def __iter__(self) -> Iterator[list[Any]]:
        """Yield the records. Objects are not decoded yet (`msgspec.Raw`). Raises RecordingError."""
        self.problem = ""
        try:
            yield from self._records()
        except (msgspec.DecodeError, zlib.error, RecursionError, OSError) as error:
            raise RecordingError(f"{self.path}: the recording is damaged: {error}") from None

    def _records(self) -> Iterator[list[Any]]:
        with self.path.open("rb") as file:
            end = _check_head(file, self.path)
            for place, block in _blocks(file):
                end = place
                for raw in _RECORDS.decode(block):
                    # The first item is the kind: a small integer, which is one byte.
                    is_object = bytes(memoryview(raw)[1:2]) in _OBJECT_BYTES
                    record = list(_OBJECT.decode(raw)) if is_object else _OTHER.decode(raw)
                    if len(record) < 2 or record[0] not in _KINDS or not isinstance(record[1], float):
                        raise RecordingError(f"{self.path}: unknown kind of record; use a newer version of Mooring")
                    yield record
            lost = os.fstat(file.fileno()).st_size - end
        if lost:
            self.problem = f"the last {lost:,} bytes of {self.path} are incomplete or damaged, and were left out"

    def start(self) -> tuple[float, Header]:
        """Return the time and the header of the first start. Raises RecordingError."""
        for record in self:
            if record[0] == Kind.START:
                return record[1], header_in(record)
            break
        raise RecordingError(f"{self.path}: the recording is empty")


def objects_at_end(path: str | Path, custom: Iterable[type[KubeObject]] = ()) -> list[KubeObject]:
    """Return the objects that a cluster had at the end of a recording. Raises RecordingError.

    ``custom`` contains the custom resources of plugins.
    """
    decode, found = ObjectDecoder(custom), RecordedObjects()
    for record in RecordingReader(path):
        kind = record[0]
        if kind == Kind.START:
            found.restart()
        elif kind == Kind.SYNCED:
            found.synced()
        elif kind in _OBJECTS and (item := decode(record[2], record[3])) is not None:
            if kind == Kind.PUT:
                found.put(record[2], item)
            else:
                found.remove(record[2], item)
    return list(found)


def _check_head(file: BinaryIO, path: Path) -> int:
    head = file.readline(100)
    if not head.startswith(MAGIC):
        raise RecordingError(f"{path}: not a recording; `mooring record` and `mooring run --record` write one")
    if head != _HEAD:
        told = head[len(MAGIC) :].decode(errors="replace").strip() or "no version"
        raise RecordingError(f"{path}: the format is {told!r}; this Mooring reads {VERSION}; use another version")
    return file.tell()


def _blocks(file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Yield the position after each complete block, and its content."""
    while len(head := file.read(_BLOCK.size)) == _BLOCK.size:
        length, checksum = _BLOCK.unpack(head)
        if length > _MAX_BLOCK:
            return
        packed = file.read(length)
        if len(packed) < length or zlib.crc32(packed) != checksum:
            return
        content = zlib.decompressobj()
        block = content.decompress(packed, _MAX_CONTENT)
        if content.unconsumed_tail:
            raise zlib.error(f"a block has more than {_MAX_CONTENT >> 20} MiB")
        yield file.tell(), block
