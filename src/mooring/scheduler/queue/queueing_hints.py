"""Queueing hints: which plugins registered for an event, and whether the event requeues a pod.

Updates of pods and nodes are split into the actions that plugins register for, as in kube-scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TypeAlias

import msgspec

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.quantity import QuantityLike, parse_quantity
from mooring.api.resources import DEFAULT_RULES, RequestRules, pod_requests
from mooring.framework.events import ActionType, ClusterEvent, QueueingHint
from mooring.framework.plugin_errors import contain
from mooring.releases import NEWEST, Release
from mooring.scheduler.answers import hint_result
from mooring.scheduler.queue.queued_pod import QueueCounters, QueuedPod

#: Profile -> plugin -> the events that the plugin registered for.
HintMap: TypeAlias = Mapping[str, Mapping[str, Sequence[ClusterEvent]]]
#: Called when a plugin raises: plugin, method (``hint``, ``pre_enqueue``), pod, exception.
ErrorReport: TypeAlias = Callable[[str, str, Pod, BaseException], None]

_WILDCARD = "*"


class Strategy(IntEnum):
    """The way in which an event requeues a pod, from least to most urgent."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class Interest(msgspec.Struct, frozen=True):
    """The plugins that registered for one kind of event."""

    label: str
    #: Profile -> plugin -> its hints; None stands for a hint that always requeues. Contains every profile.
    hints: dict[str, dict[str, tuple[QueueingHint | None, ...]]]
    #: The plugins of all profiles together.
    plugins: tuple[str, ...]
    #: Whether the event requeues pods regardless of the plugin that rejected them.
    wildcard: bool = False

    @property
    def exists(self) -> bool:
        """Whether any plugin registered for the event."""
        return self.wildcard or bool(self.plugins)


class Event(msgspec.Struct, frozen=True):
    """A cluster event."""

    interest: Interest
    old: object = None
    new: object = None


class Interests:
    """The events that the plugins of all profiles registered for."""

    def __init__(
        self,
        hint_map: HintMap,
        counters: QueueCounters,
        on_error: ErrorReport | None = None,
        release: Release = NEWEST,
    ) -> None:
        completed = _with_taints if release.taints_requeue_like_new_nodes else tuple
        self._registered = {
            profile: {plugin: completed(events) for plugin, events in plugins.items()}
            for profile, plugins in hint_map.items()
        }
        self._counters = counters
        self._on_error = on_error
        self._cached: dict[tuple[str, int], Interest] = {}
        self._own_pod_event = release.own_pod_event
        # As upstream, the actions of an update always count pod-level requests.
        self._rules = RequestRules.of(release)._replace(pod_level=True)

    def of(self, resource: str, action: ActionType) -> Interest:
        """Return the plugins that registered for an event; computed once for each kind of event."""
        key = (resource, int(action))
        cached = self._cached.get(key)
        if cached is None:
            cached = self._cached[key] = self._find(resource, action)
        return cached

    def events_of_update(self, old: Pod, new: Pod) -> list[Event]:
        """Return the events of a pod that was updated."""
        resource = ASSIGNED_POD if new.node_name else self._own_pod_event
        return [Event(self.of(resource, action), old, new) for action in self.update_actions(old, new)]

    def update_actions(self, old: Pod, new: Pod) -> tuple[ActionType, ...]:
        """Return the actions of a pod's update."""
        return pod_update_actions(old, new, self._rules)

    def wildcard(self, label: str) -> Interest:
        """Return the interest of an event that requeues pods regardless of the plugin that rejected them."""
        return Interest(label, {profile: {} for profile in self._registered}, (), wildcard=True)

    def of_plugin(self, label: str, profile: str, plugin: str) -> Interest:
        """Return the interest of an event that requeues the pods that one plugin of a profile rejected."""
        hints: dict[str, dict[str, tuple[QueueingHint | None, ...]]] = {name: {} for name in self._registered}
        hints[profile] = {plugin: (None,)}
        return Interest(label, hints, (plugin,))

    def _find(self, resource: str, action: ActionType) -> Interest:
        label = event_label(resource, action)
        if resource == _WILDCARD and action == ActionType.ALL:
            return self.wildcard(label)
        hints: dict[str, dict[str, tuple[QueueingHint | None, ...]]] = {}
        for profile, plugins in self._registered.items():
            found = hints[profile] = {}
            for plugin, events in plugins.items():
                matching = tuple(event.hint for event in events if event.matches(resource, action))
                if matching:
                    found[plugin] = matching
        names = dict.fromkeys(plugin for found in hints.values() for plugin in found)
        return Interest(label, hints, tuple(names))

    def strategy(self, queued: QueuedPod, event: Event) -> Strategy:
        """Return how an event requeues a pod, according to the hints of the plugins that rejected it."""
        rejectors, pending = queued.rejectors, queued.pending_plugins
        if not rejectors:
            return Strategy.AFTER_BACKOFF
        interest = event.interest
        if interest.wildcard:
            meant = event.new is None or (isinstance(event.new, Pod) and event.new.uid == queued.uid)
            return Strategy.AFTER_BACKOFF if meant else Strategy.SKIP
        wanted = interest.hints.get(queued.profile)
        if wanted is None:  # The profile does not exist: the pod must not get stuck.
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        # Plugins run in the profile's order, so that runs are reproducible.
        plugins = rejectors if len(rejectors) == 1 else [plugin for plugin in wanted if plugin in rejectors]
        for plugin in plugins:
            if not self._requeues(plugin, wanted.get(plugin, ()), queued.pod, event):
                continue
            if plugin in pending:
                return Strategy.IMMEDIATELY
            best = Strategy.AFTER_BACKOFF
            if not pending:
                break
        return best

    def _requeues(self, plugin: str, hints: Iterable[QueueingHint | None], pod: Pod, event: Event) -> bool:
        """Return whether one of a plugin's hints requeues the pod."""
        counts, label = self._counters.hints, event.interest.label
        for hint in hints:
            result = "Queue"
            if hint is not None:
                try:
                    result = hint_result(hint(pod, event.old, event.new))
                except BaseException as error:
                    contain(error)
                    # A failing hint must not prevent a retry.
                    result = "Error"
                    if self._on_error is not None:
                        self._on_error(plugin, "hint", pod, error)
            counts[plugin, label, result] += 1
            if result != "QueueSkip":
                return True
        return False


