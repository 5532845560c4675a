"""Memories of a guest instance: its own, and the one that it shares with the host (shared_memory.wat).

Hot path: the code of `SharedMemory` runs for every pod, and `slots` for every node of a call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.protobuf import encode_object
from mooring.framework import NodeInfo

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


class SharedMemory:
    """One instance's shared."""

    def __init__(self, memory: Memory, store: Store, grow: Callable[[int], object], nodes: EncodedNodes) -> None:
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
        """Where a part of the shared is that is written anew every time; it grows as needed."""
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


class GuestMemory:
    """The memory of a guest. It may grow, and move, whenever the guest runs, so nothing is kept of where it is."""

    def __init__(self, memory: Memory, store: Store) -> None:
        self._memory = memory
        self._store = store

    def __len__(self) -> int:
        return self._memory.data_len(self._store)

    def _address(self, at: int, length: int) -> int:
        if at < 0 or length < 0 or at + length > len(self):
            raise IndexError(f"{length} bytes at {at} are outside of the guest's memory of {len(self)} bytes")
        return ctypes.addressof(self._memory.data_ptr(self._store).contents) + at

    def read(self, at: int, length: int) -> bytes:
        """Some bytes."""
        at, length = at % 2**32, length % 2**32
        return ctypes.string_at(self._address(at, length), length) if length else b""

    def text(self, at: int, length: int) -> str:
        """Some text; what is no UTF-8 is replaced."""
        return self.read(at, length).decode("utf-8", "replace")

    def write(self, at: int, content: bytes | memoryview) -> None:
        """Put bytes somewhere."""
        at %= 2**32
        if len(content):
            ctypes.memmove(self._address(at, len(content)), bytes(content), len(content))


_KEPT = "_protobuf"


def pod_bytes(pod: Pod) -> bytes:
    """A pod in protobuf; kept on the pod, which never changes."""
    kept: bytes | None = vars(pod).get(_KEPT)
    if kept is None:
        kept = vars(pod)[_KEPT] = encode_object(pod)
    return kept


class EncodedNodes:
    """Nodes in protobuf; shared by all instances of a guest."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Node, bytes]] = {}

    def encoded(self, node: Node) -> bytes:
        """A node in protobuf."""
        kept = self._kept.get(node.name)
        if kept is None or kept[0] is not node:
            kept = self._kept[node.name] = (node, encode_object(node))
        return kept[1]

    def forget(self) -> None:
        """Start anew, when there are many nodes in here that are gone."""
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)
