"""The interface of controllers (`Reconciler`), and their shared context: cached objects, client, events, metrics."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from mooring.api.meta import KubeObject, ObjectReference
from mooring.controllers.controller_metrics import ControllerMetrics
from mooring.controllers.topology_discovery import TopologySettings
from mooring.framework.job_plugin import JobPlugin
from mooring.kube import Change, Client, EventRecorder, Resource, resource_of

ObjectT = TypeVar("ObjectT", bound=KubeObject)


class Selection(msgspec.Struct, frozen=True):
    """The objects of a kind that a controller watches. Each selection has its own informer."""

    resource: Resource[Any]
    labels: str = ""
    fields: str = ""

    @classmethod
    def of(cls, kind: type[KubeObject], *, labels: str = "", fields: str = "") -> Selection:
        """Return a selection of a kind that has a struct in `mooring.api`."""
        return cls(resource_of(kind), labels, fields)


class Settings(msgspec.Struct, frozen=True):
    """The controllers' settings from the command line."""

    #: PodGroups are created for pods of these schedulers.
    scheduler_names: tuple[str, ...] = ("volcano",)
    default_queue: str = "default"
    #: Whether a PodGroup inherits the annotations of its pods' owner, including minMember.
    inherit_owner_annotations: bool = True
    #: HyperNodes are discovered from these sources.
    topology: TopologySettings = TopologySettings()


class ObjectCache:
    """All watched objects, as last delivered by the informers."""

    def __init__(self) -> None:
        self._objects: dict[type[KubeObject], dict[str, Any]] = {}

    def apply(self, change: Change[Any]) -> None:
        """Apply a change that an informer delivered."""
        changed = change.object
        objects = self._objects.setdefault(type(changed), {})
        if change.new is not None:
            objects[key_of(changed)] = change.new
        elif (cached := objects.get(key_of(changed))) is not None and cached.uid == changed.uid:
            del objects[key_of(changed)]

    def all(self, kind: type[ObjectT]) -> Mapping[str, ObjectT]:
        """Return the objects of a kind by key. The mapping changes as changes are applied."""
        return self._objects.setdefault(kind, {})

    def get(self, kind: type[ObjectT], key: str) -> ObjectT | None:
        """Return one object by key, or None."""
        return self.all(kind).get(key)


class Context:
    """The context that all controllers of a process share."""

    def __init__(
        self,
        client: Client,
        events: EventRecorder,
        *,
        settings: Settings,
        metrics: ControllerMetrics,
        clock: Callable[[], float] = time.time,
        job_plugins: Mapping[str, type[JobPlugin[Any]]] = MappingProxyType({}),
    ) -> None:
        self.client = client
        #: The job plugins by name. They are replaced when users' plugins change.
        self.job_plugins = job_plugins
        self.cache = ObjectCache()
        self.settings = settings
        self.metrics = metrics
        self.clock = clock
        self._events = events

    def record_event(
        self, regarding: KubeObject, reason: str, note: str, *, type: Literal["Normal", "Warning"]
    ) -> None:
        """Record an event about an object."""
        self._events.record(
            regarding, type=type, reason=reason, action=reason, note=note, component="vc-controller-manager", core=True
        )

    def record_invalid(self, item: ObjectReference, message: str) -> None:
        """Record that an object cannot be decoded and is ignored."""
        about = msgspec.structs.replace(item, resource_version="")  # one event, not one for each version
        note = f"The object is ignored: {message}"
        self._events.record(
            about,
            type="Warning",
            reason="Invalid",
            action="Reading",
            note=note,
            component="vc-controller-manager",
            core=True,
        )


class Reconciler(ABC):
    """A controller of one kind of objects."""

    #: The name in logs and metrics.
    name: ClassVar[str]
    #: Whether Volcano has the same controller, so that this one pauses while Volcano's controllers run.
    volcano: ClassVar[bool] = True

    def __init__(self, context: Context) -> None:
        self.context = context

    @property
    def cache(self) -> ObjectCache:
        """All watched objects."""
        return self.context.cache

    @abstractmethod
    def selections(self) -> Iterable[Selection]:
        """Return the selections of objects that the controller watches."""

    def initial_keys(self) -> Iterable[str]:
        """Return keys to reconcile once after the informers have synced, whether or not the objects exist."""
        return ()

    @abstractmethod
    def affected_keys(self, change: Change[Any]) -> Iterable[str]:
        """Return the keys to reconcile because of a change, which the cache already contains."""

    @abstractmethod
    async def reconcile(self, key: str) -> float | None:
        """Reconcile an object. Return the seconds until it must be reconciled again, or None.

        An object whose reconciliation raises KubeError is retried with backoff.
        """


def key_of(value: KubeObject) -> str:
    """Return the key of an object among the objects of its kind."""
    found: str = getattr(value, "key", value.name)
    return found
