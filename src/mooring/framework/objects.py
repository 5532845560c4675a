"""Objects beside nodes and pods (volumes, services, budgets, ...), by kind, for plugins to look up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar, cast

from mooring.api.meta import KubeObject

T = TypeVar("T", bound=KubeObject)
T_contra = TypeVar("T_contra", contravariant=True)


class ObjectListener(Protocol[T_contra]):
    """Called with (old, new); either is None when the object came or went."""

    def __call__(self, old: T_contra | None, new: T_contra | None, /) -> None:
        """Take note of the change."""


class Lister(Generic[T]):
    """All objects of one kind."""

    __slots__ = ("_by_namespace", "_listeners", "version")

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, T]] = {}
        self._listeners: list[ObjectListener[T]] = []
        #: Rises with every change: what was derived from an older version may be stale.
        self.version = 0

    def get(self, name: str, namespace: str = "") -> T | None:
        """An object by name."""
        return self._by_namespace.get(namespace, {}).get(name)

    def list(self, namespace: str | None = None) -> Iterable[T]:
        """The objects of one namespace, or of all."""
        if namespace is not None:
            return self._by_namespace.get(namespace, {}).values()
        return [item for objects in self._by_namespace.values() for item in objects.values()]

    def listen(self, listener: ObjectListener[T]) -> None:
        """Be told about every change from now on."""
        self._listeners.append(listener)

    def put(self, item: T) -> None:
        """Add or replace an object."""
        objects = self._by_namespace.setdefault(item.namespace, {})
        old = objects.get(item.name)
        objects[item.name] = item
        self._changed(old, item)

    def remove(self, name: str, namespace: str = "") -> None:
        """Remove an object; it need not exist."""
        old = self._by_namespace.get(namespace, {}).pop(name, None)
        if old is not None:
            self._changed(old, None)

    def _changed(self, old: T | None, new: T | None) -> None:
        self.version += 1
        for listener in self._listeners:
            listener(old, new)

    def __len__(self) -> int:
        return sum(len(objects) for objects in self._by_namespace.values())


class ObjectStore:
    """A lister a kind, made when first asked for."""

    def __init__(self) -> None:
        self._listers: dict[type, Lister[KubeObject]] = {}

    def lister(self, kind: type[T]) -> Lister[T]:
        """All objects of a kind."""
        lister = self._listers.get(kind)
        if lister is None:
            lister = self._listers[kind] = Lister()
        return cast("Lister[T]", lister)

    def put(self, item: KubeObject) -> None:
        """Add or replace an object."""
        self.lister(type(item)).put(item)

    def remove(self, item: KubeObject) -> None:
        """Remove an object."""
        self.lister(type(item)).remove(item.name, item.namespace)
