"""Informers: one reflector per kind. They pass all changes to the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from mooring.api.core import Namespace, ReplicationController, Service
from mooring.api.hyper_nodes import HyperNode
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.numa_topology import Numatopology
from mooring.api.pod import Pod
from mooring.api.policy import PodDisruptionBudget, PriorityClass
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)
from mooring.api.volcano import PodGroup, Queue, ResourceQuota
from mooring.api.workloads import ReplicaSet, StatefulSet
from mooring.checkpoints import checkpoint
from mooring.framework.declarations import declared_kinds
from mooring.kube import Change, Client, Reflector, Resource, resource_of
from mooring.live.custom import CustomInformers
from mooring.plugins.dynamic_resources import DynamicResources
from mooring.releases import Release
from mooring.scheduler.engine import Engine
from mooring.unexpected_errors import error_text, report_unexpected

#: The kinds that the scheduler watches. Pods are last, because decisions about them depend on the others.
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
#: The kinds that batch sessions read in addition.
BATCH_KINDS: Final = (PriorityClass, ResourceQuota, Queue, PodGroup, HyperNode, Numatopology)
#: The kinds that batch sessions read to allocate devices; some only in some releases.
DEVICE_KINDS: Final = declared_kinds((DynamicResources,))
#: Finished pods use no resources: the server does not send them.
UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"


def device_kinds(release: Release) -> tuple[type[KubeObject], ...]:
    """Return the kinds for devices that a release has. Sessions read them also if no profile enables the plugin."""
    return declared_kinds((DynamicResources,), release)


class RawObjects(msgspec.Struct, frozen=True):
    """The objects that extenders receive in full. Their JSON is cached."""

    nodes: bool = False
    waiting_pods: bool = False
    placed_pods: bool = False

    def resource(self, kind: type[KubeObject]) -> Resource[Any]:
        """Return the API resource of a kind, which caches the JSON of these objects."""
        resource: Resource[Any] = resource_of(kind)
        if kind is Node and self.nodes:
            return replace(resource, caches_json=lambda _node: True)
        if kind is Pod and (self.waiting_pods or self.placed_pods):
            return replace(resource, caches_json=self._is_shown)
        return resource

    def _is_shown(self, pod: Pod) -> bool:
        return self.placed_pods if pod.node_name else self.waiting_pods


class Informers:
    """The informers of the scheduler's kinds."""

    def __init__(
        self, client: Client, engine: Engine, changed: Callable[[], None], shown: RawObjects, *, finished: bool = False
    ) -> None:
        """With ``finished``, finished pods are watched too."""
        self._engine = engine
        self._changed = changed
        #: Called with every change, after the engine.
        self.listener: Callable[[KubeObject | None, KubeObject | None], None] | None = None
        #: Called with an object that cannot be applied, and the error.
        self.report_invalid: Callable[[KubeObject, str], None] | None = None
        fields = "" if finished else UNFINISHED
        self._reflectors: dict[type[KubeObject], Reflector[Any]] = {
            kind: Reflector(
                client,
                shown.resource(kind),
                self.apply,
                fields=fields if kind is Pod else "",
                throttle=engine.lock.throttle,
            )
            for kind in KINDS
        }
        #: The informers of the other kinds that plugins read.
        self.custom = CustomInformers(
            client,
            self.apply,
            known=KINDS,
            drop=engine.cache.objects.drop,
            throttle=engine.lock.throttle,
            versions=engine.cache.table.release.api_versions,
        )

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Start to list and watch."""
        self.custom.begin(tasks)
        for kind, reflector in self._reflectors.items():
            tasks.create_task(reflector.run(), name=f"watch {kind.__name__}")

    async def synced(self) -> None:
        """Wait until all kinds are synced."""
        for reflector in self._reflectors.values():
            await reflector.synced.wait()

    def pod(self, key: str) -> Pod | None:
        """Return the newest version of a pod (namespace/name)."""
        found: Pod | None = self._reflectors[Pod].objects.get(key)
        return found

    @property
    def pods_version(self) -> str:
        """The resource version up to which all changes of pods were reported; empty while they are listed."""
        return self._reflectors[Pod].version

    def pods(self) -> Iterable[Pod]:
        """Return the newest versions of all pods, without finished ones."""
        found: Mapping[str, Pod] = self._reflectors[Pod].objects
        return found.values()

    def lagging(self) -> list[str]:
        """Return the kinds that are not synced, or that cannot be read."""
        return [
            kind.__name__
            for kind, reflector in self._reflectors.items()
            if not reflector.synced.is_set() or reflector.last_error is not None
        ] + self.custom.lagging()

    def apply(self, changes: list[Change[Any]]) -> None:
        """Apply changes to the engine, then notify the listener. An object that cannot be applied is reported."""
        engine, listener = self._engine, self.listener
        if engine.is_starting and listener is None:
            changes = self._without_new(changes)
        for old, new in changes:
            checkpoint()
            try:
                if new is not None:
                    engine.put(new)
                elif old is not None:
                    engine.remove(old)
                if listener is not None:
                    listener(old, new)
            except Exception as error:
                found = new if new is not None else old
                assert found is not None
                self._report(found, error)
        self._changed()

    def _without_new(self, changes: list[Change[Any]]) -> list[Change[Any]]:
        """Apply a page of new pods or nodes together, and return the other changes."""
        kind = type(changes[0].new) if len(changes) > 1 else None
        if kind not in (Pod, Node):
            return changes
        new: list[Any] = [new for old, new in changes if old is None and type(new) is kind]
        if len(new) < len(changes):
            return changes
        checkpoint()
        engine = self._engine
        try:
            left = engine.put_new_pods(new) if kind is Pod else engine.put_new_nodes(new)
            return [Change(None, item) for item in left]
        except Exception:  # one of them is invalid and was not applied, as all others: find it one by one
            return changes

    def _report(self, item: KubeObject, error: Exception) -> None:
        """Report an object that cannot be applied: its amounts or numbers are invalid, or there is a bug."""
        report_unexpected(
            "an object cannot be applied and is ignored",
            error,
            kind=type(item).__name__,
            object=f"{item.namespace}/{item.name}".removeprefix("/"),
        )
        if self.report_invalid is not None:
            self.report_invalid(item, error_text(error))
