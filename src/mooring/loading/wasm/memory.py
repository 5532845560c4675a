"""A memory of WebAssembly as Python reads and writes it, with bounds."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wasmtime import Memory, Store


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
