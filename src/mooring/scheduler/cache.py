"""The cache: what the scheduler believes about the cluster, fed by events and by its own decisions."""

from __future__ import annotations

import msgspec

from mooring.api.core import Namespace
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.columns.node_info import PodInfo
from mooring.columns.nominator import Nominator
from mooring.columns.table import NodeTable
from mooring.framework.listers import ObjectStore


class CacheError(RuntimeError):
    """The cache was asked for something that contradicts what it holds."""


class Cache:
    """Nodes and placed pods in the table, nominated pods, pods (placed or not) and all other objects in listers."""

    def __init__(self) -> None:
        self.table = NodeTable()
        self.objects = ObjectStore()
        self.nominator = Nominator()
        #: Pods that were placed here but whose binding has not been seen yet, by uid.
        self.assumed: set[str] = set()

    def put(self, item: KubeObject) -> None:
        """An object appeared or changed."""
        if isinstance(item, Pod):
            self._put_pod(item)
        elif isinstance(item, Node):
            self.table.add_node(item)
        else:
            if isinstance(item, Namespace):
                self.table.set_namespace(item.name, item.labels)
            self.objects.put(item)

    def remove(self, item: KubeObject) -> None:
        """An object is gone."""
        if isinstance(item, Pod):
            self.objects.remove(item)
            self.table.remove_pod(item.uid)
            self.nominator.remove(item.uid)
            self.assumed.discard(item.uid)
        elif isinstance(item, Node):
            if item.name in self.table.row_of:
                self.table.remove_node(item.name)
        else:
            if isinstance(item, Namespace):
                self.table.set_namespace(item.name, None)
            self.objects.remove(item)

    def _put_pod(self, pod: Pod) -> None:
        if pod.is_finished:
            self.remove(pod)
            return
        self.objects.put(pod)
        if pod.node_name:
            self.nominator.remove(pod.uid)
            self.assumed.discard(pod.uid)
            self.table.add_pod(pod)
        elif pod.status.nominated_node_name and pod.uid not in self.table.pods and not pod.spec.scheduling_gates:
            self.nominate(pod, pod.status.nominated_node_name)  # a gated pod has no claim yet

    def nominate(self, pod: Pod, node_name: str) -> None:
        """Keep room for a pod on a node."""
        self.nominator.add(PodInfo(pod, self.table.template(pod)), node_name)

    def assume(self, pod: Pod, node_name: str) -> PodInfo:
        """Count a pod on a node before its binding is known."""
        if pod.uid in self.table.pods:
            raise CacheError(f"pod {pod.namespace}/{pod.name} is on a node already")
        self.nominator.remove(pod.uid)
        self.assumed.add(pod.uid)
        return self.table.add_pod(placed(pod, node_name))

    def forget(self, pod: Pod) -> None:
        """Take an assumption back."""
        if pod.uid in self.assumed:
            self.assumed.discard(pod.uid)
            self.table.remove_pod(pod.uid)


def placed(pod: Pod, node_name: str) -> Pod:
    """The pod as it will be once it is bound; it keeps its compiled template."""
    copy = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node_name))
    copy.__dict__.update(pod.__dict__)
    return copy
