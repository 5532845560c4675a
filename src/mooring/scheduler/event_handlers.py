"""Intake: what happens in the cluster, told to the cache and to the queue as kube-scheduler's event handlers do."""

from __future__ import annotations

from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework.custom_resources import event_name
from mooring.framework.events import ActionType
from mooring.scheduler.build import Profiles
from mooring.scheduler.cache import Cache
from mooring.scheduler.observer import Watch
from mooring.scheduler.queue import SchedulingQueue
from mooring.scheduler.queue.hints import node_update_actions


class Intake:
    """Takes in objects as they come, change and go."""

    def __init__(self, cache: Cache, queue: SchedulingQueue, profiles: Profiles, watch: Watch | None) -> None:
        self.cache = cache
        self.queue = queue
        self.profiles = profiles
        self.watch = watch
        #: The newest version of every pod that waits for a node, by uid.
        self.waiting: dict[str, Pod] = {}

    def put(self, item: KubeObject) -> None:
        """An object appeared or changed."""
        if isinstance(item, Pod):
            self._put_pod(item)
        elif isinstance(item, Node):
            self._put_node(item)
        else:
            old = self.cache.objects.lister(type(item)).get(item.name, item.namespace)
            self.cache.put(item)
            action = ActionType.ADD if old is None else ActionType.UPDATE
            self.queue.on_event(event_name(type(item)), action, old, item)

    def remove(self, item: KubeObject) -> None:
        """An object is gone."""
        if isinstance(item, Pod):
            self._remove_pod(item)
        elif isinstance(item, Node):
            self.queue.on_event("Node", ActionType.DELETE, item, None)
            self.cache.remove(item)
        else:
            self.cache.remove(item)
            self.queue.on_event(event_name(type(item)), ActionType.DELETE, item, None)

    def let_go(self, pod: Pod) -> None:
        """A pod that waits is no business of ours any more."""
        self.waiting.pop(pod.uid, None)
        self.cache.nominator.remove(pod.uid)
        self.queue.delete(pod)
        if self.watch is not None:
            self.watch.left(pod)

    def _remove_pod(self, pod: Pod) -> None:
        placed = self.cache.table.pods.get(pod.uid)
        nominated = self.cache.nominator.node_of(pod.uid) or pod.status.nominated_node_name
        held = self.profiles.waiting_pods.get(pod.uid)
        if held is not None:
            held.reject("", "removed")
        self.waiting.pop(pod.uid, None)
        self.cache.remove(pod)
        self.queue.delete(pod)
        if self.watch is not None:
            self.watch.left(pod)
        if placed is not None:
            self.queue.assigned_pod_deleted(placed.pod)
        elif nominated:
            self._nomination_ended(pod)

    def _nomination_ended(self, pod: Pod) -> None:
        """Room that was kept for a pod is free; pods that do not go before it had to leave it alone."""
        self.queue.assigned_pod_deleted(pod, only=lambda other: other.priority <= pod.priority)

    def _put_pod(self, pod: Pod) -> None:
        if pod.is_finished:
            self._remove_pod(pod)
        elif pod.node_name:
            known = self.cache.table.pods.get(pod.uid)
            old = known.pod if known is not None else None
            was_assumed = pod.uid in self.cache.assumed
            waited = self.waiting.pop(pod.uid, None) is not None
            self.cache.put(pod)
            self.queue.delete(pod)
            if self.watch is not None:
                self.watch.left(pod)
                if old is None or was_assumed:
                    self.watch.settled(pod, waited=waited)
            if old is None or was_assumed:
                self.queue.assigned_pod_added(pod)  # kube-scheduler tells of a binding when it sees it, not before
            else:
                self.queue.assigned_pod_updated(old, pod)
        elif pod.scheduler_name in self.profiles.cycles:
            self._put_waiting(pod)
        else:
            self.cache.objects.put(pod)  # somebody else's to place, but a plugin may count it

    def _put_waiting(self, pod: Pod) -> None:
        old = self.waiting.get(pod.uid)
        self.waiting[pod.uid] = pod
        if pod.uid in self.cache.assumed:
            self.cache.objects.put(pod)
            if pod.is_terminating and (old is None or not old.is_terminating):
                self._assumed_leaves(pod)
            return
        self.cache.put(pod)  # its nomination, if it has one
        if old is None:
            if self.watch is not None:
                self.watch.noticed(pod)
            self.queue.add(pod)
            return
        before, now = old.status.nominated_node_name, pod.status.nominated_node_name
        if before and not now:
            self.cache.nominator.remove(pod.uid)
        self.queue.update(old, pod)
        if before and before != now:
            self._nomination_ended(old)

    def _assumed_leaves(self, pod: Pod) -> None:
        """A pod on its way to a node is to be deleted: what it takes there is free, whatever comes of its binding."""
        held = self.profiles.waiting_pods.get(pod.uid)
        assumed = self.cache.table.pods[pod.uid].pod
        if held is not None:
            held.reject("", "removed")  # the binding cycle takes the assumption back
        else:
            self.cache.forget(pod)
        self.queue.assigned_pod_deleted(assumed)

    def _put_node(self, node: Node) -> None:
        row = self.cache.table.row_of.get(node.name)
        old = None if row is None else self.cache.table.nodes[row].node
        self.cache.put(node)
        if old is None:
            self.queue.on_event("Node", ActionType.ADD, None, node)
            return
        for action in node_update_actions(old, node):
            self.queue.on_event("Node", action, old, node)
