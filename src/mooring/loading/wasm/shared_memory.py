"""The two memories of a guest instance: its own, and the one that it shares with the host (shared_memory.wat).

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
#: Registers by word index.
_POD, _POD_LENGTH, _SLOT, _SLOTS, _REASON_NEXT, _REASON_END, _REASON, _REASON_LENGTH = range(8)
_NONE: Final = 0xFFFFFFFF
_FIRST_FREE: Final = 64
#: The size limit. Nodes that do not fit are read through the host function.
_MAX_BYTES: Final = 256 << 20
_SLOT_WORDS: Final = 4


class SharedMemory:
    """The memory through which the host passes pods and nodes to one instance without calls to Python."""

    def __init__(self, memory: Memory, store: Store, grow: Callable[[int], object], nodes: EncodedNodes) -> None:
        self._memory = memory
        self._store = store
        #: Grows the memory by a number of pages, regardless of the guest's memory limit.
        self._grow = grow
        self._nodes = nodes
        self._map()
        self._clear()

    def _map(self) -> None:
        """Map the memory, which moves when it grows."""
        raw = (ctypes.c_ubyte * self._memory.data_len(self._store)).from_address(
            ctypes.addressof(self._memory.data_ptr(self._store).contents)
        )
        self._bytes = np.frombuffer(memoryview(raw), dtype=np.uint8)
        self._words: Words = self._bytes.view(np.uint32)

    def _clear(self) -> None:
        self._end = _FIRST_FREE
        self._regions: dict[str, tuple[int, int]] = {}
        self._slot_of: dict[str, int] = {}
        #: The version of the node in each slot.
        self._written: list[Node | None] = []
        self._pod: Pod | None = None
        self._words[: _FIRST_FREE // 4] = 0
        self._words[_SLOT] = _NONE

    def _allocate(self, size: int) -> int:
        """Allocate a number of bytes and return their address."""
        at = -(-self._end // 8) * 8
        missing = at + size - len(self._bytes)
        if missing > 0:
            self._grow(-(-max(missing, len(self._bytes) // 2) // PAGE))
            self._map()
        self._end = at + size
        return at

    def _region(self, name: str, size: int) -> int:
        """Return the address of a region that is rewritten by every call. It grows as needed."""
        at, capacity = self._regions.get(name, (0, 0))
        if capacity < size:
            at = self._allocate(2 * size)
            self._regions[name] = (at, 2 * size)
        return at

    def _write(self, at: int, content: bytes) -> None:
        self._bytes[at : at + len(content)] = np.frombuffer(content, dtype=np.uint8)

    # Pod and node of a call

    def prepare(self, pod: Pod | None, slot: int = _NONE) -> None:
        """Write the pod, and the slot of the node if any, of the next call."""
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
        """The last reason that the guest gave."""
        return self._text(int(self._words[_REASON]), int(self._words[_REASON_LENGTH]))

    def _text(self, at: int, length: int) -> str:
        content: bytes = self._bytes[at : at + length].tobytes()
        return content.decode("utf-8", "replace")

    # Nodes

    def slot(self, name: str) -> int:
        """Return the slot of a node by name."""
        slot = self._slot_of.get(name)
        return self._add(name) if slot is None else slot

    def _add(self, name: str) -> int:
        slot = self._slot_of[name] = len(self._written)
        self._written.append(None)
        old = self._regions.get("slots", (0, 0))
        table = self._region("slots", (slot + 1) * _SLOT_WORDS * 4)
        if table != old[0] and old[1]:
            self._bytes[table : table + old[1]] = self._bytes[old[0] : old[0] + old[1]]
        content = name.encode()
        at = self._allocate(len(content))
        self._write(at, content)
        word = table // 4 + slot * _SLOT_WORDS
        self._words[word : word + _SLOT_WORDS] = (at, len(content), 0, 0)
        self._words[_SLOTS] = table
        return slot

    def _write_node(self, slot: int, node: Node) -> None:
        content = self._nodes.encoded(node)
        word = self._regions["slots"][0] // 4 + slot * _SLOT_WORDS + 2
        at = int(self._words[word])
        if len(content) > self._words[word + 1]:
            if self._end + len(content) > _MAX_BYTES:
                self._words[word + 1] = 0  # the guest calls the host function instead
                return
            at = self._allocate(len(content))
        self._write(at, content)
        self._words[word : word + 2] = (at, len(content))
        self._written[slot] = node

    def slots(self, nodes: Iterable[NodeInfo], total: int, *, with_nodes: bool) -> Words:
        """Return the slots of nodes. ``total`` is the size of the cluster; ``with_nodes`` also writes the nodes."""
        if len(self._written) > 2 * total + 1000 or self._end > _MAX_BYTES:
            self._clear()  # most slots are of deleted nodes
        if len(self._nodes) > 2 * total + 1000:
            self._nodes.clear()
        found, slot_of, written = [], self._slot_of, self._written
        for info in nodes:
            slot = slot_of.get(info.name)
            if slot is None:
                slot = self._add(info.name)
            if with_nodes and written[slot] is not info.node:
                self._write_node(slot, info.node)
            found.append(slot)
        return np.array(found, dtype=np.uint32)

    # Many nodes in one call

    def run(
        self, call: Callable[..., Any], pod: Pod | None, slots: Words, kind: type[np.int32 | np.int64]
    ) -> tuple[npt.NDArray[Any], Callable[[int], str]]:
        """Call the guest for each node. Return the results up to the first error, and a function for the reasons."""
        count, width = len(slots), np.dtype(kind).itemsize
        index = self._region("index", count * 4)
        answers = self._region("answers", count * width)
        reasons = self._region("where", count * 8)
        self._region("reasons", min(max(PAGE, 256 * count), 4 << 20))
        self.prepare(pod)
        self._words[index // 4 : index // 4 + count] = slots
        done = call(count, index, answers, reasons)
        self._map()  # a host function may have grown the memory
        found = self._bytes[answers : answers + done * width].view(kind).copy()
        where = self._words[reasons // 4 : reasons // 4 + 2 * done]
        return found, lambda place: self._text(int(where[2 * place]), int(where[2 * place + 1]))


class GuestMemory:
    """The memory of a guest, with bounds checks. It can move whenever the guest runs, so its address is not cached."""

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
        """Read bytes."""
        at, length = at % 2**32, length % 2**32
        return ctypes.string_at(self._address(at, length), length) if length else b""

    def text(self, at: int, length: int) -> str:
        """Read text. Invalid UTF-8 is replaced."""
        return self.read(at, length).decode("utf-8", "replace")

    def write(self, at: int, content: bytes | memoryview) -> None:
        """Write bytes."""
        at %= 2**32
        if len(content):
            ctypes.memmove(self._address(at, len(content)), bytes(content), len(content))


_CACHE_KEY = "_protobuf"


def pod_bytes(pod: Pod) -> bytes:
    """Return a pod in protobuf. The bytes are cached on the pod, which is immutable."""
    cached: bytes | None = vars(pod).get(_CACHE_KEY)
    if cached is None:
        cached = vars(pod)[_CACHE_KEY] = encode_object(pod)
    return cached


class EncodedNodes:
    """A cache of nodes in protobuf, which all instances of a guest share."""

    def __init__(self) -> None:
        self._cached: dict[str, tuple[Node, bytes]] = {}

    def encoded(self, node: Node) -> bytes:
        """Return a node in protobuf."""
        cached = self._cached.get(node.name)
        if cached is None or cached[0] is not node:
            cached = self._cached[node.name] = (node, encode_object(node))
        return cached[1]

    def clear(self) -> None:
        """Clear the cache when it contains many deleted nodes."""
        self._cached.clear()

    def __len__(self) -> int:
        return len(self._cached)
