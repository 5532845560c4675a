"""Which plugins want to hear of which event, and whether an event is worth another attempt for a pod."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TypeAlias

import msgspec

from mooring.api.pod import Pod
from mooring.framework.events import ActionType, ClusterEvent, Hint, QueueingHint
from mooring.scheduler.answers import BadAnswerError
from mooring.scheduler.queue.counters import QueueCounters
from mooring.scheduler.queue.hints import event_label
from mooring.scheduler.queue.queued_pod import QueuedPod

#: Profile -> plugin -> the events that the plugin registered for.
HintMap: TypeAlias = Mapping[str, Mapping[str, Sequence[ClusterEvent]]]
#: Called when a plugin raises: plugin, method (``hint``, ``pre_enqueue``), pod, exception.
ErrorReport: TypeAlias = Callable[[str, str, Pod, Exception], None]

_WILDCARD = "*"


class Strategy(IntEnum):
    """What an event means for a waiting pod, from least to most."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class Interest(msgspec.Struct, frozen=True):
    """Who wants to hear of one kind of event."""

    label: str
    #: Profile -> plugin -> hints to ask, None for one that always says yes. Every known profile is here.
    hints: dict[str, dict[str, tuple[QueueingHint | None, ...]]]
    #: The plugins of all profiles together.
    plugins: tuple[str, ...]
    #: Whether the event requeues pods regardless of the plugins that rejected them.
    wildcard: bool = False

    @property
    def exists(self) -> bool:
        """Whether anybody wants to hear of it."""
        return self.wildcard or bool(self.plugins)


class Event(msgspec.Struct, frozen=True):
    """Something that happened to an object."""

    interest: Interest
    old: object = None
    new: object = None


class Interests:
    """What all plugins of all profiles registered for."""

    def __init__(self, hint_map: HintMap, counters: QueueCounters, on_error: ErrorReport | None = None) -> None:
        self._registered = {
            profile: {plugin: _with_taints(events) for plugin, events in plugins.items()}
            for profile, plugins in hint_map.items()
        }
        self._counters = counters
        self._on_error = on_error
        self._known: dict[tuple[str, int], Interest] = {}

    def of(self, resource: str, action: ActionType) -> Interest:
        """Who wants to hear of this; worked out once for each kind of event."""
        key = (resource, int(action))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._find(resource, action)
        return known

    def wildcard(self, label: str) -> Interest:
        """Return an event that requeues pods regardless of the plugins that rejected them."""
        return Interest(label, {profile: {} for profile in self._registered}, (), wildcard=True)

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
        """Whether the pod should be tried again because of the event: what its rejecting plugins' hints say."""
        rejectors, pending = queued.rejectors, queued.pending_plugins
        if not rejectors:
            return Strategy.AFTER_BACKOFF
        interest = event.interest
        if interest.wildcard:
            meant = event.new is None or (isinstance(event.new, Pod) and event.new.uid == queued.uid)
            return Strategy.AFTER_BACKOFF if meant else Strategy.SKIP
        wanted = interest.hints.get(queued.profile)
        if wanted is None:  # The profile is unknown: the pod must not get stuck.
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        # Plugins run in the profile's order, so that every run is the same.
        plugins = rejectors if len(rejectors) == 1 else [plugin for plugin in wanted if plugin in rejectors]
        for plugin in plugins:
            if not self._worth(plugin, wanted.get(plugin, ()), queued.pod, event):
                continue
            if plugin in pending:
                return Strategy.IMMEDIATELY
            best = Strategy.AFTER_BACKOFF
            if not pending:
                break
        return best

    def _worth(self, plugin: str, hints: Iterable[QueueingHint | None], pod: Pod, event: Event) -> bool:
        """Whether one of a plugin's hints says that the event helps the pod."""
        counts, label = self._counters.hints, event.interest.label
        for hint in hints:
            result = "Queue"
            if hint is not None:
                try:
                    result = _result(hint(pod, event.old, event.new))
                except Exception as error:
                    # A failing hint must not prevent a retry.
                    result = "Error"
                    if self._on_error is not None:
                        self._on_error(plugin, "hint", pod, error)
            counts[plugin, label, result] += 1
            if result != "QueueSkip":
                return True
        return False


def _result(answer: object) -> str:
    """A hint's answer as metrics name it."""
    if answer is Hint.SKIP:
        return "QueueSkip"
    if answer is Hint.QUEUE:
        return "Queue"
    raise BadAnswerError(f"hint returned {type(answer).__name__}; return Hint.QUEUE or Hint.SKIP")


def _with_taints(events: Sequence[ClusterEvent]) -> tuple[ClusterEvent, ...]:
    """A plugin's events as kube-scheduler completes them: who wants new nodes also gets nodes whose taints change."""
    actions = [event.actions for event in events if event.resource == "Node"]
    added = any(ActionType.ADD in action for action in actions)
    tainted = any(ActionType.UPDATE_NODE_TAINT in action for action in actions)
    if added and not tainted:
        return (*events, ClusterEvent("Node", ActionType.UPDATE_NODE_TAINT))
    return tuple(events)
