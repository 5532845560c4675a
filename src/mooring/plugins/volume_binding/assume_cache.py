"""AssumeCache: objects with changes that are decided but not yet seen from the API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from mooring.api.meta import KubeObject
from mooring.framework import Lister

T = TypeVar("T", bound=KubeObject)
Key = tuple[str, str]


class AssumeError(ValueError):
    """An object cannot be assumed: it is deleted, or changed since the decision. The text is kube-scheduler's."""


class AssumeCache(Generic[T]):
    """The objects of a lister, some of them replaced by assumed versions.

    An assumed object is used until the lister receives a newer one of that name.
    """

    def __init__(self, lister: Lister[T], plural: str, changed: Callable[[str, str], None] | None = None) -> None:
        self._lister = lister
        self._plural = plural
        self._assumed: dict[Key, T] = {}
        self._changed = changed
        lister.listen(self._on_change)

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return the assumed version of an object, or the stored one."""
        stored = self._lister.get(name, namespace)
        assumed = self._assumed.get((namespace, name))
        return stored if assumed is None or stored is None else assumed

    def stored(self, name: str, namespace: str = "") -> T | None:
        """Return an object as stored in the API server."""
        return self._lister.get(name, namespace)

    def assume(self, item: T) -> None:
        """Assume an object; raises AssumeError if it is not based on the stored version."""
        key = (item.namespace, item.name)
        shown = f"{item.namespace}/{item.name}" if item.namespace else item.name
        stored = self._lister.get(item.name, item.namespace)
        if stored is None:
            raise AssumeError(f'{self._plural} "{shown}" not found')
        ours, theirs = item.metadata.resource_version, stored.metadata.resource_version
        if ours != theirs:
            raise AssumeError(f'"{shown}" is out of sync (stored: {theirs}, assume: {ours})')
        self._assumed[key] = item
        self._notify(key)

    def restore(self, item: T) -> None:
        """Undo an assumption, unless a newer one was made since."""
        key = (item.namespace, item.name)
        assumed = self._assumed.get(key)
        if assumed is not None and assumed.metadata.resource_version == item.metadata.resource_version:
            del self._assumed[key]
            self._notify(key)

    def _on_change(self, old: T | None, new: T | None) -> None:
        item = new or old
        if item is None:
            return
        key = (item.namespace, item.name)
        assumed = self._assumed.get(key)
        if assumed is not None and (new is None or new.metadata.resource_version != assumed.metadata.resource_version):
            del self._assumed[key]
        self._notify(key)

    def _notify(self, key: Key) -> None:
        if self._changed is not None:
            self._changed(key[1], key[0])
