"""Listers: objects other than nodes and pods (volumes, services, custom resources, ...), by kind."""

from __future__ import annotations

import builtins
import weakref
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar, cast

from mooring.api.label_selectors import Selector, compile_selector, selector_from_labels
from mooring.api.meta import KubeObject, LabelSelector
from mooring.framework.events import ActionType
from mooring.framework.plugin_errors import HangsError, contain
from mooring.unexpected_errors import report_unexpected

T = TypeVar("T", bound=KubeObject)
F = TypeVar("F", bound=Callable[..., Any])
D = TypeVar("D")
#: Returns an object's key in an index: one key, several, or None to leave the object out.
IndexKey = Callable[[T], "Hashable | None"]
T_contra = TypeVar("T_contra", contravariant=True)
#: Called with the name and the error of a plugin's listener that raised.
ListenerError = Callable[[str, BaseException], None]


class ObjectListener(Protocol[T_contra]):
    """Called with (old, new) on every change; ``old`` is None for an added object, ``new`` for a deleted one."""

    def __call__(self, old: T_contra | None, new: T_contra | None, /) -> None:
        """Handle the change."""


class Index(Generic[T]):
    """Objects of a kind by a key that you choose; it is updated for as long as it is referenced."""

    def __init__(self, key: IndexKey[T]) -> None:
        self._key = key
        self._found: dict[Hashable, dict[tuple[str, str], T]] = {}
        #: Called with errors of the key function; None raises them.
        self.on_error: ListenerError | None = None

    def get(self, key: Hashable) -> list[T]:
        """Return the objects with this key, in the order in which they were added."""
        return list(self._found.get(key, {}).values())

    def count(self, key: Hashable) -> int:
        """Return the number of objects with this key."""
        return len(self._found.get(key, ()))

    def __call__(self, old: T | None, new: T | None, /) -> None:
        """Handle a change."""
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
        try:
            made = self._key(item)
        except BaseException as error:
            contain(error)
            if self.on_error is None:
                raise
            self.on_error("index", error)
            return ()
        if made is None:
            return ()
        return made if isinstance(made, (tuple, list, set, frozenset)) else (made,)


class Lister(Generic[T]):
    """All objects of one kind.

    As a class attribute of a plugin it declares that the plugin reads the kind: ``reports = Lister(NodeReport)``.
    ``self.reports`` is then the live lister. It is synchronized before the first attempt, and pods that the plugin
    rejected are retried when an object changes.

    Attributes:
        kind: The kind of the objects, if the lister is a declaration.
        events: The changes that retry pods; by default all. An empty set disables the retries.
        hint: The method that ``queueing_hint`` decorated, if there is one.
        gate: The feature gate that must be on for the kind to be read; empty if it is always read.
        permitted_by: The plugin whose permissions include reading the kind; empty if they are this plugin's own.
        version: A number that increases with every change; compare it to find out whether derived data is stale.
    """

    __slots__ = (
        "_attribute",
        "_by_namespace",
        "_indexes",
        "_listeners",
        "_store",
        "events",
        "gate",
        "hint",
        "kind",
        "permitted_by",
        "version",
    )

    def __init__(
        self,
        kind: type[T] | None = None,
        *,
        events: ActionType = ActionType.ALL,
        gate: str = "",
        permitted_by: str = "",
    ) -> None:
        self.kind = kind
        self.events = events
        self.gate = gate
        self.permitted_by = permitted_by
        self.hint: Callable[..., Any] | None = None
        self._attribute = ""
        self._by_namespace: dict[str, dict[str, T]] = {}
        self._listeners: list[ObjectListener[T]] = []
        #: References that remove themselves when an index is no longer used. A list, since most listers have none: an
        #: empty one costs a change nothing.
        self._indexes: builtins.list[weakref.ref[Index[T]]] = []
        #: The store that the lister belongs to.
        self._store: ObjectStore | None = None
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
        """Decorate the method ``(self, pod, old, new) -> Hint`` that decides whether a change requeues a pod."""
        self.hint = method
        return method

    # Reading

    def get(self, name: str, namespace: str = "") -> T | None:
        """Return an object by name, or None; ``namespace`` is empty for cluster-scoped kinds."""
        return self._by_namespace.get(namespace, {}).get(name)

    def list(
        self, namespace: str | None = None, selector: Mapping[str, str] | LabelSelector | Selector | None = None
    ) -> Iterable[T]:
        """Return the objects of one namespace, or of all; with a selector, those whose labels match."""
        if namespace is not None:
            found: Iterable[T] = self._by_namespace.get(namespace, {}).values()
        else:
            found = [item for objects in self._by_namespace.values() for item in objects.values()]
        if selector is None:
            return found
        matches = _compiled(selector).matches
        return [item for item in found if matches(item.labels)]

    def index(self, key: IndexKey[T]) -> Index[T]:
        """Index the objects by a key: ``self.by_zone = self.reports.index(lambda r: r.spec.zone)``.

        An index is shared by all that index the objects of a store by the same function.
        """
        for reference in tuple(self._indexes):
            known = reference()
            if known is not None and known._key is key and known.on_error is None:
                return known
        return self._new_index(key)

    def _new_index(self, key: IndexKey[T]) -> Index[T]:
        made = Index(key)
        for item in self.list():
            made(None, item)
        self._indexes.append(weakref.ref(made, self._indexes.remove))
        return made

    def listen(self, listener: ObjectListener[T]) -> Callable[[], None]:
        """Call a listener with every change from now on; return a function that ends the subscription.

        Subscriptions made through a plugin's handle end when the plugin is replaced.
        """
        self._listeners.append(listener)

        def unsubscribe() -> None:
            self._listeners = [each for each in self._listeners if each is not listener]

        return unsubscribe

    # Feeding

    def put(self, item: T) -> None:
        """Add or replace an object."""
        metadata = item.metadata
        name, namespace = metadata.name, metadata.namespace or item.namespace  # the namespace of a kind has a default
        objects = self._by_namespace.get(namespace)
        if objects is None:
            objects = self._by_namespace[namespace] = {}
        old = objects.get(name)
        objects[name] = item
        self.version += 1
        if self._listeners or self._indexes:
            self._notify(old, item)

    def unknown(self, items: Iterable[T]) -> builtins.list[T]:
        """Return the objects of which the lister has none with the same name."""
        known = self._by_namespace
        return [item for item in items if item.metadata.name not in known.get(item.namespace, ())]

    def put_all(self, items: Iterable[T]) -> None:
        """Add or replace several objects."""
        if self._listeners or self._indexes:
            for item in items:
                self.put(item)
            return
        for item in items:
            self._by_namespace.setdefault(item.namespace, {})[item.metadata.name] = item
            self.version += 1

    def remove(self, name: str, namespace: str = "") -> None:
        """Remove an object; it need not exist."""
        old = self._by_namespace.get(namespace, {}).pop(name, None)
        if old is not None:
            self.version += 1
            self._notify(old, None)

    def _notify(self, old: T | None, new: T | None) -> None:
        # A copy, since the garbage collector may remove references at any time.
        indexes = [index for reference in tuple(self._indexes) if (index := reference()) is not None]
        for listener in (*self._listeners, *indexes):
            try:
                listener(old, new)
            except Exception as error:
                if self._store is None or not self._store.reports_failures:
                    raise
                # One plugin must not keep the others from seeing the change.
                found = new if new is not None else old
                name = "" if found is None else f"{type(found).__name__} {found.namespace}/{found.name}"
                report_unexpected("a plugin failed to handle a change", error, object=name)

    def __len__(self) -> int:
        return sum(len(objects) for objects in self._by_namespace.values())


