"""TaskInfo: a pod in a batch session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

import msgspec

from mooring.api.meta import parse_time
from mooring.api.pod import Pod
from mooring.api.volcano import GROUP_ANNOTATION, QUEUE_GATE
from mooring.batch.resource import Resource

Status = Literal[
    "Pending", "Allocated", "Pipelined", "Binding", "Bound", "Running", "Releasing", "Succeeded", "Failed", "Unknown"
]

PENDING: Final = "Pending"
ALLOCATED: Final = "Allocated"
PIPELINED: Final = "Pipelined"
BINDING: Final = "Binding"
BOUND: Final = "Bound"
RUNNING: Final = "Running"
RELEASING: Final = "Releasing"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"
UNKNOWN: Final = "Unknown"

#: Statuses in which a task holds its resources.
HOLDING: Final[frozenset[Status]] = frozenset({BOUND, BINDING, RUNNING, ALLOCATED})
#: Statuses in which a task may be evicted.
EVICTABLE: Final[frozenset[Status]] = frozenset({BOUND, RUNNING})
#: Statuses that count as scheduled, and as completed, in a PodGroup's phase.
SCHEDULED: Final[frozenset[Status]] = frozenset({RUNNING, BOUND, FAILED, SUCCEEDED})
COMPLETED: Final[frozenset[Status]] = frozenset({FAILED, SUCCEEDED})

TASK_SPEC: Final = "volcano.sh/task-spec"
TASK_PRIORITY: Final = "volcano.sh/task-priority"
PREEMPTABLE: Final = "volcano.sh/preemptable"
REVOCABLE_ZONE: Final = "volcano.sh/revocable-zone"

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_INT32 = 2**31


class Transaction(NamedTuple):
    """A task's status and node before a statement was discarded, for messages."""

    status: Status
    node_name: str
    evicted: bool


class TaskInfo:
    """A pod in a session: its request, its status and its node.

    Attributes:
        pod: The pod, with the annotations that it gets when it is bound.
        annotations: Annotations that the pod gets when it is bound, for example the devices that are assigned to it.
        uid: The uid of the pod.
        name: The name of the pod.
        namespace: The namespace of the pod.
        key: ``namespace/name``.
        job: The ``namespace/name`` of its PodGroup; empty for a pod without one.
        role: The name of its task in a Volcano job; empty if it has none.
        request: The pod's requests. They are shared: do not modify them.
        best_effort: Whether the pod requests nothing.
        status: Its status in this session, such as ``Pending``, ``Allocated`` or ``Running``.
        node_name: The node that it is on, or is placed on by the session; empty if there is none.
        node_status: The status under which its node counts it; None while it is on no node.
        priority: The priority of the pod; the annotation ``volcano.sh/task-priority`` overrides it.
        preemptable: Whether it may be preempted, by its annotation or label; true if there is none.
        revocable_zone: ``*`` if it may run on revocable nodes, otherwise empty.
        gated: Whether the pod has scheduling gates.
        index: The number at the end of the pod's name; None if there is none.
        created: When the pod was created, in seconds since the epoch.
        evicted: Whether other tasks were evicted for it.
        last: Its status and node before a statement was discarded, for messages.
    """

    __slots__ = (
        "_plain",
        "annotations",
        "best_effort",
        "created",
        "evicted",
        "gated",
        "index",
        "job",
        "key",
        "last",
        "name",
        "namespace",
        "node_name",
        "node_status",
        "pod",
        "preemptable",
        "priority",
        "request",
        "revocable_zone",
        "role",
        "status",
        "uid",
    )

    def __init__(self, pod: Pod, request: Resource) -> None:
        annotations, labels = pod.annotations, pod.labels
        group = annotations.get(GROUP_ANNOTATION)
        self.pod = self._plain = pod
        self.annotations: Mapping[str, str] = {}
        self.uid = pod.uid
        self.name = pod.name
        self.namespace = pod.namespace
        self.key = pod.key
        self.job = f"{pod.namespace}/{group}" if group else ""
        self.role = annotations.get(TASK_SPEC) or labels.get(TASK_SPEC) or ""
        self.request = request
        self.best_effort = request.is_empty
        self.status: Status = pod_status(pod)
        self.node_name = pod.node_name
        self.node_status: Status | None = None
        self.evicted = False
        self.last: Transaction | None = None
        self.priority = _priority(pod)
        preemptable = annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE))
        self.preemptable = preemptable is None or parse_bool(preemptable) is True
        self.revocable_zone = revocable_zone(annotations)
        self.gated = bool(pod.spec.scheduling_gates)
        self.index = pod_index(pod.name)
        created = pod.metadata.creation_timestamp
        self.created = parse_time(created) if created else 0.0

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Set the annotations that the pod gets when it is bound; an empty mapping removes them."""
        self.annotations = annotations
        self.pod = self._plain
        if annotations:
            metadata = self.pod.metadata
            whole = {**metadata.annotations, **annotations}
            self.pod = msgspec.structs.replace(self.pod, metadata=msgspec.structs.replace(metadata, annotations=whole))

    @property
    def outcome(self) -> Transaction:
        """Its last status and node, even if they were rolled back."""
        return self.last or Transaction(self.status, self.node_name, self.evicted)

    def save_outcome(self) -> None:
        """Save its status and node before they are rolled back."""
        self.last = Transaction(self.status, self.node_name, self.evicted)

    def __repr__(self) -> str:
        return f"TaskInfo({self.key} {self.status} {self.node_name})"


def pod_status(pod: Pod) -> Status:
    """Return a pod's phase as a task's status."""
    phase = pod.status.phase
    if phase == RUNNING:
        return RELEASING if pod.is_terminating else RUNNING
    if phase == PENDING:
        if pod.is_terminating:
            return RELEASING
        return BOUND if pod.node_name else PENDING
    if phase == SUCCEEDED:
        return SUCCEEDED
    return FAILED if phase == FAILED else UNKNOWN


def task_status(pod: Pod, *, assumed: bool, evicting: bool) -> Status:
    """Return the status of a pod's task, given whether its bind or its eviction is in flight."""
    if assumed:
        return BINDING
    status = pod_status(pod)
    return RELEASING if evicting and status in EVICTABLE else status


