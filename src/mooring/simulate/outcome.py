"""The outcome of a simulation: every pod, every node, and totals."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Any

import msgspec

from mooring.api.quantity import format_quantity
from mooring.simulate.scenario import Workload


class State(Enum):
    """What became of a pod."""

    #: Was on a node already.
    RUNNING = "running"
    #: Was given a node.
    PLACED = "placed"
    #: Has no node.
    PENDING = "pending"
    #: Is held back by a PreEnqueue plugin, and was not tried.
    GATED = "gated"
    #: Had a node, and had to leave it for a more important pod.
    EVICTED = "evicted"


class PodOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One pod's story."""

    namespace: str
    name: str
    workload: Workload | None
    #: The scheduler name of the pod.
    profile: str
    priority: int
    state: State
    #: The node it is on, or was on when it was evicted.
    node: str | None = None
    attempts: int = 0
    #: Why it is not on a node, in kube-scheduler's words.
    message: str = ""
    #: The node it is nominated to.
    nominated_node: str | None = None
    #: The pods (namespace/name) that had to leave for it.
    victims: tuple[str, ...] = ()
    #: The pod (namespace/name) that it had to leave for.
    evicted_by: str | None = None

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Use(msgspec.Struct, frozen=True):
    """The requested and the allocatable amount of a resource: millicores for cpu, units for the others."""

    requested: int
    allocatable: int

    @property
    def share(self) -> float:
        """The requested share; 0 if nothing is allocatable."""
        return self.requested / self.allocatable if self.allocatable else 0.0

    def texts(self, resource: str) -> tuple[str, str]:
        """Both amounts as Kubernetes writes them."""
        return tuple(  # type: ignore[return-value]  # two in, two out
            format_quantity(amount, binary=_is_binary(resource), milli=resource == "cpu")
            for amount in (self.requested, self.allocatable)
        )


def _is_binary(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


class NodeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """One node at the end."""

    name: str
    zone: str
    #: pods, cpu, memory, then whatever else the node has.
    uses: dict[str, Use]


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that came of it."""

    seed: int
    profiles: tuple[str, ...]
    pods: list[PodOutcome]
    nodes: list[NodeOutcome]
    #: How many times a pod was tried.
    attempts: int
    #: How much time would have passed, in seconds.
    seconds: float
    notes: list[str]

    def count(self, *states: State) -> int:
        """How many pods came to this."""
        return sum(pod.state in states for pod in self.pods)

    def of(self, *states: State) -> list[PodOutcome]:
        """The pods that came to this."""
        return [pod for pod in self.pods if pod.state in states]

    def total(self, resource: str) -> Use:
        """A resource over all nodes."""
        uses = [node.uses[resource] for node in self.nodes if resource in node.uses]
        return Use(sum(use.requested for use in uses), sum(use.allocatable for use in uses))

    def reasons(self) -> list[tuple[str, list[PodOutcome]]]:
        """The messages of pods without a node, with the pods that have them; the most frequent first."""
        waiting = self.of(State.PENDING, State.GATED)
        counts = Counter(pod.message for pod in waiting)
        return [(text, [pod for pod in waiting if pod.message == text]) for text, _ in counts.most_common()]

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON and YAML."""
        return {
            "summary": {
                "nodes": len(self.nodes),
                "pods": len(self.pods),
                **{state.value: self.count(state) for state in State},
                "attempts": self.attempts,
                "simulatedSeconds": round(self.seconds, 3),
                "profiles": list(self.profiles),
                "seed": self.seed,
            },
            "pods": [_pod(pod) for pod in self.pods],
            "nodes": [_node(node) for node in self.nodes],
            "pending": [{"message": text, "pods": [pod.key for pod in pods]} for text, pods in self.reasons()],
            "notes": self.notes,
        }


def _pod(pod: PodOutcome) -> dict[str, Any]:
    workload = pod.workload
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "workload": None if workload is None else {"kind": workload.kind, "name": workload.name},
        "profile": pod.profile,
        "priority": pod.priority,
        "state": pod.state.value,
        "node": pod.node,
        "attempts": pod.attempts,
        "message": pod.message,
        "nominatedNode": pod.nominated_node,
        "victims": list(pod.victims),
        "evictedBy": pod.evicted_by,
    }


def _node(node: NodeOutcome) -> dict[str, Any]:
    resources = {}
    for resource, use in node.uses.items():
        requested, allocatable = use.texts(resource)
        percent = round(100 * use.share, 1)
        resources[resource] = {"requested": requested, "allocatable": allocatable, "percent": percent}
    return {"name": node.name, "zone": node.zone, "resources": resources}