class PluginLister(Lister[T]):
    """The lister of a kind as one plugin sees it: the same objects, with subscriptions that its handle owns."""

    __slots__ = ("_on_error", "_shared", "_subscribed")

    def __init__(
        self,
        shared: Lister[T],
        subscribed: Callable[[Callable[[], None]], None],
        on_error: ListenerError | None = None,
    ) -> None:
        self._shared = shared
        self._subscribed = subscribed
        self._on_error = on_error
        self.kind = None
        self._by_namespace = shared._by_namespace
        self._indexes = shared._indexes

    @property
    def version(self) -> int:  # type: ignore[override]  # read-only here
        """Increases with every change."""
        return self._shared.version

    def listen(self, listener: ObjectListener[T]) -> Callable[[], None]:
        """Call a listener with every change from now on, until the handle is closed."""
        unsubscribe = self._shared.listen(_guarded(listener, self._on_error))
        self._subscribed(unsubscribe)
        return unsubscribe

    def index(self, key: IndexKey[T]) -> Index[T]:
        """Index the objects by a key. If the key function fails for an object, the object is not in the index."""
        if self._on_error is None:
            return super().index(key)
        made = self._new_index(key)
        made.on_error = self._on_error
        return made

    def put(self, item: T) -> None:
        """Add or replace an object."""
        self._shared.put(item)

    def remove(self, name: str, namespace: str = "") -> None:
        """Remove an object; it need not exist."""
        self._shared.remove(name, namespace)


def _guarded(listener: ObjectListener[T], on_error: ListenerError | None) -> ObjectListener[T]:
    if on_error is None:
        return listener
    hung = False

    def guarded(old: T | None, new: T | None, /) -> None:
        nonlocal hung
        if hung:  # the next call would hang too
            return
        try:
            listener(old, new)
        except BaseException as error:
            contain(error)
            hung = isinstance(error, HangsError)
            on_error("listener", error)

    return guarded


def _compiled(selector: Mapping[str, str] | LabelSelector | Selector) -> Selector:
    if isinstance(selector, Selector):
        return selector
    return compile_selector(selector) if isinstance(selector, LabelSelector) else selector_from_labels(selector)


class ObjectStore:
    """One lister per kind, created on first use."""

    def __init__(self) -> None:
        self._listers: dict[type, Lister[Any]] = {}
        #: Whether an exception of a listener is reported, so that the others see the change; otherwise it is raised.
        self.reports_failures = False
        self._derived: dict[type, object] = {}

    def derived(self, kind: type[D], make: Callable[[], D]) -> D:
        """Return the state of a kind that is derived from the objects; ``make`` creates it on first use.

        All plugins on the store share it. It lives as long as the store.
        """
        found = self._derived.get(kind)
        if found is None:
            found = self._derived[kind] = make()
        return cast("D", found)

    def lister(self, kind: type[T]) -> Lister[T]:
        """Return the lister of a kind."""
        lister = self._listers.get(kind)
        if lister is None:
            lister = self._listers[kind] = Lister()
            lister._store = self
        return lister

    def put(self, item: KubeObject) -> None:
        """Add or replace an object."""
        self.lister(type(item)).put(item)

    def remove(self, item: KubeObject) -> None:
        """Remove an object."""
        self.lister(type(item)).remove(item.name, item.namespace)

    def drop(self, kind: type[KubeObject]) -> None:
        """Remove a kind and all its objects."""
        self._listers.pop(kind, None)
