"""Objects beside nodes and pods (volumes, services, custom resources, ...), by kind, for plugins to look up."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar, cast

from mooring.api.label_selectors import Selector, compile_selector, selector_from_labels
from mooring.api.meta import KubeObject, LabelSelector
from mooring.columns.listening import note_listener
from mooring.framework.events import ActionType

T = TypeVar("T", bound=KubeObject)
F = TypeVar("F", bound=Callable[..., Any])
#: What an index sorts by: a key, several of them, or None for objects that it leaves out.
IndexKey = Callable[[T], "Hashable | None"]
T_contra = TypeVar("T_contra", contravariant=True)


class ObjectListener(Protocol[T_contra]):
    """Called with (old, new); either is None when the object came or went."""

    def __call__(self, old: T_contra | None, new: T_contra | None, /) -> None:
        """Take note of the change."""


class Index(Generic[T]):
    """Objects of a kind by a key of your choice; kept current for as long as somebody holds it."""

    def __init__(self, key: IndexKey[T]) -> None:
        self._key = key
        self._found: dict[Hashable, dict[tuple[str, str], T]] = {}

    def get(self, key: Hashable) -> list[T]:
        """The objects with this key, in the order in which they came."""
        return list(self._found.get(key, {}).values())

    def count(self, key: Hashable) -> int:
        """How many objects have this key."""
        return len(self._found.get(key, ()))

    def __call__(self, old: T | None, new: T | None, /) -> None:
        """Take note of a change."""
        if old is not None:
            for key in self._keys(old):
                group = self._found.get(key, {})
                group.pop((old.namespace, old.name), None)
                if not group:
                    self._found.pop(key, None)
        if new is not None:
            for key in self._keys(new):
                self._found.setdefault(key, {})[new.namespace, new.name] = new

    def _keys(self, item: T) -> Iterable[Hashable]:
        made = self._key(item)
        if made is None:
            return ()
        return made if isinstance(made, (tuple, list, set, frozenset)) else (made,)


class Lister(Generic[T]):
    """All objects of one kind.

    As an attribute of a plugin class it declares that the plugin reads the kind: ``reports = Lister(NodeReport)``.
    ``self.reports`` is then the live lister, in step with the cluster before the first decision, and pods that the
    plugin turned down are tried again when an object changes (``events`` says at which changes; none never wakes).
    """

    __slots__ = ("_attribute", "_by_namespace", "_indexes", "_listeners", "events", "hint", "kind", "version")

    def __init__(self, kind: type[T] | None = None, *, events: ActionType = ActionType.ALL) -> None:
        #: What it lists, where it declares something.
        self.kind = kind
        self.events = events
        #: (plugin, pod, old, new) -> Hint, if the plugin has one.
        self.hint: Callable[..., Any] | None = None
        self._attribute = ""
        self._by_namespace: dict[str, dict[str, T]] = {}
        self._listeners: list[ObjectListener[T]] = []
        self._indexes: weakref.WeakSet[Index[T]] = weakref.WeakSet()
        #: Rises with every change: what was derived from an older version may be stale.
        self.version = 0

    # Declaring

    def __set_name__(self, owner: type, name: str) -> None:
        self._attribute = name

    def __get__(self, plugin: Any, owner: type | None = None) -> Lister[T]:
        if plugin is None or self.kind is None:
            return self
        live: Lister[T] = plugin.handle.lister(self.kind)
        vars(plugin)[self._attribute] = live
        return live

    def queueing_hint(self, method: F) -> F:
        """Decorate the method ``(self, pod, old, new) -> Hint`` that says whether a change may help a waiting pod."""
        self.hint = method
        return method

    # Reading

    def get(self, name: str, namespace: str = "") -> T | None:
        """An object by name."""
        return self._by_namespace.get(namespace, {}).get(name)

    def list(
        self, namespace: str | None = None, selector: Mapping[str, str] | LabelSelector | Selector | None = None
    ) -> Iterable[T]:
        """The objects of one namespace, or of all; with a selector, those whose labels it matches."""
        if namespace is not None:
            found: Iterable[T] = self._by_namespace.get(namespace, {}).values()
        else:
            found = [item for objects in self._by_namespace.values() for item in objects.values()]
        if selector is None:
            return found
        matches = _compiled(selector).matches
        return [item for item in found if matches(item.labels)]

    def index(self, key: IndexKey[T]) -> Index[T]:
        """The objects by a key of your choice: ``self.by_zone = self.reports.index(lambda r: r.spec.zone)``."""
        made = Index(key)
        for item in self.list():
            made(None, item)
        self._indexes.add(made)
        return made

    def listen(self, listener: ObjectListener[T]) -> None:
        """Be told about every change from now on."""
        self._listeners.append(listener)
        note_listener(listener)

    def stop_telling(self, is_gone: Callable[[object], bool]) -> None:
        """Forget listeners of plugins that are in force no more."""
        self._listeners = [listener for listener in self._listeners if not is_gone(listener)]

    # Feeding

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
        for index in self._indexes:
            index(old, new)

    def __len__(self) -> int:
        return sum(len(objects) for objects in self._by_namespace.values())


def _compiled(selector: Mapping[str, str] | LabelSelector | Selector) -> Selector:
    if isinstance(selector, Selector):
        return selector
    return compile_selector(selector) if isinstance(selector, LabelSelector) else selector_from_labels(selector)


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

    def stop_telling(self, is_gone: Callable[[object], bool]) -> None:
        """Forget listeners of plugins that are in force no more."""
        for lister in self._listers.values():
            lister.stop_telling(is_gone)

    def drop(self, kind: type[KubeObject]) -> None:
        """Forget a kind and all its objects: nobody reads it any more."""
        self._listers.pop(kind, None)
