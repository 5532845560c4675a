"""A queue with a clock that stands still, and short ways to bring pods where a test wants them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mooring.api.pod import Pod
from mooring.framework import ActionType, ClusterEvent, Hint, Status
from mooring.scheduler.queue import QueuedPod, SchedulingQueue
from mooring.testing import make_node, make_pod

PROFILE = "default-scheduler"
#: A whole second, so that tests can count in seconds from it.
START = 1_000.0
ALL = ActionType.ALL
NODE = make_node("n").obj()


class Clock:
    """Tells the time that a test sets."""

    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class Gate:
    """A PreEnqueue plugin that holds back the pods named."""

    def __init__(self, *held: str) -> None:
        self.held = set(held)
        self.asked: list[str] = []

    def __call__(self, pod: Pod) -> Status | None:
        self.asked.append(pod.name)
        return Status.unresolvable("closed") if pod.name in self.held else None


class Asked:
    """A hint that answers Queue for the pods named, and remembers whom it was asked about."""

    def __init__(self, *names: str) -> None:
        self.names = set(names)
        self.pods: list[str] = []

    def __call__(self, pod: Any, old: object, new: object) -> Hint:
        self.pods.append(pod.name)
        return Hint.QUEUE if pod.name in self.names else Hint.SKIP


def on(resource: str, actions: ActionType = ALL, hint: Callable[[Any, Any, Any], Hint] | None = None) -> ClusterEvent:
    return ClusterEvent(resource, actions, hint)


class QueueUnderTest(SchedulingQueue):
    """A queue of one profile. ``hints``: plugin -> events; ``gates``: plugin -> its method."""

    def __init__(
        self, hints: dict[str, list[ClusterEvent]] | None = None, gates: dict[str, Any] | None = None, **options: Any
    ) -> None:
        self.clock = Clock()
        given: dict[str, Any] = {
            "hint_map": {PROFILE: hints if hints is not None else {"Fit": [on("Node")]}},
            "pre_enqueue": {PROFILE: gates or {}},
        }
        super().__init__(clock=self.clock, **{**given, **options})

    def pass_time(self, seconds: float) -> int:
        """Let time pass, then tick."""
        self.clock.now += seconds
        return self.tick(self.clock.now)

    def node_added(self) -> int:
        """A node appears; how many pods that moved."""
        return self.on_event("Node", ActionType.ADD, None, NODE)

    def popped(self, name: str) -> QueuedPod:
        """A pod that was added and popped."""
        self.add(make_pod(name).obj())
        queued = self.pop()
        assert queued is not None
        assert queued.pod.name == name
        return queued

    def rejected(self, name: str, *plugins: str, pending: Iterable[str] = ()) -> QueuedPod:
        """A pod that was tried and turned down."""
        queued = self.popped(name)
        self.add_unschedulable(queued, unschedulable_plugins=plugins, pending_plugins=pending)
        return queued

    def place(self, name: str) -> str | None:
        """Where a pod of the default namespace is."""
        found = self.find(f"default/{name}")
        return None if found is None else found[0].value

    def drain(self) -> list[str]:
        """Pop all, by name."""
        names = []
        while (queued := self.pop()) is not None:
            names.append(queued.pod.name)
        return names
