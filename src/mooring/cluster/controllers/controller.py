"""The base class of controllers, and the loop that runs them.

A controller returns the keys of the objects that a change affects, and reconciles one object at a time. Reconciliation
never awaits, so all of its writes are in one transaction.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Final

from mooring.apiserver.documents import Document
from mooring.cluster.controllers.event_recorder import EventRecorder
from mooring.cluster.controllers.owner_index import OwnerIndex
from mooring.cluster.deletion import DeleteOptions, delete
from mooring.cluster.errors import ApiError
from mooring.cluster.registry import Registry
from mooring.cluster.request_context import system_context
from mooring.cluster.store import Change, Store, Stored
from mooring.logs import get_logger
from mooring.unexpected_errors import report_unexpected

_log: Final = get_logger("mooring.cluster")

#: Namespace and name of an object.
Key = tuple[str, str]
#: The number of objects that are reconciled before the event loop runs other tasks.
_AT_ONCE: Final = 64
_RETRY: Final = 1.0
_SUFFIX: Final = "-controller"


class Tools:
    """The store, registry, index and event recorder that controllers share."""

    def __init__(self, registry: Registry, *, authority: str = "") -> None:
        self.registry = registry
        #: The CA certificate of the API server, as PEM.
        self.authority = authority
        self.index = OwnerIndex(registry.store)
        self.recorder = EventRecorder(registry)

    @property
    def store(self) -> Store:
        """The store of all objects."""
        return self.registry.store

    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        return self.registry.clock()

    def find(self, storage: str, namespace: str, name: str) -> Document | None:
        """Return the document of an object, or None."""
        stored = self.registry.store.get(storage, namespace, name)
        return None if stored is None else stored.document

    def create(self, storage: str, namespace: str, document: Document) -> Stored | None:
        """Create an object. Return None and log if it is rejected."""
        try:
            return self.try_create(storage, namespace, document)
        except ApiError as error:
            _log.debug("controller cannot create object", resource=storage, why=error.message)
            return None

    def try_create(self, storage: str, namespace: str, document: Document) -> Stored:
        """Create an object. Raises ApiError if it is rejected."""
        resource = self.registry.mapper.of(storage)
        document = {"apiVersion": resource.group_version, "kind": resource.kind, **document}
        for key in resource.shape.always:
            document.setdefault(key, {})
        return self.registry.create(resource, namespace, document, system_context())

    def delete(self, storage: str, namespace: str, name: str, options: DeleteOptions | None = None) -> None:
        """Delete an object if it exists."""
        resource = self.registry.mapper.of(storage)
        try:
            delete(self.registry, resource, namespace, name, options or DeleteOptions(), system_context())
        except ApiError as error:
            _log.debug("controller cannot delete object", kind=resource.kind, why=error.message)

    def set_status(self, storage: str, document: Document, status: Document) -> None:
        """Replace the status of an object if it differs."""
        metadata = document["metadata"]
        if document.get("status") != status:
            self.registry.modify(
                storage, metadata.get("namespace", ""), metadata["name"], lambda each: {**each, "status": status}
            )


class Controller(ABC):
    """The base class of controllers, which reconcile the objects of one kind."""

    #: The name in `--controllers`: that of kube-controller-manager, if it has the controller.
    name: str
    #: The resources whose changes the controller handles; empty for all.
    watched: frozenset[str] = frozenset()

    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    @abstractmethod
    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return the keys of the objects that a change affects."""

    @abstractmethod
    def reconcile(self, namespace: str, name: str) -> float | None:
        """Bring an object to its desired state. Return the seconds until the next reconciliation, if any."""


def disabled_controllers(text: str, known: Collection[str]) -> frozenset[str]:
    """Return the controllers that the value of `--controllers` disables, as kube-controller-manager reads it.

    The value is a list: `*` enables all controllers that the list does not name, `NAME` enables one, and `-NAME`
    disables one. The suffix `-controller` may be left out. Raises ValueError for unknown names.
    """
    words = [each.strip() for each in text.split(",") if each.strip()]
    by_name = {name.removesuffix(_SUFFIX): name for name in known}
    enabled: set[str] = set()
    disabled: set[str] = set()
    for word in words:
        if word == "*":
            continue
        plain = word.removeprefix("-").removesuffix(_SUFFIX)
        if plain not in by_name:
            raise ValueError(f'"{word}" is not a controller: the controllers are {", ".join(sorted(known))}')
        (disabled if word.startswith("-") else enabled).add(by_name[plain])
    return frozenset(disabled if "*" in words else set(known) - enabled)


class ControllerLoop:
    """The loop that runs controllers, one object at a time."""

    def __init__(self, store: Store, controllers: Iterable[Controller]) -> None:
        self._store = store
        self._controllers = tuple(controllers)
        self._interested: dict[str, tuple[Controller, ...]] = {}
        self._waiting: dict[tuple[Controller, Key], None] = {}
        self._timers: dict[tuple[Controller, Key], asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._unsubscribe = store.subscribe(self._changed)

    def start(self) -> None:
        """Reconcile all objects once, and then every object that changes."""
        for storage in self._store.storages():
            for stored in self._store.objects(storage):
                self._changed(storage, Change("ADDED", stored, None, stored.version))
        self._task = asyncio.create_task(self._run(), name="mooring-controllers")

    async def stop(self) -> None:
        """Stop reconciling."""
        self._unsubscribe()
        for timer in self._timers.values():
            timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _changed(self, storage: str, change: Change) -> None:
        interested = self._interested.get(storage)
        if interested is None:
            interested = tuple(each for each in self._controllers if not each.watched or storage in each.watched)
            self._interested[storage] = interested
        for controller in interested:
            for name in controller.keys_for(storage, change):
                self._waiting[controller, name] = None
        if self._waiting:
            self._wake.set()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                for key in list(self._waiting)[:_AT_ONCE]:
                    del self._waiting[key]
                    self._reconcile(*key)
                await asyncio.sleep(0)

    def _reconcile(self, controller: Controller, name: Key) -> None:
        timer = self._timers.pop((controller, name), None)
        if timer is not None:
            timer.cancel()
        try:
            again = controller.reconcile(*name)
        except Exception as error:
            report_unexpected(
                "controller failed; retrying", error, controller=type(controller).__name__, object="/".join(name)
            )
            again = _RETRY
        if again is not None:
            loop = asyncio.get_running_loop()
            self._timers[controller, name] = loop.call_later(max(again, 0.001), self._due, controller, name)

    def _due(self, controller: Controller, name: Key) -> None:
        self._timers.pop((controller, name), None)
        self._waiting[controller, name] = None
        self._wake.set()
