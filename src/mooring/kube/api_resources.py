"""The API resources of each kind: group, version, plural and scope."""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

from mooring.api import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    DaemonSet,
    Deployment,
    Event,
    Job,
    KubeObject,
    Lease,
    Namespace,
    NamespacedObject,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
    StorageClass,
    VolumeAttachment,
)
from mooring.api.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from mooring.api.events import CoreEvent
from mooring.api.hyper_nodes import HyperNode
from mooring.api.numa_topology import Numatopology
from mooring.api.scheduling import NativePodGroup
from mooring.api.volcano import PodGroup, Queue, ResourceQuota
from mooring.api.volcano_jobs import Command, JobFlow, JobTemplate, VolcanoCronJob, VolcanoJob

ObjectT = TypeVar("ObjectT", bound=KubeObject)
#: Names that need no quoting in a URL. Nearly all names match, and a match is faster than quoting.
_is_plain: Final = re.compile(r"[A-Za-z0-9_.-]+").fullmatch


@functools.lru_cache(maxsize=1024)
def _collection(root: str, namespace: str, plural: str) -> str:
    return f"{root}/namespaces/{quote(namespace, safe='')}/{plural}" if namespace else f"{root}/{plural}"


@dataclass(frozen=True)
class Resource(Generic[ObjectT]):
    """A resource of an API server and the struct that its objects are decoded into."""

    model: type[ObjectT]
    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    #: Selects the objects whose JSON text is cached (see `mooring.api.codec`); None selects none.
    caches_json: Callable[[ObjectT], bool] | None = None

    @property
    def api_version(self) -> str:
        """The apiVersion of manifests: `v1`, `apps/v1`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of a collection, an object or a subresource. No namespace means all namespaces."""
        path = _collection(self._root, namespace if self.namespaced else "", self.plural)
        if name:
            path = f"{path}/{name if _is_plain(name) else quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

    @functools.cached_property
    def _root(self) -> str:
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def __str__(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural


def custom_resource(
    model: type[ObjectT], *, group: str, version: str, kind: str, plural: str, namespaced: bool
) -> Resource[ObjectT]:
    """Return the resource of a custom kind. `model` is the struct that its objects are decoded into."""
    return Resource(model, group, version, kind, plural, namespaced)


def plural_of(kind: str) -> str:
    """Return the plural of a kind by which its resource is named, for kinds that follow the rule."""
    lower = kind.lower()
    if lower.endswith("s"):
        return lower + "es"
    return lower[:-1] + "ies" if lower.endswith("y") else lower + "s"


def _built_in(model: type[KubeObject]) -> Resource[Any]:
    example = model()
    group, _, version = example.api_version.rpartition("/")
    return Resource(model, group, version, example.kind, plural_of(example.kind), issubclass(model, NamespacedObject))


#: Every kind that has a struct in `mooring.api`.
RESOURCES: Final[dict[type[KubeObject], Resource[Any]]] = {
    model: _built_in(model)
    for model in (
        Pod, Node, Namespace, Service, ReplicationController, PersistentVolume, PersistentVolumeClaim, StorageClass,
        CSINode, CSIDriver, CSIStorageCapacity, VolumeAttachment, PodDisruptionBudget, PriorityClass, ReplicaSet,
        Deployment, StatefulSet, DaemonSet, Job, Lease, Event, CoreEvent, ResourceQuota, PodGroup, Queue, HyperNode,
        Numatopology, VolcanoJob, VolcanoCronJob, JobFlow, JobTemplate, Command,
        DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice, DeviceTaintRule,
        NativePodGroup,
    )
}  # fmt: skip


def resource_of(kind: "type[ObjectT] | Resource[ObjectT]") -> Resource[ObjectT]:
    """Return the resource of a struct, or the argument if it is a resource."""
    if isinstance(kind, Resource):
        return kind
    found = RESOURCES.get(kind)
    if found is None:
        raise TypeError(f"{kind.__name__} is not a built-in kind; describe it with custom_resource()")
    return found
