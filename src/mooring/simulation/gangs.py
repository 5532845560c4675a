"""The PodGroups, queues and priority classes of a cluster with batch sessions that manifests may lack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from mooring.api.core import Namespace
from mooring.api.meta import KubeObject, ObjectMeta, format_time
from mooring.api.pod import Pod
from mooring.api.policy import PriorityClass
from mooring.api.volcano import GROUP_ANNOTATION, PodGroup, Queue
from mooring.api.workloads import DaemonSet, Job, ReplicaSet, StatefulSet
from mooring.apiserver.admission import SYSTEM_PRIORITY_CLASSES
from mooring.batch.queue import standing_queues
from mooring.controllers.constants import JOB_NAME, QUEUE_NAME
from mooring.controllers.pod_groups import group_of
from mooring.simulation.session_settings import SessionSettings

_replace = msgspec.structs.replace
#: The kinds whose annotations a PodGroup inherits.
_OWNERS = (ReplicaSet, StatefulSet, DaemonSet, Job)
ObjectT = TypeVar("ObjectT", bound=KubeObject)


class Grouping:
    """The assignment of pods without a PodGroup to one, as in the PodGroup controller."""

    def __init__(self, objects: Iterable[KubeObject], settings: SessionSettings) -> None:
        self._names = frozenset(settings.scheduler_names)
        self._default_queue = settings.default_queue
        self._owners: dict[tuple[str, str, str], Mapping[str, str]] = {}
        self._queues: dict[str, str] = {}
        self._groups: dict[str, PodGroup] = {}
        self._known: set[str] = set()
        for item in objects:
            if isinstance(item, _OWNERS):
                self._owners[item.kind, item.namespace, item.name] = item.annotations
            elif isinstance(item, Namespace):
                self._queues[item.name] = item.annotations.get(QUEUE_NAME, "")
            elif isinstance(item, PodGroup):
                self._known.add(item.key)

    @property
    def created(self) -> list[PodGroup]:
        """The PodGroups that were created."""
        return list(self._groups.values())

    def assign(self, pod: Pod) -> Pod:
        """Return the pod with the name of its PodGroup, which is created if it does not exist."""
        if pod.annotations.get(GROUP_ANNOTATION) or JOB_NAME in pod.labels or pod.is_terminating or pod.is_finished:
            return pod
        if pod.scheduler_name not in self._names:
            return pod
        inherited: dict[str, str] = {}
        for owner in pod.metadata.owner_references:
            inherited = {**self._owners.get((owner.kind, pod.namespace, owner.name), {}), **inherited}
        queue = self._queues.get(pod.namespace) or self._default_queue
        group = group_of(pod, inherited, queue=queue)
        if group.key not in self._known:
            self._groups.setdefault(group.key, group)
        annotations = {**pod.annotations, GROUP_ANNOTATION: group.name}
        return _replace(pod, metadata=_replace(pod.metadata, annotations=annotations))


def standing_objects(objects: Sequence[KubeObject], settings: SessionSettings) -> list[KubeObject]:
    """Return the queues and priority classes that every cluster has and the manifests lack."""
    queues = {item.name for item in objects if isinstance(item, Queue)}
    classes = {item.name for item in objects if isinstance(item, PriorityClass)}
    return [
        *(queue for name, queue in standing_queues(settings.default_queue).items() if name not in queues),
        *(
            PriorityClass(metadata=ObjectMeta(name=name), value=value)
            for name, value in SYSTEM_PRIORITY_CLASSES.items()
            if name not in classes
        ),
    ]


class Creation:
    """A source of creation times for new objects, in the order of the manifests, in which sessions consider equals."""

    def __init__(self, start: float) -> None:
        self._start = start
        self._count = 0

    def dated(self, item: ObjectT) -> ObjectT:
        """Return the object with a creation time, a microsecond after the previous one."""
        if item.metadata.creation_timestamp:
            return item
        self._count += 1
        time = format_time(self._start + self._count / 1e6, micros=True)
        return _replace(item, metadata=_replace(item.metadata, creation_timestamp=time))