def _with_taints(events: Sequence[ClusterEvent]) -> tuple[ClusterEvent, ...]:
    """Return a plugin's events; one that registers for new nodes also gets taint updates, as before 1.37."""
    actions = [event.actions for event in events if event.resource == "Node"]
    added = any(ActionType.ADD in action for action in actions)
    tainted = any(ActionType.UPDATE_NODE_TAINT in action for action in actions)
    if added and not tainted:
        return (*events, ClusterEvent("Node", ActionType.UPDATE_NODE_TAINT))
    return tuple(events)


# Labels of events, and the actions of an update

#: The resource of events of pods with a node; `Release` has those of pods without one.
ASSIGNED_POD = "AssignedPod"

#: Kinds that kube-scheduler names together with their API group in metrics.
_GROUPS = {
    "CSINode": "storage.k8s.io/",
    "CSIDriver": "storage.k8s.io/",
    "VolumeAttachment": "storage.k8s.io/",
    "CSIStorageCapacity": "storage.k8s.io/",
    "StorageClass": "storage.k8s.io/",
    "ResourceClaim": "resource.k8s.io/",
    "ResourceSlice": "resource.k8s.io/",
    "DeviceClass": "resource.k8s.io/",
    "PodGroup": "scheduling.k8s.io/",
}
_ACTIONS = {
    int(action): "".join(word.capitalize() for word in name.split("_"))
    for name, action in ActionType.__members__.items()
}


def event_label(resource: str, action: ActionType) -> str:
    """Return the label of an event in metrics and logs: ``NodeUpdateNodeLabel``, ``AssignedPodDelete``."""
    if resource == "DeviceTaintRule":  # kube-scheduler sees the slices change
        resource, action = "ResourceSlice", ActionType.UPDATE
    return f"{_GROUPS.get(resource, '')}{resource}{_ACTIONS.get(int(action), '')}"


def pod_update_actions(old: Pod, new: Pod, rules: RequestRules = DEFAULT_RULES) -> tuple[ActionType, ...]:
    """Return the actions of a pod's update; UPDATE if none of the specific ones applies.

    ``rules`` determines the requests of a pod that is scaled down.
    """
    actions = []
    if new.labels != old.labels:
        actions.append(ActionType.UPDATE_POD_LABEL)
    if _scales_down(old, new, rules):
        actions.append(ActionType.UPDATE_POD_SCALE_DOWN)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    # Tolerations can only be added, so it is enough to compare their number.
    if len(new.spec.tolerations) != len(old.spec.tolerations):
        actions.append(ActionType.UPDATE_POD_TOLERATION)
    if (
        new.status.resource_claim_statuses != old.status.resource_claim_statuses
        or new.status.extended_resource_claim_status != old.status.extended_resource_claim_status
    ):
        actions.append(ActionType.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    return tuple(actions) or (ActionType.UPDATE,)


def _scales_down(old: Pod, new: Pod, rules: RequestRules) -> bool:
    """Return whether a request of the pod decreases, including allocated resources in its status."""
    before, after = (pod_requests(each, use_status=True, rules=rules) for each in (old, new))
    return any(name not in after or amount > after[name] for name, amount in before.items())


def node_update_actions(old: Node, new: Node) -> tuple[ActionType, ...]:
    """Return the actions of a node's update; none if it cannot make a pod schedulable.

    As in kube-scheduler, a node that is uncordoned and whose taints change has the taint action twice.
    """
    actions = []
    if old.unschedulable and not new.unschedulable:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if not _same_amounts(old.status.allocatable, new.status.allocatable):
        actions.append(ActionType.UPDATE_NODE_ALLOCATABLE)
    if new.labels != old.labels:
        actions.append(ActionType.UPDATE_NODE_LABEL)
    if new.taints != old.taints:
        actions.append(ActionType.UPDATE_NODE_TAINT)
    if _conditions(new) != _conditions(old):
        actions.append(ActionType.UPDATE_NODE_CONDITION)
    if new.annotations != old.annotations:
        actions.append(ActionType.UPDATE_NODE_ANNOTATION)
    if new.status.declared_features != old.status.declared_features:
        actions.append(ActionType.UPDATE_NODE_DECLARED_FEATURE)
    return tuple(actions)


def _same_amounts(old: Mapping[str, QuantityLike], new: Mapping[str, QuantityLike]) -> bool:
    """Return whether two resource lists have equal amounts, in any notation."""
    if old == new:
        return True
    if old.keys() != new.keys():
        return False
    for name, written in old.items():
        before, after = parse_quantity(written), parse_quantity(new[name])
        if before.exceeds(after) or after.exceeds(before):
            return False
    return True


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}
