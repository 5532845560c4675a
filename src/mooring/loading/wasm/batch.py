"""Mooring's own interface for guests: all nodes in one call, in columns.

`mooring_columns` says which columns the guest wants. For every decision the host writes a request and the columns into
memory that `mooring_alloc` gave, calls `mooring_filter` or `mooring_score` with the request's address, and reads a
number for each node. `docs/plugins/wasm.md` has the interface for authors.
"""

from __future__ import annotations

import struct
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.framework import Nodes, Status, Verdicts
from mooring.loading.wasm.calls import Call
from mooring.loading.wasm.columns import ColumnError, make_column
from mooring.loading.wasm.errors import GuestError
from mooring.loading.wasm.guest import Guest

ABI: Final = 1
#: The request: ten words, then four for each column.
_WORDS: Final = 10
_TEXT_WORD: Final = 7
Kind = np.dtype[np.signedinteger[Any]]


class Batch:
    """What the host knows of one instance's batch functions: the columns it wants, and where it has room."""

    def __init__(self, guest: Guest, config: str) -> None:
        self._config = config.encode()
        self._at = self._room = 0
        answer = guest.call("mooring_columns", Call()) % 2**64
        text = guest.memory.text(answer >> 32, answer % 2**32)
        try:
            self._columns = [make_column(spec) for spec in text.split()]
        except ColumnError as error:
            raise GuestError("mooring_columns", f"the guest {error}") from None

    def filter(self, guest: Guest, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """Verdicts on all nodes: None if all will do."""
        answers, text = self._ask(guest, "mooring_filter", pod, nodes, np.dtype("<i4"))
        if not answers.any():
            return None
        reasons = text.split("\0")
        if int(np.abs(answers).max()) > len(reasons):
            raise GuestError("mooring_filter", f"the guest gave reason {np.abs(answers).max()} of {len(reasons)}")

        def status(code: int) -> Status:
            reason = reasons[abs(code) - 1]
            return Status.unschedulable(reason) if code > 0 else Status.unresolvable(reason)

        return Verdicts(answers, status)

    def score(self, guest: Guest, pod: Pod, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Scores of all nodes."""
        return self._ask(guest, "mooring_score", pod, nodes, np.dtype("<i8"))[0].astype(np.int64, copy=False)

    def _ask(self, guest: Guest, export: str, pod: Pod, nodes: Nodes, kind: Kind) -> tuple[npt.NDArray[Any], str]:
        """A number for each node, and the text that the guest gave."""
        parts: list[bytes] = [msgspec.json.encode(pod), self._config]
        for make in self._columns:
            parts += make(pod, nodes)
        parts.append(bytes(len(nodes) * kind.itemsize))  # the answers
        places, end = _places(parts, 4 * (_WORDS + 4 * len(self._columns)))
        request, memory = self._reserve(guest, end), guest.memory
        try:
            memory.write(request, self._header(request, len(nodes), places, parts))
            for place, part in zip(places, parts, strict=True):
                memory.write(request + place, part)
            status = guest.call(export, Call(pod=pod), request)
            text = memory.text(*struct.unpack("<II", memory.read(request + 4 * _TEXT_WORD, 8)))
            answers = memory.read(request + places[-1], len(parts[-1]))
        except IndexError as error:
            guest.dead = True
            raise GuestError(export, str(error)) from None
        if status:
            raise GuestError(export, text.strip("\0") or f"the guest answered {status}")
        return np.frombuffer(answers, dtype=kind), text.removesuffix("\0")

    def _header(self, request: int, count: int, places: list[int], parts: list[bytes]) -> bytes:
        where = [word for place, part in zip(places, parts, strict=True) for word in (request + place, len(part))]
        words = [ABI, count, *where[:4], where[-2], 0, 0, len(self._columns), *where[4:-2]]
        return struct.pack(f"<{len(words)}I", *words)

    def _reserve(self, guest: Guest, size: int) -> int:
        """Where the guest has room for so many bytes."""
        if size > self._room:
            self._room = 2 * size
            self._at = guest.call("mooring_alloc", Call(), self._room) % 2**32
            if self._at == 0 or self._at % 8 or self._at + self._room > len(guest.memory):
                guest.dead = True
                text = f"the guest gave the address {self._at} for {self._room} bytes; it must be a multiple of 8 and "
                raise GuestError("mooring_alloc", f"{text}inside of its memory of {len(guest.memory)} bytes")
        return self._at


def _places(parts: list[bytes], start: int) -> tuple[list[int], int]:
    """Where each part begins, all at multiples of eight, and where the last ends."""
    places, at = [], start
    for part in parts:
        at = -(-at // 8) * 8
        places.append(at)
        at += len(part)
    return places, -(-at // 8) * 8
