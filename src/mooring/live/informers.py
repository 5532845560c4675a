"""Informers: one reflector a kind, all feeding the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
import structlog

from mooring.api.core import Namespace, ReplicationController, Service
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.policy import PodDisruptionBudget
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.api.workloads import ReplicaSet, StatefulSet
from mooring.kube import Change, Client, Forbidden, Reflector, Resource, resource_of
from mooring.live.custom import CustomInformers
from mooring.scheduler.engine import Engine

log = structlog.get_logger("mooring.live")

#: What the scheduler watches. Pods come last: they are decided about with all the others in mind.
KINDS: tuple[type[KubeObject], ...] = (
    Namespace,
    Node,
    Service,
    ReplicationController,
    ReplicaSet,
    StatefulSet,
    PodDisruptionBudget,
    PersistentVolumeClaim,
    PersistentVolume,
    StorageClass,
    CSINode,
    CSIDriver,
    CSIStorageCapacity,
    VolumeAttachment,
    Pod,
)
_LOOK_SECONDS = 1.0
_REFUSED = (
    "The scheduler may not read what it needs, and waits; `mooring rbac` prints the roles that allow it, for "
    "`kubectl apply -f -` (--user NAME, or --service-account NAME)"
)
#: Pods that have run to their end hold nothing: the server does not send them.
_UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


class Shown(msgspec.Struct, frozen=True):
    """The objects that are shown to others, which need all of their fields."""

    nodes: bool = False
    waiting_pods: bool = False
    placed_pods: bool = False

    def resource(self, kind: type[KubeObject]) -> Resource[Any]:
        """How objects of a kind are read, so that they can be shown."""
        resource: Resource[Any] = resource_of(kind)
        if kind is Node and self.nodes:
            return replace(resource, caches_json=lambda _node: True)
        if kind is Pod and (self.waiting_pods or self.placed_pods):
            return replace(resource, caches_json=self._is_shown)
        return resource

    def _is_shown(self, pod: Pod) -> bool:
        return self.placed_pods if pod.node_name else self.waiting_pods


class Informers:
    """Lists and watches the scheduler's kinds, and passes changes to the engine."""

    def __init__(
        self, client: Client, engine: Engine, changed: Callable[[], None], shown: Shown, *, finished: bool = False
    ) -> None:
        """``finished``: pods that have run to their end are wanted too."""
        self._engine = engine
        self._changed = changed
        #: Told about every change, after the engine.
        self.listener: Callable[[KubeObject | None, KubeObject | None], None] | None = None
        fields = "" if finished else _UNFINISHED
        self._reflectors: dict[type[KubeObject], Reflector[Any]] = {
            kind: Reflector(client, shown.resource(kind), self.apply, fields=fields if kind is Pod else "")
            for kind in KINDS
        }
        #: What plugins read beside these.
        self.custom = CustomInformers(client, self.apply, known=KINDS, drop=engine.cache.objects.drop)

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Begin to list and watch."""
        self.custom.begin(tasks)
        for kind, reflector in self._reflectors.items():
            tasks.create_task(reflector.run(), name=f"watch {kind.__name__}")
        tasks.create_task(self._tell_of_missing_rights(), name="missing rights")

    async def _tell_of_missing_rights(self) -> None:
        """Log once how to grant missing permissions that prevent the start."""
        while any(not reflector.synced.is_set() for reflector in self._reflectors.values()):
            refused = {kind for kind, each in self._reflectors.items() if isinstance(each.last_error, Forbidden)}
            if refused:
                names = ", ".join(kind.__name__ for kind in self._reflectors if kind in refused)
                log.error(_REFUSED, kinds=names)
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def synced(self) -> None:
        """Wait until everything that exists was seen once."""
        for reflector in self._reflectors.values():
            await reflector.synced.wait()

    def pod(self, key: str) -> Pod | None:
        """A pod (namespace/name) as last seen."""
        found: Pod | None = self._reflectors[Pod].objects.get(key)
        return found

    def pods(self) -> Iterable[Pod]:
        """All pods as last seen, but for those that have run to their end."""
        found: Mapping[str, Pod] = self._reflectors[Pod].objects
        return found.values()

    def lagging(self) -> list[str]:
        """The kinds that have not been read yet, or cannot be now."""
        return [
            kind.__name__
            for kind, reflector in self._reflectors.items()
            if not reflector.synced.is_set() or reflector.last_error is not None
        ] + self.custom.lagging()

    def apply(self, changes: list[Change[Any]]) -> None:
        """Apply changes to the engine, then notify the listener."""
        engine, listener = self._engine, self.listener
        for old, new in changes:
            if new is not None:
                engine.put(new)
            elif old is not None:
                engine.remove(old)
            if listener is not None:
                listener(old, new)
        self._changed()
