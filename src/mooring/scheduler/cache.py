"""Cache: the scheduler's view of the cluster, updated by events and by its own decisions.

The table is the only account of node usage. The pod-by-pod engine, batch sessions and simulations all read it, so a
pod that one of them has assumed on a node counts for the others too.
"""

from __future__ import annotations

from msgspec.structs import replace as _replace

from mooring.api.core import Namespace
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.columns.node_info import PodInfo
from mooring.columns.nominator import Nominator
from mooring.columns.table import NodeTable
from mooring.framework.device_allocations import ClaimStatuses
from mooring.framework.listers import ObjectStore
from mooring.releases import NEWEST, Release


class CacheError(RuntimeError):
    """A request that contradicts the contents of the cache."""


class Cache:
    """The cached cluster: nodes and placed pods in the table, nominated pods, and listers of all pods and objects."""

    def __init__(self, release: Release = NEWEST) -> None:
        self.table = NodeTable(release)
        self.objects = ObjectStore()
        #: All pods, with or without a node.
        self.pods = self.objects.lister(Pod)
        self.nominator = Nominator()
        #: The table's pods whose binding was decided but not observed yet, by uid.
        self.assumed = self.table.assumed

    def put(self, item: KubeObject) -> None:
        """Apply an object that was added or updated."""
        if isinstance(item, Pod):
            self._put_pod(item)
        elif isinstance(item, Node):
            self.table.add_node(item)
        else:
            if isinstance(item, Namespace):
                self.table.set_namespace(item.name, item.labels)
            self.objects.put(item)

    def remove(self, item: KubeObject) -> None:
        """Apply an object's deletion."""
        if isinstance(item, Pod):
            self.objects.remove(item)
            self.table.remove_pod(item.uid)
            self.nominator.remove(item.uid)
            self.assumed.discard(item.uid)
            self.table.evicting.discard(item.uid)
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
        if pod.spec.node_name:
            self.put_placed(pod)
        else:
            self.put_waiting(pod)

    def put_waiting(self, pod: Pod) -> None:
        """Apply a pod without a node that was added or updated, and is not finished."""
        self.pods.put(pod)
        nominated = pod.status.nominated_node_name
        if nominated and pod.uid not in self.table.pods and not pod.spec.scheduling_gates:
            self.nominate(pod, nominated)  # a gated pod reserves no room yet

    def put_placed(self, pod: Pod) -> None:
        """Apply a pod with a node that was added or updated, and is not finished."""
        uid = pod.metadata.uid
        self.pods.put(pod)
        self.nominator.remove(uid)
        self.assumed.discard(uid)
        self.table.add_pod(pod)
        if uid in self.table.evicting:
            self._touch(pod)  # it was assumed, and counts as releasing now

    def nominate(self, pod: Pod, node_name: str) -> None:
        """Reserve room for a pod on a node."""
        claims = pod.status.node_allocatable_resource_claim_statuses
        counted = placed(pod, node_name, claims) if claims else pod
        self.nominator.add(PodInfo(pod, self.table.template(counted)), node_name)

    def assume(self, pod: Pod, node_name: str, claims: ClaimStatuses = ()) -> PodInfo:
        """Count a pod on a node before its binding is observed. A batch session may already have placed it there.

        ``claims`` is what the devices of its claims take from the resources of the node.
        """
        uid = pod.metadata.uid
        known = self.table.pods.get(uid)
        if known is not None and known.pod.node_name:
            raise CacheError(f"pod {pod.namespace}/{pod.name} is on a node already")
        self.nominator.remove(uid)
        self.assumed.add(uid)
        return self.table.add_pod(placed(pod, node_name, claims))

    def forget(self, pod: Pod) -> None:
        """Undo an assumption."""
        if pod.uid in self.assumed:
            self.assumed.discard(pod.uid)
            self.table.evicting.discard(pod.uid)
            self.table.remove_pod(pod.uid)

    def start_eviction(self, pod: Pod) -> None:
        """Count a pod as being evicted until it is deleted or ``eviction_failed`` is called."""
        known = self.pods.get(pod.name, pod.namespace)
        if known is not None and known.uid == pod.uid:
            self.table.evicting.add(pod.uid)
            self._touch(pod)

    def eviction_failed(self, pod: Pod) -> None:
        """Stop counting a pod as being evicted."""
        self.table.evicting.discard(pod.uid)
        self._touch(pod)

    def _touch(self, pod: Pod) -> None:
        """Mark the pod's row as changed."""
        info = self.table.pods.get(pod.uid)
        if info is not None and info.node is not None:
            self.table.changes.mark(info.node.row)


def placed(pod: Pod, node_name: str, claims: ClaimStatuses = ()) -> Pod:
    """Return a copy of the pod as it will be once it is bound, with its compiled template if that stays the same."""
    copy = _replace(pod, spec=_replace(pod.spec, node_name=node_name))
    if claims or pod.status.node_allocatable_resource_claim_statuses:
        return _replace(copy, status=_replace(pod.status, node_allocatable_resource_claim_statuses=claims))
    copy.__dict__.update(pod.__dict__)
    return copy
