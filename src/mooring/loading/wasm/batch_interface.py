"""Mooring's own interface for guests: all nodes in one call, in columns.

`mooring_columns` returns the columns that the guest reads. For every call the host writes a request and the columns to
memory that `mooring_alloc` returned, calls `mooring_filter` or `mooring_score` with the request's address, and reads a
number for each node. `docs/plugins/wasm.md` documents the interface for authors.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.framework import Nodes, Status, Verdicts
from mooring.loading.wasm.guest import Guest, GuestError
from mooring.loading.wasm.host import Call

ABI: Final = 1
#: A request has ten words, then four for each column.
_WORDS: Final = 10
_TEXT_WORD: Final = 7
#: The maximum size of the list of columns, their number, and the size of the text that a guest returns.
_MAX_SPECS: Final = 16 << 10
_MAX_COLUMNS: Final = 256
_MAX_TEXT: Final = 4 << 20
Kind = np.dtype[np.signedinteger[Any]]


class Batch:
    """The batch functions of one instance, with the columns that it reads and its request buffer."""

    def __init__(self, guest: Guest, config: str) -> None:
        self._config = config.encode()
        self._at = self._capacity = 0
        answer = guest.call("mooring_columns", Call()) % 2**64
        if answer % 2**32 > _MAX_SPECS:
            raise GuestError("mooring_columns", f"the list of columns has more than {_MAX_SPECS} bytes")
        specs = guest.memory.text(answer >> 32, answer % 2**32).split()
        if len(specs) > _MAX_COLUMNS:
            raise GuestError("mooring_columns", f"the guest requests {len(specs)} columns; the limit is {_MAX_COLUMNS}")
        try:
            self._columns = [make_column(spec) for spec in specs]
        except ColumnError as error:
            raise GuestError("mooring_columns", f"the guest {error}") from None

    def filter(self, guest: Guest, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Filter all nodes. Return None if all are feasible."""
        answers, text = self._call(guest, "mooring_filter", pod, nodes, np.dtype("<i4"))
        if not answers.any():
            return None
        reasons = text.split("\0")
        if int(np.abs(answers).max()) > len(reasons):
            raise GuestError("mooring_filter", f"the guest returned reason {np.abs(answers).max()} of {len(reasons)}")

        def status(code: int) -> Status:
            reason = reasons[abs(code) - 1]
            return Status.unschedulable(reason) if code > 0 else Status.unresolvable(reason)

        return Verdicts(answers, status)

    def score(self, guest: Guest, pod: Pod, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Score all nodes."""
        return self._call(guest, "mooring_score", pod, nodes, np.dtype("<i8"))[0].astype(np.int64, copy=False)

    def _call(self, guest: Guest, export: str, pod: Pod, nodes: Nodes, kind: Kind) -> tuple[npt.NDArray[Any], str]:
        """Return a number for each node, and the text that the guest returned."""
        parts: list[bytes] = [msgspec.json.encode(pod), self._config]
        for make in self._columns:
            parts += make(pod, nodes)
        parts.append(bytes(len(nodes) * kind.itemsize))  # the answers
        offsets, end = _offsets(parts, 4 * (_WORDS + 4 * len(self._columns)))
        request, memory = self._reserve(guest, end), guest.memory
        try:
            memory.write(request, self._header(request, len(nodes), offsets, parts))
            for offset, part in zip(offsets, parts, strict=True):
                memory.write(request + offset, part)
            status = guest.call(export, Call(pod=pod), request)
            at, length = struct.unpack("<II", memory.read(request + 4 * _TEXT_WORD, 8))
            if length > _MAX_TEXT:
                raise IndexError(f"the returned text has {length} bytes; the limit is {_MAX_TEXT}")
            text = memory.text(at, length)
            answers = memory.read(request + offsets[-1], len(parts[-1]))
        except IndexError as error:
            guest.dead = True
            raise GuestError(export, str(error)) from None
        if status:
            raise GuestError(export, text.strip("\0") or f"the guest returned {status}")
        return np.frombuffer(answers, dtype=kind), text.removesuffix("\0")

    def _header(self, request: int, count: int, offsets: list[int], parts: list[bytes]) -> bytes:
        spans = [word for offset, part in zip(offsets, parts, strict=True) for word in (request + offset, len(part))]
        words = [ABI, count, *spans[:4], spans[-2], 0, 0, len(self._columns), *spans[4:-2]]
        return struct.pack(f"<{len(words)}I", *words)

    def _reserve(self, guest: Guest, size: int) -> int:
        """Return the address of a buffer in the guest's memory."""
        if size > self._capacity:
            self._capacity = 2 * size
            self._at = guest.call("mooring_alloc", Call(), self._capacity) % 2**32
            if self._at == 0 or self._at % 8 or self._at + self._capacity > len(guest.memory):
                guest.dead = True
                text = (
                    f"the guest returned the address {self._at} for {self._capacity} bytes; it must be a multiple of 8 "
                )
                raise GuestError("mooring_alloc", f"{text}within its memory of {len(guest.memory)} bytes")
        return self._at


def _offsets(parts: list[bytes], start: int) -> tuple[list[int], int]:
    """Return the offset of each part, aligned to eight bytes, and the end."""
    offsets, at = [], start
    for part in parts:
        at = -(-at // 8) * 8
        offsets.append(at)
        at += len(part)
    return offsets, -(-at // 8) * 8


#: The column, and its dictionary of zero-terminated texts, if it has one.
Column = tuple[bytes, bytes]
_Source = Callable[[str, Pod, Nodes], Column]


#: The number of node sets whose names are cached.
_MAX_CACHED: Final = 8


class ColumnError(ValueError):
    """An unknown column."""


def make_column(spec: str) -> Callable[[Pod, Nodes], Column]:
    """Return a function that creates a column such as `allocatable:cpu`. Raises ColumnError."""
    kind, _, name = spec.partition(":")
    source, needs_name = _SOURCES.get(kind, (None, False))
    if source is None or needs_name != bool(name):
        raise ColumnError(f"requests the unknown column {spec!r}; columns are {', '.join(KNOWN)}")
    if kind == "name":
        return _Names()
    found = source
    return lambda pod, nodes: found(name, pod, nodes)


def _label(key: str, _pod: Pod, nodes: Nodes) -> Column:
    values = nodes.label(key).values
    return nodes.codes(key).astype("<i4").tobytes(), _texts(value or "" for value in values)


class _Names:
    """The column of node names. It is cached, because most calls have the same nodes."""

    def __init__(self) -> None:
        self._version: tuple[object, int] = (None, -1)
        self._cached: dict[bytes | None, Column] = {}

    def __call__(self, _pod: Pod, nodes: Nodes) -> Column:
        version = (nodes.table, nodes.table.structure)
        if version != self._version or len(self._cached) >= _MAX_CACHED:
            self._cached.clear()
            self._version = version
        rows = None if nodes.rows is None else nodes.rows.tobytes()
        cached = self._cached.get(rows)
        if cached is None:
            cached = self._cached[rows] = _names("", _pod, nodes)
        return cached


def _names(_: str, _pod: Pod, nodes: Nodes) -> Column:
    names = [name.encode() for name in nodes.names]
    ends = np.cumsum([0, *(len(name) + 1 for name in names)], dtype="<u4")
    return ends.tobytes(), b"".join(name + b"\0" for name in names)


def _texts(values: object) -> bytes:
    return b"".join(f"{value}\0".encode() for value in values)  # type: ignore[attr-defined]  # any iterable of texts


def _amount(read: Callable[[Nodes, str], object]) -> _Source:
    return lambda name, _pod, nodes: (np.asarray(read(nodes, name), dtype="<i8").tobytes(), b"")


#: Kind -> the function that creates it, and whether it has a name after a colon.
_SOURCES: Final[dict[str, tuple[_Source, bool]]] = {
    "name": (_names, False),
    "allocatable": (_amount(lambda nodes, name: nodes.allocatable(name)), True),
    "requested": (_amount(lambda nodes, name: nodes.requested(name)), True),
    "nonzero_requested": (_amount(lambda nodes, name: nodes.nonzero_requested(name)), True),
    "pod_count": (_amount(lambda nodes, _: nodes.pod_count), False),
    "allowed_pods": (_amount(lambda nodes, _: nodes.allowed_pods), False),
    "unschedulable": (
        lambda _name, _pod, nodes: (np.asarray(nodes.unschedulable, dtype=np.uint8).tobytes(), b""),
        False,
    ),
    "label": (_label, True),
    "pod_request": (
        lambda name, pod, _nodes: (pod.requests.get(name, 0).to_bytes(8, "little", signed=True), b""),
        True,
    ),
}
KNOWN: Final = tuple(kind + (":NAME" if named else "") for kind, (_, named) in _SOURCES.items())
