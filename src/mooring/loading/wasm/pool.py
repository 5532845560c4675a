"""Which instance of a guest works on which pod.

Guests keep what they know of an attempt in their memory, so an attempt stays with one instance from PreFilter to the
end of the binding. Attempts to find a node come one after the other and share an instance; one that has found a node
takes its instance along, for bindings run beside the next attempts, and gives it back when it is over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from mooring.framework import CycleState, StateKey
from mooring.loading.wasm.guest import Guest

#: Instances that are kept although nobody needs them just now.
_SPARE = 16


class Lease:
    """An attempt's hold on an instance; what is held when the attempt is forgotten goes back by itself."""

    __slots__ = ("_pool", "guest")

    def __init__(self, guest: Guest, pool: Pool) -> None:
        self.guest: Guest | None = guest
        self._pool = pool

    def release(self) -> None:
        """The attempt is over."""
        guest, self.guest = self.guest, None
        if guest is not None:
            self._pool.take_back(guest)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # when the process ends, anything may be gone already
            self.release()


class Pool:
    """The instances of one plugin in one profile."""

    def __init__(self, plugin: str, make: Callable[[], Guest]) -> None:
        self._make = make
        self._key: StateKey[Lease] = StateKey(f"{plugin}/guest")
        #: The last attempt that has not taken its instance along.
        self._deciding: Lease | None = None
        self._spare: list[Guest] = [make()]  # at once, so that a guest that cannot start is found out at once

    def lease(self, state: CycleState) -> tuple[Guest, bool]:
        """The instance of an attempt, and whether it is new to it (or the one it had has failed)."""
        lease = state.get(self._key)
        if lease is not None and lease.guest is not None and not lease.guest.dead:
            return lease.guest, False
        guest = self._free()
        lease = self._deciding = Lease(guest, self)
        state.write(self._key, lease)
        return guest, True

    def _free(self) -> Guest:
        if self._deciding is not None:
            last, self._deciding.guest = self._deciding.guest, None
            self._deciding = None
            if last is not None and not last.dead:
                return last
        return self._spare.pop() if self._spare else self._make()

    def keep(self, state: CycleState) -> None:
        """The attempt has found a node: its instance stays with it beyond the next attempts."""
        if self._deciding is not None and state.get(self._key) is self._deciding:
            self._deciding = None

    def release(self, state: CycleState) -> None:
        """The attempt is over."""
        lease = state.get(self._key)
        if lease is not None:
            self.keep(state)
            lease.release()

    def take_back(self, guest: Guest) -> None:
        """An instance is free again."""
        if not guest.dead and len(self._spare) < _SPARE:
            self._spare.append(guest)
