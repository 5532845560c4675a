"""What changed: the difference between the objects we knew and what a list or a watch shows. No I/O here."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from mooring.api import KubeObject

ObjectT = TypeVar("ObjectT", bound=KubeObject)
Action: TypeAlias = Literal["add", "update", "delete"]


class Change(NamedTuple, Generic[ObjectT]):
    """An object as it was and as it is; absent before where it was added, absent now where it was deleted."""

    old: ObjectT | None
    new: ObjectT | None

    @property
    def action(self) -> Action:
        """In one word."""
        if self.old is None:
            return "add"
        return "delete" if self.new is None else "update"

    @property
    def object(self) -> ObjectT:
        """The object as it is, or as it was last."""
        found = self.new if self.new is not None else self.old
        assert found is not None
        return found


class ObjectStore(Generic[ObjectT]):
    """The objects of a kind as last seen, from which each new sight makes exactly the changes that it shows.

    An object deleted and created again under the same name is two changes, even where only the last was seen. A sight
    that is not newer than what is known makes none.
    """

    def __init__(self, *, namespaced: bool) -> None:
        self._namespaced = namespaced
        self._objects: dict[str, ObjectT] = {}
        #: What was seen since `begin`, while a list is being read.
        self._seen: set[str] | None = None

    @property
    def objects(self) -> Mapping[str, ObjectT]:
        """The objects by `namespace/name`, or by name where the kind has no namespaces. A live view."""
        return MappingProxyType(self._objects)

    def key(self, value: ObjectT) -> str:
        """Under what name an object is kept."""
        return f"{value.namespace}/{value.metadata.name}" if self._namespaced else value.metadata.name

    def begin(self) -> None:
        """A complete list begins; what it does not show by the time of `end` is gone."""
        self._seen = set()

    def end(self) -> list[Change[ObjectT]]:
        """The list is complete: what it did not show was deleted."""
        seen, self._seen = self._seen or set(), None
        gone = [key for key in self._objects if key not in seen]
        return [Change(self._objects.pop(key), None) for key in gone]

    def show_all(self, values: Iterable[ObjectT]) -> list[Change[ObjectT]]:
        """These objects exist, thus."""
        changes: list[Change[ObjectT]] = []
        for value in values:
            self.show(value, changes)
        return changes

    def show(self, value: ObjectT, changes: list[Change[ObjectT]]) -> None:
        """This object exists, thus; what that changes is added to `changes`."""
        key = self.key(value)
        if self._seen is not None:
            self._seen.add(key)
        old = self._objects.get(key)
        if old is None:
            changes.append(Change(None, value))
        elif old.metadata.uid != value.metadata.uid:
            changes.append(Change(old, None))
            changes.append(Change(None, value))
        elif is_newer(value.metadata.resource_version, old.metadata.resource_version):
            changes.append(Change(old, value))
        else:
            return
        self._objects[key] = value

    def remove(self, value: ObjectT, changes: list[Change[ObjectT]]) -> None:
        """This object was deleted; what that changes is added to `changes`."""
        key = self.key(value)
        old = self._objects.get(key)
        if old is None or old.metadata.uid != value.metadata.uid:
            return
        del self._objects[key]
        if self._seen is not None:
            self._seen.discard(key)
        changes.append(Change(old, None))


def is_newer(version: str, than: str) -> bool:
    """Whether one version of an object came after another."""
    if version == than:
        return False
    # Versions are numbers wherever they have been seen; where they are not, any other counts as newer.
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return True
