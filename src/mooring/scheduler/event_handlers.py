"""Event handlers: update the cache and the queue when objects change, as in kube-scheduler."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.columns.new_nodes import add_new_nodes
from mooring.framework.custom_resources import event_name
from mooring.framework.events import ActionType
from mooring.scheduler.cache import Cache
from mooring.scheduler.observer import Observer
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.queue import Place, SchedulingQueue
from mooring.scheduler.queue.queueing_hints import node_update_actions


class EventHandlers:
    """Handlers that update the cache and the queue when objects are added, changed or deleted."""

    def __init__(self, cache: Cache, queue: SchedulingQueue, profiles: Profiles, observer: Observer | None) -> None:
        self.cache = cache
        self.queue = queue
        self.profiles = profiles
        self.observer = observer

    def put(self, item: KubeObject) -> None:
        """Handle an added or changed object."""
        if isinstance(item, Pod):
            if item.is_finished:
                self._remove_pod(item)
            elif item.spec.node_name:
                self._put_placed(item)
            else:
                self._put_waiting(item)
        elif isinstance(item, Node):
            self._put_node(item)
        else:
            old = self.cache.objects.lister(type(item)).get(item.name, item.namespace)
            self.cache.put(item)
            action = ActionType.ADD if old is None else ActionType.UPDATE
            self.queue.on_event(event_name(type(item)), action, old, item)

    def put_new_pods(self, pods: Iterable[Pod]) -> list[Pod]:
        """Handle the pods of a list that run on a node or wait for one, at start-up, when nothing refers to them yet.

        Return those that are not handled. If a pod with a node is invalid, this raises before any of them is handled.
        """
        lister, table = self.cache.pods, self.cache.table
        pods = list(pods)
        new = lister.unknown(
            pod for pod in pods if pod.spec.node_name and pod.metadata.uid not in table.pods and not pod.is_finished
        )
        others: list[Pod] = []
        if len(new) < len(pods):
            found = set(map(id, new))
            others = [pod for pod in pods if id(pod) not in found]
        left = table.add_pods(new)
        if left:
            others += left
            new = [pod for pod in new if pod.metadata.uid in table.pods]
        lister.put_all(new)
        if self.observer is not None:
            self.observer.scheduled_pods_added(new)
        return self._put_new_waiting(others)

    def _put_new_waiting(self, pods: list[Pod]) -> list[Pod]:
        """Handle those pods that are new and wait for a node, with fewer calls than one by one. Return the others."""
        lister, observer, queue = self.cache.objects.lister(Pod), self.observer, self.queue
        runners = self.profiles.runners
        usual = [
            pod
            for pod in pods
            if not (pod.spec.node_name or pod.status.nominated_node_name or pod.is_finished)
            and pod.spec.scheduler_name in runners
            and self._takes(pod)
        ]
        new = lister.unknown(usual)
        for number, pod in enumerate(new):
            try:
                lister.put(pod)
                if observer is not None:
                    observer.unscheduled_pod_added(pod)
                queue.add(pod)
            except Exception:  # the caller applies it once more, and reports the error
                new = new[:number]
                break
        if not new:
            return pods
        found = set(map(id, new))
        return [pod for pod in pods if id(pod) not in found]

    def put_new_nodes(self, nodes: Iterable[Node]) -> list[Node]:
        """Handle the nodes of a list at start-up, when no pod waits for an event.

        Return those that are not handled. If a node is invalid, this raises before any of them is handled.
        """
        return add_new_nodes(self.cache.table, nodes)

    def remove(self, item: KubeObject) -> None:
        """Handle a deleted object."""
        if isinstance(item, Pod):
            self._remove_pod(item)
        elif isinstance(item, Node):
            self.queue.on_event("Node", ActionType.DELETE, item, None)
            self.cache.remove(item)
        else:
            self.cache.remove(item)
            self.queue.on_event(event_name(type(item)), ActionType.DELETE, item, None)

    def replace_profiles(self, profiles: Profiles) -> None:
        """Stop scheduling the pods of removed profiles, and schedule the unscheduled pods of added ones."""
        before, self.profiles = self.profiles.runners.keys(), profiles
        now = profiles.runners.keys()
        if before == now:
            return
        for pod in list(self.cache.pods.list()):
            if pod.node_name:
                continue
            if pod.scheduler_name in before - now:
                self._abandon(pod)
            elif pod.scheduler_name in now - before and pod.uid not in self.cache.table.pods:
                self._add_unscheduled(pod)

    def _abandon(self, pod: Pod) -> None:
        self.cache.nominator.remove(pod.uid)
        self.queue.delete(pod)
        if self.observer is not None:
            self.observer.left(pod)

    def _remove_pod(self, pod: Pod) -> None:
        placed = self.cache.table.pods.get(pod.uid)
        nominated = self.cache.nominator.node_of(pod.uid) or pod.status.nominated_node_name
        held = self.profiles.waiting_pods.get(pod.uid)
        if held is not None:
            held.reject("", "removed")
        self.cache.remove(pod)
        if self.observer is not None:
            self._record_gate(pod)
            self.observer.left(pod)
        self.queue.delete(pod)
        if placed is not None:
            self.queue.assigned_pod_deleted(placed.pod)
        elif nominated:
            self._nomination_ended(pod)

    def _record_gate(self, pod: Pod) -> None:
        """Record which PreEnqueue plugin gated a pod that was deleted."""
        found = self.queue.find(pod.key) if not pod.node_name else None
        if self.observer is not None and found is not None and found[0] is Place.GATED and found[1].uid == pod.uid:
            self.observer.left_gated(found[1])

    def _nomination_ended(self, pod: Pod) -> None:
        """Requeue pods of the same or a lower priority: the nomination had reserved room on the node."""
        self.queue.assigned_pod_deleted(pod, only=lambda other: other.priority <= pod.priority)

    def _put_waiting(self, pod: Pod) -> None:
        """Handle a pod without a node."""
        if pod.scheduler_name in self.profiles.runners:
            if self._takes(pod):
                self._put_unscheduled(pod)
            else:
                self._put_foreign(pod)
        else:
            self.cache.pods.put(pod)  # another scheduler's pod, but plugins may count it

    def _put_placed(self, pod: Pod) -> None:
        """Handle a pod with a node: most often the binding of an assumed pod, or a report of the kubelet."""
        cache, observer, uid = self.cache, self.observer, pod.metadata.uid
        known = cache.table.pods.get(uid)
        if known is None and cache.pods.get(pod.name, pod.namespace) is None:
            self._add_placed(pod)
            return
        old = known.pod if known is not None and uid not in cache.assumed else None
        logged = old is None and observer is not None and observer.logs
        waited = logged and self._unscheduled(pod) is not None
        cache.put_placed(pod)
        self.queue.delete(pod)
        if observer is not None:
            observer.left(pod)
            if logged:
                observer.scheduled_pod_added(pod, waited=waited)
        if old is None:
            self.queue.assigned_pod_added(pod)  # as in kube-scheduler, only when the binding is observed
        else:
            self.queue.assigned_pod_updated(old, pod)

    def _add_placed(self, pod: Pod) -> None:
        """Handle a pod that is new and has a node, as most pods at start-up: nothing else refers to it yet."""
        self.cache.pods.put(pod)
        self.cache.table.add_pod(pod)
        if self.observer is not None:
            self.observer.scheduled_pod_added(pod, waited=False)
        self.queue.assigned_pod_added(pod)

    def _unscheduled(self, pod: Pod) -> Pod | None:
        """Return the cached version of a pod if it has no node and an active profile."""
        metadata = pod.metadata
        old = self.cache.pods.get(metadata.name, metadata.namespace or "default")
        if old is None or old.uid != pod.uid or old.node_name or old.scheduler_name not in self.profiles.runners:
            return None
        return old if self._takes(old) else None

    def _takes(self, pod: Pod) -> bool:
        """Return whether this scheduler decides about a pod of its profiles."""
        share = self.cache.table.share
        return share is None or share.takes(pod)

    def _put_foreign(self, pod: Pod) -> None:
        """Handle a pod that another member decides about. Its nomination counts, as that of a pod in the queue."""
        if pod.uid not in self.cache.assumed and self.queue.find(pod.key) is not None:
            self._abandon(pod)
        self.cache.nominator.remove(pod.uid)
        self.cache.put_waiting(pod)

    def share_changed(self) -> None:
        """Take over the unscheduled pods that this scheduler decides about now, and give up the others."""
        for pod in list(self.cache.pods.list()):
            if pod.node_name or pod.scheduler_name not in self.profiles.runners or pod.uid in self.cache.table.pods:
                continue
            if not self._takes(pod):
                self._put_foreign(pod)
            elif self.queue.find(pod.key) is None:
                self._add_unscheduled(pod)

    def _put_unscheduled(self, pod: Pod) -> None:
        old = self._unscheduled(pod)
        if pod.metadata.uid in self.cache.assumed:
            self.cache.pods.put(pod)
            if pod.is_terminating and (old is None or not old.is_terminating):
                self._assumed_pod_terminates(pod)
            return
        if old is None:
            self._add_unscheduled(pod)
            return
        self.cache.put_waiting(pod)
        before, now = old.status.nominated_node_name, pod.status.nominated_node_name
        if before and not now:
            self.cache.nominator.remove(pod.uid)
        self.queue.update(old, pod)
        if before and before != now:
            self._nomination_ended(old)

    def _add_unscheduled(self, pod: Pod) -> None:
        self.cache.put_waiting(pod)  # with its nomination, if it has one
        if self.observer is not None:
            self.observer.unscheduled_pod_added(pod)
        self.queue.add(pod)

    def _assumed_pod_terminates(self, pod: Pod) -> None:
        """Free the resources of an assumed pod that is being deleted, whether or not its binding succeeds."""
        held = self.profiles.waiting_pods.get(pod.uid)
        assumed = self.cache.table.pods[pod.uid].pod
        if held is not None:
            held.reject("", "removed")  # the binding cycle rolls it back
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
