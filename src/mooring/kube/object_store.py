"""A store of objects that computes the changes between its content and a list or watch events."""

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from mooring.api import KubeObject

ObjectT = TypeVar("ObjectT", bound=KubeObject)
Action: TypeAlias = Literal["add", "update", "delete"]


class Change(NamedTuple, Generic[ObjectT]):
    """An object before and after a change. `old` is None if it was added, `new` if it was deleted."""

    old: ObjectT | None
    new: ObjectT | None

    @property
    def action(self) -> Action:
        """The kind of change."""
        if self.old is None:
            return "add"
        return "delete" if self.new is None else "update"

    @property
    def object(self) -> ObjectT:
        """The new object, or the old one if it was deleted."""
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found


#: Makes a change of the values without Python code, since a list of pods is one change for each.
_make_change: Final[Callable[[tuple[Any, Any]], Change[Any]]] = functools.partial(tuple.__new__, Change)


class ObjectStore(Generic[ObjectT]):
    """A store of the last observed objects of a kind.

    An object that was deleted and created again under the same name is two changes, even if only the new object was
    observed. An object that is not newer than the stored one is no change.
    """

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced
        self._objects: dict[str, ObjectT] = {}
        #: The keys observed since `begin`, while a list is read. None if the store was empty then.
        self._seen: set[str] | None = None
        #: Whether older versions of objects replace newer ones until the end of the list.
        self._accepts_older = False

    @property
    def objects(self) -> Mapping[str, ObjectT]:
        """The objects by `namespace/name`, or by name for a cluster-scoped kind. A live view."""
        return MappingProxyType(self._objects)

    def key(self, value: ObjectT) -> str:
        """Return the key of an object."""
        metadata = value.metadata
        # The namespace of some kinds has a default.
        return f"{metadata.namespace or value.namespace}/{metadata.name}" if self._namespaced else metadata.name

    def begin(self, *, accept_older: bool = False) -> None:
        """Begin a complete list. Objects that are not observed until `end` are deleted.

        With ``accept_older``, older versions of objects replace newer ones.
        """
        self._seen = set() if self._objects else None  # what is stored from now on was observed
        self._accepts_older = accept_older

    def end(self) -> list[Change[ObjectT]]:
        """End the list and return the deletions."""
        seen, self._seen = self._seen, None
        self._accepts_older = False
        if seen is None:
            return []
        gone = [key for key in self._objects if key not in seen]
        return [Change(self._objects.pop(key), None) for key in gone]

    def store_all(self, values: Iterable[ObjectT]) -> list[Change[ObjectT]]:
        """Store the objects of a list and return the changes."""
        values = list(values)
        keys = list(map(self.key, values))
        unknown = set(keys)
        if len(unknown) == len(keys) and self._objects.keys().isdisjoint(unknown):  # as in the first list
            self._objects.update(zip(keys, values, strict=True))
            if self._seen is not None:
                self._seen |= unknown
            return list(map(_make_change, zip(itertools.repeat(None), values)))
        changes: list[Change[ObjectT]] = []
        for value in values:
            self.store(value, changes)
        return changes

    def store(self, value: ObjectT, changes: list[Change[ObjectT]]) -> None:
        """Store an object and add the changes to `changes`."""
        metadata, key = value.metadata, self.key(value)
        if self._seen is not None:
            self._seen.add(key)
        old = self._objects.get(key)
        if old is None:
            changes.append(_make_change((None, value)))
        elif old.metadata.uid != metadata.uid:
            changes.append(Change(old, None))
            changes.append(Change(None, value))
        else:
            version, stored = metadata.resource_version, old.metadata.resource_version
            if version == stored or not (self._accepts_older or is_newer(version, stored)):
                return
            changes.append(_make_change((old, value)))
        self._objects[key] = value

    def remove(self, value: ObjectT, changes: list[Change[ObjectT]]) -> None:
        """Delete an object and add the change to `changes`."""
        key = self.key(value)
        old = self._objects.get(key)
        if old is None or old.metadata.uid != value.metadata.uid:
            return
        del self._objects[key]
        if self._seen is not None:
            self._seen.discard(key)
        changes.append(Change(old, None))


def is_newer(version: str, than: str) -> bool:
    """Return whether a resource version is newer than another."""
    if version == than:
        return False
    if version > than and len(version) == len(than):
        return True  # the usual case, whether or not both are numbers
    # Versions are numbers in practice. If they are not, any other version counts as newer.
    if version.isdecimal() and than.isdecimal():
        # Compare as text, because Python does not convert very long numbers.
        if len(version) == len(than):
            return False
        left, right = version.lstrip("0"), than.lstrip("0")
        return (len(left), left) > (len(right), right)
    return True
