"""What a reconciler is: it says which objects a change concerns, and makes one of them right."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeVar

import msgspec

from mooring.api.meta import KubeObject
from mooring.controllers.metrics import ControllerMetrics
from mooring.kube import Change, Client, EventRecorder, Resource, resource_of

ObjectT = TypeVar("ObjectT", bound=KubeObject)


class Selection(msgspec.Struct, frozen=True):
    """Which objects of a kind are read; several selections of one kind are read side by side."""

    resource: Resource[Any]
    labels: str = ""
    fields: str = ""

    @classmethod
    def of(cls, kind: type[KubeObject], *, labels: str = "", fields: str = "") -> Selection:
        """Objects of a kind that has a struct in `mooring.api`."""
        return cls(resource_of(kind), labels, fields)


class Settings(msgspec.Struct, frozen=True):
    """What the controllers are told on the command line."""

    #: Pods of these schedulers get a PodGroup.
    scheduler_names: tuple[str, ...] = ("volcano",)
    default_queue: str = "default"
    #: Whether a PodGroup takes over annotations of what owns the pods, and minMember among them.
    inherit_owner_annotations: bool = True


class View:
    """All objects that are read, as last seen."""

    def __init__(self) -> None:
        self._objects: dict[type[KubeObject], dict[str, Any]] = {}

    def apply(self, change: Change[Any]) -> None:
        """Take over a change."""
        found = change.object
        known = self._objects.setdefault(type(found), {})
        if change.new is not None:
            known[key_of(found)] = change.new
        elif (before := known.get(key_of(found))) is not None and before.uid == found.uid:
            del known[key_of(found)]

    def all(self, kind: type[ObjectT]) -> Mapping[str, ObjectT]:
        """The objects of a kind by key. A live view."""
        return self._objects.setdefault(kind, {})

    def get(self, kind: type[ObjectT], key: str) -> ObjectT | None:
        """One object by key, or None."""
        return self.all(kind).get(key)


class Tools:
    """What reconcilers work with."""

    def __init__(
        self,
        client: Client,
        events: EventRecorder,
        *,
        settings: Settings,
        metrics: ControllerMetrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.client = client
        self.view = View()
        self.settings = settings
        self.metrics = metrics
        self.clock = clock
        self._events = events

    def tell(self, regarding: KubeObject, reason: str, note: str, *, type: Literal["Normal", "Warning"]) -> None:
        """Record an event about an object."""
        self._events.record(
            regarding, type=type, reason=reason, action=reason, note=note, component="vc-controller-manager"
        )


class Reconciler(ABC):
    """Keeps objects of one kind as they should be."""

    #: How it is called in logs and metrics.
    name: ClassVar[str]
    #: Whether Volcano's controllers do the same, so that it rests while they run.
    volcano: ClassVar[bool] = True

    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    @property
    def view(self) -> View:
        """All objects that are read."""
        return self.tools.view

    @abstractmethod
    def selections(self) -> Iterable[Selection]:
        """What it reads."""

    def first(self) -> Iterable[str]:
        """What to look at when everything was read, whatever there is."""
        return ()

    @abstractmethod
    def concerns(self, change: Change[Any]) -> Iterable[str]:
        """The keys of the objects to look at because of a change; the view knows of it already."""

    @abstractmethod
    async def reconcile(self, key: str) -> float | None:
        """Make an object right; the answer is when to look again, in seconds. What KubeError it raises is retried."""


def key_of(value: KubeObject) -> str:
    """By what an object is known among its kind."""
    found: str = getattr(value, "key", value.name)
    return found
