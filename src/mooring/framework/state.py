"""CycleState: data that plugins keep during one attempt to schedule one pod."""

from __future__ import annotations

import itertools
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class StateKey(Generic[T]):
    """A typed key of a CycleState. Create one for each kind of data, at the top of the module.

    >>> SEEN: StateKey[set[str]] = StateKey("MyPlugin/seen")

    ``state.write(SEEN, names)`` stores a value, and ``state.read(SEEN)`` returns it with its type.

    Attributes:
        name: The name in error messages; by convention it starts with the plugin's name.
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"StateKey({self.name!r})"


class MissingStateError(LookupError):
    """An entry was read that was not written in this attempt."""

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} is not in the cycle state; was it written in pre_filter or pre_score?")


class CycleState:
    """Data that plugins share during one attempt for one pod, from PreFilter to PostBind.

    The scheduler clones it to evaluate hypothetical changes (nominated pods, preemption). An entry that has a ``clone``
    method is cloned; any other entry is shared, so treat entries without one as read-only.

    Attributes:
        skip_filter: The plugins whose ``pre_filter`` returned Skip: their Filter does not run in this attempt.
        skip_score: The plugins whose ``pre_score`` returned Skip: their Score does not run in this attempt.
        pods_to_activate: Pods (``namespace/name``) to move to the active queue after the attempt. Plugins may add some.
    """

    __slots__ = ("_entries", "pods_to_activate", "skip_filter", "skip_score")

    def __init__(self) -> None:
        self._entries: dict[StateKey[Any], Any] = {}
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.pods_to_activate: set[str] = set()

    def write(self, key: StateKey[T], value: T) -> None:
        """Store a value for later extension points of this attempt."""
        self._entries[key] = value

    def read(self, key: StateKey[T]) -> T:
        """Return the stored value; raise MissingStateError if there is none."""
        try:
            value: T = self._entries[key]
        except KeyError:
            raise MissingStateError(key.name) from None
        return value

    def get(self, key: StateKey[T]) -> T | None:
        """Return the stored value, or None."""
        value: T | None = self._entries.get(key)
        return value

    def delete(self, key: StateKey[T]) -> None:
        """Delete an entry; it need not exist."""
        self._entries.pop(key, None)

    def preload(self, entries: dict[StateKey[Any], Any]) -> None:
        """Add cached entries (used by the framework)."""
        self._entries.update(entries)

    def __len__(self) -> int:
        return len(self._entries)

    def written_since(self, count: int) -> dict[StateKey[Any], Any]:
        """Return the entries written after the first ``count`` entries (used by the framework)."""
        return dict(itertools.islice(self._entries.items(), count, None))

    def clone(self) -> CycleState:
        """Return a copy; changes to its entries do not affect this one."""
        copy = CycleState()
        for key, value in self._entries.items():
            cloner = getattr(value, "clone", None)
            copy._entries[key] = cloner() if cloner is not None else value
        copy.skip_filter = self.skip_filter
        copy.skip_score = self.skip_score
        copy.pods_to_activate = self.pods_to_activate
        return copy
