"""What a controller is, and the loop that runs them all.

A controller says which objects to look at when something changes, and then makes one of them right. It does so
without waiting, so that all its writes belong together: after a crash either all of them are there or none.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Final

import structlog

from mooring.apiserver.documents import Document
from mooring.cluster.calls import Call, system_call
from mooring.cluster.controllers.index import Index
from mooring.cluster.controllers.recorder import Recorder
from mooring.cluster.deletion import DeleteOptions, delete
from mooring.cluster.errors import ApiError
from mooring.cluster.registry import Registry
from mooring.cluster.store import Change, Store, Stored

_log: Final = structlog.get_logger("mooring.cluster")

#: Namespace and name of the object that a controller is to look at.
Name = tuple[str, str]
#: How many objects are looked at before others get their turn.
_AT_ONCE: Final = 64
_RETRY: Final = 1.0


class Tools:
    """What controllers work with."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.index = Index(registry.store)
        self.recorder = Recorder(registry)

    @property
    def store(self) -> Store:
        """The objects."""
        return self.registry.store

    def now(self) -> float:
        """The time, in seconds since 1970."""
        return self.registry.clock()

    def find(self, storage: str, namespace: str, name: str) -> Document | None:
        """An object, or None."""
        stored = self.registry.store.get(storage, namespace, name)
        return None if stored is None else stored.document

    def create(self, storage: str, namespace: str, document: Document) -> Stored | None:
        """Create an object; None where it is refused, which the log tells."""
        resource = self.registry.table.of(storage)
        document = {"apiVersion": resource.group_version, "kind": resource.kind, **document}
        for key in resource.shape.always:
            document.setdefault(key, {})
        try:
            return self.registry.create(resource, namespace, document, system_call())
        except ApiError as error:
            _log.debug("a controller could not create an object", kind=resource.kind, why=error.message)
            return None

    def delete(self, storage: str, namespace: str, name: str, options: DeleteOptions | None = None) -> None:
        """Delete an object; it is fine if it is gone already."""
        resource = self.registry.table.of(storage)
        try:
            delete(self.registry, resource, namespace, name, options or DeleteOptions(), self.call())
        except ApiError as error:
            _log.debug("a controller could not delete an object", kind=resource.kind, why=error.message)

    def set_status(self, storage: str, document: Document, status: Document) -> None:
        """Give an object a new status, if it differs."""
        metadata = document["metadata"]
        if document.get("status") != status:
            self.registry.modify(
                storage, metadata.get("namespace", ""), metadata["name"], lambda each: {**each, "status": status}
            )

    def call(self) -> Call:
        """A call by the cluster itself."""
        return system_call()


class Controller(ABC):
    """Keeps objects of one kind as they should be."""

    #: The resources whose changes it wants to see; empty for all.
    watched: frozenset[str] = frozenset()

    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    @abstractmethod
    def concerns(self, storage: str, change: Change) -> Iterable[Name]:
        """The objects to look at because of a change."""

    @abstractmethod
    def reconcile(self, namespace: str, name: str) -> float | None:
        """Make an object right; the answer is when to look again, in seconds."""


class ControllerLoop:
    """Runs controllers one object at a time."""

    def __init__(self, store: Store, controllers: Iterable[Controller]) -> None:
        self._store = store
        self._controllers = tuple(controllers)
        self._interested: dict[str, tuple[Controller, ...]] = {}
        self._waiting: dict[tuple[Controller, Name], None] = {}
        self._timers: dict[tuple[Controller, Name], asyncio.TimerHandle] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._stop_listening = store.listen(self._changed)

    def start(self) -> None:
        """Look at everything once, and from then on at what changes."""
        for storage in self._store.storages():
            for stored in self._store.objects(storage):
                self._changed(storage, Change("ADDED", stored, None, stored.version))
        self._task = asyncio.create_task(self._run(), name="mooring-controllers")

    async def stop(self) -> None:
        """Stop."""
        self._stop_listening()
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
            for name in controller.concerns(storage, change):
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
                    self._look(*key)
                await asyncio.sleep(0)

    def _look(self, controller: Controller, name: Name) -> None:
        timer = self._timers.pop((controller, name), None)
        if timer is not None:
            timer.cancel()
        try:
            again = controller.reconcile(*name)
        except Exception:
            _log.exception("a controller failed", controller=type(controller).__name__, object="/".join(name))
            again = _RETRY
        if again is not None:
            loop = asyncio.get_running_loop()
            self._timers[controller, name] = loop.call_later(max(again, 0.001), self._due, controller, name)

    def _due(self, controller: Controller, name: Name) -> None:
        self._timers.pop((controller, name), None)
        self._waiting[controller, name] = None
        self._wake.set()