def pod_index(name: str) -> int | None:
    """Return the number at the end of a name such as job-worker-3."""
    parts = name.split("-")
    if len(parts) < 3:
        return None
    last = parts[-1]
    digits = last[1:] if last[:1] == "+" else last
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else None


def precedes(left: TaskInfo, right: TaskInfo) -> bool:
    """Return whether the left task comes first if all plugins rate them equal: by index, then by age, then by uid."""
    if left.index is None or right.index is None or left.index == right.index:
        return left.uid < right.uid if left.created == right.created else left.created < right.created
    return left.index < right.index


def parse_bool(text: str) -> bool | None:
    """Parse a boolean as Go does; None if it is invalid."""
    return True if text in _TRUE else False if text in _FALSE else None


def revocable_zone(annotations: dict[str, str]) -> str:
    """Return ``*`` if the task may run on revocable nodes, else an empty string."""
    zone = annotations.get(REVOCABLE_ZONE)
    if zone is not None:
        return zone if zone == "*" else ""
    return "*" if parse_bool(annotations.get(PREEMPTABLE, "")) else ""


def has_only_queue_gate(pod: Pod) -> bool:
    """Return whether Volcano's own gate is the pod's only scheduling gate."""
    gates = pod.spec.scheduling_gates
    return len(gates) == 1 and gates[0].name == QUEUE_GATE


def wants_queue_gate(pod: Pod) -> bool:
    """Return whether a pod requests Volcano's own gate."""
    return pod.annotations.get(QUEUE_GATE) == "true"


def without_gates(pod: Pod) -> Pod:
    """Return the pod without its scheduling gates."""
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=()))


def _priority(pod: Pod) -> int:
    text = pod.annotations.get(TASK_PRIORITY)
    if text is not None:
        digits = text[1:] if text[:1] in ("+", "-") else text
        if digits.isascii() and digits.isdigit() and len(digits) < 12 and -_INT32 <= int(text) < _INT32:
            return int(text)
    return 1 if pod.spec.priority is None else pod.spec.priority
