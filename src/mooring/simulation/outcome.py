"""The outcome of a simulation: all pods, all nodes, and totals."""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Any

import msgspec

from mooring.api.resources import format_amount
from mooring.simulation.scenario import Workload


class State(Enum):
    """The state of a pod at the end of a simulation."""

    #: It was already on a node.
    RUNNING = "running"
    #: It was placed on a node.
    PLACED = "placed"
    #: It has no node.
    PENDING = "pending"
    #: It is gated by a PreEnqueue plugin, and was not tried.
    GATED = "gated"
    #: It was evicted from its node.
    EVICTED = "evicted"


class PodOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome for one pod."""

    namespace: str
    name: str
    workload: Workload | None
    #: The scheduler name of the pod.
    profile: str
    priority: int
    state: State
    #: The node that the pod is on, or was evicted from.
    node: str | None = None
    attempts: int = 0
    #: Why the pod is not on a node, in kube-scheduler's words.
    message: str = ""
    #: The node that the pod is nominated to.
    nominated_node: str | None = None
    #: The pods (namespace/name) that were evicted for it.
    victims: tuple[str, ...] = ()
    #: The preemptor (namespace/name) of an evicted pod; None if a session evicted it, see ``message``.
    evicted_by: str | None = None
    #: The PodGroup (namespace/name) of a pod that sessions schedule.
    gang: str | None = None

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
        """Return both amounts as Kubernetes quantities."""
        return format_amount(resource, self.requested), format_amount(resource, self.allocatable)


class NodeOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A node at the end of a simulation."""

    name: str
    zone: str
    #: The use of pods, cpu and memory, then of the other resources of the node.
    uses: dict[str, Use]


class PluginFailures(msgspec.Struct, frozen=True, kw_only=True):
    """The failures of one plugin."""

    plugin: str
    count: int
    #: The first failure: its place and reason, and the frames of the traceback in the plugin's code.
    first: str
    traceback: str = ""


class GangOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A PodGroup at the end of a simulation."""

    namespace: str
    name: str
    #: The workload that owns the PodGroup; None for a PodGroup of the manifests.
    workload: Workload | None
    queue: str
    #: Pending, Inqueue, Running, Unknown or Completed.
    phase: str
    min_member: int
    #: The number of its pods, and of those on nodes.
    pods: int
    placed: int
    #: Why its pods wait.
    message: str = ""

    @property
    def waits(self) -> bool:
        """Whether fewer pods are on nodes than the gang needs to start."""
        return self.placed < max(self.min_member, 1)

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class QueueOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """A queue at the end of a simulation; amounts are quantities by resource."""

    name: str
    parent: str
    weight: int
    allocated: dict[str, str]
    #: The deserved amounts according to proportion or capacity; empty without these plugins or without gangs.
    deserved: dict[str, str]
    capability: dict[str, str]
    #: The highest share of any resource of the cluster that its gangs have.
    share: float
    #: The number of its gangs, and of those that wait.
    gangs: int
    waiting: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of a simulation."""

    seed: int
    profiles: tuple[str, ...]
    pods: list[PodOutcome]
    nodes: list[NodeOutcome]
    #: The total number of attempts.
    attempts: int
    #: The simulated time in seconds.
    seconds: float
    notes: list[str]
    #: The failures of users' plugins.
    plugin_failures: list[PluginFailures] = []
    #: The scheduler names, gangs and queues of sessions, and the number of sessions.
    session_names: tuple[str, ...] = ()
    gangs: list[GangOutcome] = []
    queues: list[QueueOutcome] = []
    sessions: int = 0

    def count(self, *states: State) -> int:
        """Return the number of pods in some states."""
        return sum(pod.state in states for pod in self.pods)

    def of(self, *states: State) -> list[PodOutcome]:
        """Return the pods in some states."""
        return [pod for pod in self.pods if pod.state in states]

    def total(self, resource: str) -> Use:
        """Return the use of a resource over all nodes."""
        uses = [node.uses[resource] for node in self.nodes if resource in node.uses]
        return Use(sum(use.requested for use in uses), sum(use.allocatable for use in uses))

    def reasons(self) -> list[tuple[str, list[PodOutcome]]]:
        """Return the messages of pods without a node, each with its pods; the most frequent first."""
        waiting = self.of(State.PENDING, State.GATED)
        counts = Counter(pod.message for pod in waiting)
        return [(text, [pod for pod in waiting if pod.message == text]) for text, _ in counts.most_common()]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data for JSON and YAML."""
        return {
            "summary": {
                "nodes": len(self.nodes),
                "pods": len(self.pods),
                **{state.value: self.count(state) for state in State},
                "attempts": self.attempts,
                "simulatedSeconds": round(self.seconds, 3),
                "profiles": list(self.profiles),
                "seed": self.seed,
                **({"sessions": self.sessions} if self.session_names else {}),
            },
            "pods": [_pod(pod) for pod in self.pods],
            "nodes": [_node(node) for node in self.nodes],
            "pending": [{"message": text, "pods": [pod.key for pod in pods]} for text, pods in self.reasons()],
            "pluginFailures": [msgspec.to_builtins(each) for each in self.plugin_failures],
            **({"gangs": [_gang(each) for each in self.gangs]} if self.session_names else {}),
            **({"queues": [_queue(each) for each in self.queues]} if self.session_names else {}),
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
        "gang": pod.gang,
    }


def _gang(gang: GangOutcome) -> dict[str, Any]:
    return {
        "namespace": gang.namespace,
        "name": gang.name,
        "workload": None if gang.workload is None else {"kind": gang.workload.kind, "name": gang.workload.name},
        "queue": gang.queue,
        "phase": gang.phase,
        "minMember": gang.min_member,
        "pods": gang.pods,
        "placed": gang.placed,
        "message": gang.message,
    }


def _queue(queue: QueueOutcome) -> dict[str, Any]:
    return {
        "name": queue.name,
        "parent": queue.parent,
        "weight": queue.weight,
        "allocated": queue.allocated,
        "deserved": queue.deserved,
        "capability": queue.capability,
        "percent": round(100 * queue.share, 1),
        "gangs": queue.gangs,
        "waiting": queue.waiting,
    }


def _node(node: NodeOutcome) -> dict[str, Any]:
    resources = {}
    for resource, use in node.uses.items():
        requested, allocatable = use.texts(resource)
        percent = round(100 * use.share, 1)
        resources[resource] = {"requested": requested, "allocatable": allocatable, "percent": percent}
    return {"name": node.name, "zone": node.zone, "resources": resources}
