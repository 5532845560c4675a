"""Carries out a scenario on our queue and tells its state after each operation, as the oracle does."""

from __future__ import annotations

import math
from typing import Any

from mooring.api.meta import ObjectMeta
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework import ActionType, ClusterEvent, Hint, Status
from mooring.releases import V1_36
from mooring.scheduler.queue import Place, QueuedPod, SchedulingQueue
from mooring.testing import make_pod


def pod_of(given: dict[str, Any]) -> Pod:
    pod = make_pod(given["name"], "ns").uid(given["uid"]).scheduler(given["profile"]).priority(given["priority"])
    pod = pod.label(given["labels"] or {}).annotation(given["hints"])
    if given["gates"]:
        pod = pod.gate(*(f"g{number}" for number in range(given["gates"])))
    for number in range(given["tolerations"]):
        pod = pod.toleration(f"t{number}")
    if given["cpu"]:
        pod = pod.req(cpu=given["cpu"])
    return (pod.node(given["nodeName"]) if given.get("nodeName") else pod).obj()


def object_of(given: dict[str, Any] | None) -> Pod | Node | None:
    if given is None:
        return None
    if "pod" in given:
        return pod_of(given["pod"])
    return Node(metadata=ObjectMeta(name=given["name"], annotations=given["hints"]))


class Replay:
    """One scenario."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        self.now = scenario["start"]
        self.gated: dict[str, list[str]] = {}
        self.popped: dict[str, QueuedPod] = {}
        #: Popped pods that the queue does not follow any more: the caller has to.
        self.loose: set[str] = set()
        self.latest: dict[str, Pod] = {}
        self.gone: set[str] = set()
        self.queue = SchedulingQueue(
            release=V1_36,  # the oracle's
            clock=lambda: self.now,
            pre_enqueue={
                profile: {name: self.gate(name) for name in names} for profile, names in scenario["gates"].items()
            },
            hint_map={
                profile: {
                    plugin: [
                        ClusterEvent(
                            event["resource"],
                            ActionType(event["actions"]),
                            None if event["hint"] == "always" else self.hint(plugin),
                        )
                        for event in events
                    ]
                    for plugin, events in plugins.items()
                }
                for profile, plugins in scenario["hints"].items()
            },
            pod_initial_backoff=scenario["initial"],
            pod_max_backoff=scenario["max"],
            max_in_unschedulable=scenario["maxUnschedulable"],
            pop_from_backoff=scenario["popFromBackoff"],
        )

    def gate(self, plugin: str) -> Any:
        def pre_enqueue(pod: Pod) -> Status | None:
            return Status.unresolvable("held back") if plugin in self.gated.get(pod.name, ()) else None

        return pre_enqueue

    @staticmethod
    def hint(plugin: str) -> Any:
        def hint(pod: Pod, old: Pod | Node | None, new: Pod | Node | None) -> Hint:
            for thing in (old, new):
                names = thing.annotations.get(plugin, "").split() if thing is not None else []
                if "!" in names:
                    raise RuntimeError("broken")
                if pod.name in names:
                    return Hint.QUEUE
            return Hint.SKIP

        return hint

    def step(self, op: dict[str, Any]) -> dict[str, Any]:
        """Carry out an operation."""
        self.now = op["at"]
        result = getattr(self, op["op"])(op)
        return {"inFlight": sorted(self.in_flight()), "result": result, "state": self.state()}

    def in_flight(self) -> list[str]:
        return [queued.uid for place, queued in self.queue if place is Place.IN_FLIGHT]

    def state(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for place, queued in self.queue:
            if place is Place.IN_FLIGHT:
                continue
            assert queued.pod.name not in found
            found[queued.pod.name] = [
                place.value,
                queued.uid,
                queued.attempts,
                queued.unschedulable_count,
                queued.consecutive_errors,
                queued.timestamp,
                queued.initial_attempt_timestamp,
                sorted(queued.unschedulable_plugins),
                sorted(queued.pending_plugins),
                queued.gating_plugin,
                queued.was_flushed,
                _moment(queued.flush_timestamp),
                _moment(self.queue.backoff_ends(queued)),
                len(queued.pod.spec.tolerations),
            ]
        return found

    def incoming(self) -> dict[str, int]:
        return {f"{queue} {event}": count for (queue, event), count in self.queue.counters.incoming.items()}

    # The operations

    def gates(self, op: dict[str, Any]) -> None:
        self.gated[op["key"]] = op["gated"]

    def add(self, op: dict[str, Any]) -> None:
        self.queue.add(pod_of(op["pod"]))

    def update(self, op: dict[str, Any]) -> None:
        new = pod_of(op["pod"])
        self.latest[new.uid] = new
        self.queue.update(pod_of(op["old"]), new)

    def delete(self, op: dict[str, Any]) -> None:
        pod = pod_of(op["pod"])
        self.gone.add(pod.uid)
        self.queue.delete(pod)

    def pop(self, op: dict[str, Any]) -> str | None:
        queued = self.queue.pop()
        if queued is None:
            return None
        self.popped.pop(queued.uid, None)
        self.popped[queued.uid] = queued
        self.latest.pop(queued.uid, None)
        self.gone.discard(queued.uid)
        self.loose.discard(queued.uid)
        return queued.pod.name

    def nth(self, op: dict[str, Any]) -> str | None:
        return list(self.popped)[op["nth"] % len(self.popped)] if self.popped else None

    def done(self, op: dict[str, Any]) -> None:
        uid = self.nth(op)
        if uid is not None:
            self.queue.done(uid)
            self.loose.add(uid)
            if op["forget"]:
                del self.popped[uid]

    def fail(self, op: dict[str, Any]) -> None:
        uid = self.nth(op)
        if uid is None:
            return
        queued = self.popped.pop(uid)
        if uid in self.loose and uid in self.gone:
            self.queue.done(uid)
            return
        pod = self.latest.get(uid)
        self.queue.add_unschedulable(
            queued, unschedulable_plugins=op["plugins"], pending_plugins=op["pending"], pod=pod
        )

    def activate(self, op: dict[str, Any]) -> None:
        self.queue.activate(f"ns/{key.partition('@')[0]}" for key in op["keys"])

    def event(self, op: dict[str, Any]) -> None:
        most = op["maxPrio"]
        self.queue.on_event(
            op["resource"],
            ActionType(op["action"]),
            object_of(op["oldObj"]),
            object_of(op["newObj"]),
            only=None if most is None else lambda pod: pod.priority <= most,
        )

    def tick(self, op: dict[str, Any]) -> None:
        self.queue.tick(self.now)


def _moment(time: float) -> float | None:
    return time if math.isfinite(time) else None
