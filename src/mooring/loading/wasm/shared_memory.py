"""The desk: a memory of its own in which Mooring lays out what an instance of a guest asks for. See desk.wat.

Hot path: what is here is done for every pod, and in `slots` for every node that is asked about.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework import NodeInfo
from mooring.loading.wasm.objects import NodeTexts, pod_bytes

if TYPE_CHECKING:
    from wasmtime import Memory, Store

Words = npt.NDArray[np.uint32]
PAGE: Final = 1 << 16
#: Registers, by word.
_POD, _POD_LENGTH, _SLOT, _SLOTS, _REASON_NEXT, _REASON_END, _REASON, _REASON_LENGTH = range(8)
_NONE: Final = 0xFFFFFFFF
_FIRST_FREE: Final = 64
#: No more than this is laid out; what does not fit is asked for instead.
_MAX_BYTES: Final = 256 << 20
_SLOT_WORDS: Final = 4


class Desk:
    """One instance's desk."""

    def __init__(self, memory: Memory, store: Store, grow: Callable[[int], object], nodes: NodeTexts) -> None:
        self._memory = memory
        self._store = store
        #: Grows the memory by some pages, whatever the guest's own limit is.
        self._grow = grow
        self._nodes = nodes
        self._look()
        self._clear()

    def _look(self) -> None:
        """Find the memory, which may have moved by growing."""
        raw = (ctypes.c_ubyte * self._memory.data_len(self._store)).from_address(
            ctypes.addressof(self._memory.data_ptr(self._store).contents)
        )
        self._bytes = np.frombuffer(memoryview(raw), dtype=np.uint8)
        self._words: Words = self._bytes.view(np.uint32)

    def _clear(self) -> None:
        self._end = _FIRST_FREE
        self._regions: dict[str, tuple[int, int]] = {}
        self._slot_of: dict[str, int] = {}
        #: The version of a node that lies in its slot.
        self._laid: list[Node | None] = []
        self._pod: Pod | None = None
        self._words[: _FIRST_FREE // 4] = 0
        self._words[_SLOT] = _NONE

    def _room(self, size: int) -> int:
        """Where there is room for so many bytes."""
        at = -(-self._end // 8) * 8
        missing = at + size - len(self._bytes)
        if missing > 0:
            self._grow(-(-max(missing, len(self._bytes) // 2) // PAGE))
            self._look()
        self._end = at + size
        return at

    def _region(self, name: str, size: int) -> int:
        """Where a part of the desk is that is written anew every time; it grows as needed."""
        at, room = self._regions.get(name, (0, 0))
        if room < size:
            at = self._room(2 * size)
            self._regions[name] = (at, 2 * size)
        return at

    def _write(self, at: int, content: bytes) -> None:
        self._bytes[at : at + len(content)] = np.frombuffer(content, dtype=np.uint8)

    # What a call is about

    def lay(self, pod: Pod | None, slot: int = _NONE) -> None:
        """A call about a pod, and perhaps a node, is going to be made."""
        if pod is not self._pod:
            content = b"" if pod is None else pod_bytes(pod)
            at = self._region("pod", len(content))
            self._write(at, content)
            self._words[_POD] = at
            self._words[_POD_LENGTH] = len(content)
            self._pod = pod
        at = self._region("reasons", PAGE)
        words = self._words
        words[_SLOT] = slot
        words[_REASON_NEXT] = at
        words[_REASON_END] = at + self._regions["reasons"][1]
        words[_REASON_LENGTH] = 0

    @property
    def reason(self) -> str:
        """What the guest said last."""
        return self._text(int(self._words[_REASON]), int(self._words[_REASON_LENGTH]))

    def _text(self, at: int, length: int) -> str:
        content: bytes = self._bytes[at : at + length].tobytes()
        return content.decode("utf-8", "replace")

    # Nodes

    def slot(self, name: str) -> int:
        """The slot of a node by name."""
        known = self._slot_of.get(name)
        return self._add(name) if known is None else known

    def _add(self, name: str) -> int:
        slot = self._slot_of[name] = len(self._laid)
        self._laid.append(None)
        known = self._regions.get("slots", (0, 0))
        table = self._region("slots", (slot + 1) * _SLOT_WORDS * 4)
        if table != known[0] and known[1]:
            self._bytes[table : table + known[1]] = self._bytes[known[0] : known[0] + known[1]]
        content = name.encode()
        at = self._room(len(content))
        self._write(at, content)
        word = table // 4 + slot * _SLOT_WORDS
        self._words[word : word + _SLOT_WORDS] = (at, len(content), 0, 0)
        self._words[_SLOTS] = table
        return slot

    def _lay_node(self, slot: int, node: Node) -> None:
        content = self._nodes.encoded(node)
        word = self._regions["slots"][0] // 4 + slot * _SLOT_WORDS + 2
        at = int(self._words[word])
        if len(content) > self._words[word + 1]:
            if self._end + len(content) > _MAX_BYTES:
                self._words[word + 1] = 0  # the guest will have to ask
                return
            at = self._room(len(content))
        self._write(at, content)
        self._words[word : word + 2] = (at, len(content))
        self._laid[slot] = node

    def slots(self, nodes: Iterable[NodeInfo], total: int, *, with_nodes: bool) -> Words:
        """The slots of some nodes of a cluster of so many; ``with_nodes``: with the nodes themselves in them."""
        if len(self._laid) > 2 * total + 1000 or self._end > _MAX_BYTES:
            self._clear()  # most of them are gone
        if len(self._nodes) > 2 * total + 1000:
            self._nodes.forget()
        found, known, laid = [], self._slot_of, self._laid
        for info in nodes:
            slot = known.get(info.name)
            if slot is None:
                slot = self._add(info.name)
            if with_nodes and laid[slot] is not info.node:
                self._lay_node(slot, info.node)
            found.append(slot)
        return np.array(found, dtype=np.uint32)

    # Many nodes in one call

    def run(
        self, call: Callable[..., Any], pod: Pod | None, slots: Words, kind: type[np.int32 | np.int64]
    ) -> tuple[npt.NDArray[Any], Callable[[int], str]]:
        """Ask about nodes one after the other. The answers as far as they go, and the reason for each of them."""
        count, width = len(slots), np.dtype(kind).itemsize
        index = self._region("index", count * 4)
        answers = self._region("answers", count * width)
        reasons = self._region("where", count * 8)
        self._region("reasons", min(max(PAGE, 256 * count), 4 << 20))
        self.lay(pod)
        self._words[index // 4 : index // 4 + count] = slots
        done = call(count, index, answers, reasons)
        self._look()  # the guest may have asked for something that made this memory grow
        found = self._bytes[answers : answers + done * width].view(kind).copy()
        where = self._words[reasons // 4 : reasons // 4 + 2 * done]
        return found, lambda place: self._text(int(where[2 * place]), int(where[2 * place + 1]))
