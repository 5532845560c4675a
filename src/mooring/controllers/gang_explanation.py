"""Explains why a gang is waiting: at which gate (job, queue, quota, gang or nodes), and with which numbers.

The gates in order: the job must be valid and have a PodGroup, its queue must exist and be open, the queue must have
room for `minResources` (quota), and `minMember` pods must fit on nodes at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal

import msgspec

from mooring.api.events import Event
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.resources import amount, amounts
from mooring.api.volcano import GROUP_ANNOTATION, QUEUE_GATE, Amounts, PodGroup, Queue
from mooring.api.volcano_jobs import VolcanoJob
from mooring.batch.task import has_only_queue_gate
from mooring.controllers.constants import COMPLETED, INQUEUE, PENDING, RUNNING
from mooring.controllers.jobs.job_objects import group_name
from mooring.kube import Client, Forbidden, NotFound

Gate = Literal["job", "queue", "quota", "gang", "nodes"]
#: The session plugins that enforce the capability of queues.
ENFORCERS: Final = ("proportion", "capacity")
#: Words in a scheduler's event that indicate a queue without room.
_QUOTA_WORDS = ("quota", "overcommit", "insufficient")
#: Words in a scheduler's message that indicate a pod without a feasible node.
_UNAVAILABLE_WORDS = ("nodes are available", "nodes are unavailable")


class Room(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One resource: the need of the gang, the allocation and the capability of its queue, and the nodes' capacity."""

    resource: str
    needed: int
    allocated: int = 0
    deserved: int | None = None
    capability: int | None = None
    cluster: int = 0

    @property
    def exceeds_cluster(self) -> bool:
        """Whether the cluster is too small for the queue with the gang."""
        return self.needed + self.allocated > self.cluster

    @property
    def exceeds_capability(self) -> bool:
        """Whether the queue's capability is too small."""
        return self.capability is not None and self.needed + self.allocated > self.capability


class GangExplanation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The explanation why a gang is waiting."""

    gate: Gate
    text: str
    #: The number of pods by phase, and how many must start together.
    members: dict[str, int] = {}
    min_member: int = 0
    room: tuple[Room, ...] = ()
    #: An explanation of the amounts.
    remark: str = ""
    #: Message of a pod's PodScheduled condition -> number of pods.
    reasons: dict[str, int] = {}


class Facts(msgspec.Struct, frozen=True):
    """The objects that an explanation is based on."""

    group: PodGroup | None
    job: VolcanoJob | None = None
    queues: Mapping[str, Queue] = {}
    pods: Sequence[Pod] = ()
    nodes: Sequence[Node] = ()
    #: The notes of events about the PodGroup, latest last.
    notes: Sequence[str] = ()
    #: Whether a plugin of the sessions enforces the capability of queues; None if that is unknown.
    enforces_capability: bool | None = None


def explain_gang(facts: Facts) -> GangExplanation | None:
    """Explain why a gang, or some of its pods, are waiting. Return None if it runs or has finished."""
    group, job = facts.group, facts.job
    if job is not None and job.status.state.message and not job.status.conditions:
        return GangExplanation("job", job.status.state.message)
    if job is not None and job.status.state.phase in {"Aborting", "Aborted"}:
        return GangExplanation("job", "it is suspended; resume it with `mooring job resume`")
    runs = job is not None and job.status.state.phase not in {"", PENDING, "Restarting"}
    if group is None:
        return None if runs else GangExplanation("job", "it has no PodGroup yet: is `mooring controller` running?")
    found = _at_scheduling_gate(facts, group)
    if runs or group.status.phase in {RUNNING, COMPLETED}:
        if found is None:
            return None
    elif (closed := _at_queue(facts, group)) is not None:
        found = closed
    elif group.status.phase in {"", PENDING}:
        found = _at_quota(facts, group)
    elif found is None:
        found = _at_nodes(facts, group)
    room = tuple(_room(facts, group))
    return msgspec.structs.replace(
        found,
        members=dict(_members(facts.pods)),
        min_member=group.spec.min_member,
        room=room,
        remark=_remark(found.gate, room, facts.enforces_capability),
        reasons=dict(_reasons(facts.pods)),
    )


def _at_queue(facts: Facts, group: PodGroup) -> GangExplanation | None:
    name = group.spec.queue or "default"
    queue = facts.queues.get(name)
    if queue is None:
        return GangExplanation("queue", f"there is no queue {name}")
    if queue.status.state in {"Closed", "Closing"}:
        return GangExplanation(
            "queue", f"queue {name} is {queue.status.state.lower()}: `mooring queue open {name}` opens it"
        )
    return None


def _at_scheduling_gate(facts: Facts, group: PodGroup) -> GangExplanation | None:
    """Explain the pods of a gang that wait for room in their queue behind a scheduling gate."""
    gated = [pod for pod in facts.pods if not pod.node_name and has_only_queue_gate(pod)]
    if not gated:
        return None
    count, name = len(gated), group.spec.queue or "default"
    text = (
        f"{count} of {len(facts.pods)} pods wait behind the scheduling gate {QUEUE_GATE}, until queue {name} has room"
    )
    return GangExplanation("quota", text)


def _at_quota(facts: Facts, group: PodGroup) -> GangExplanation:
    """Explain a gang that is not admitted to its queue."""
    name = group.spec.queue or "default"
    note = next((note for note in reversed(facts.notes) if any(word in note.lower() for word in _QUOTA_WORDS)), "")
    short = _short(facts, group)
    if note or short:
        text = note or f"queue {name} has too little room: {', '.join(short)}"
        return GangExplanation("quota", f"not admitted to queue {name}: {text}")
    return GangExplanation(
        "queue", f"it is waiting to be admitted to queue {name}: is a scheduler for its pods running?"
    )


def _at_nodes(facts: Facts, group: PodGroup) -> GangExplanation:
    """Explain a gang that is admitted, of which too few pods can start."""
    existing, least = _members(facts.pods).total(), group.spec.min_member
    if existing < least:
        return GangExplanation(
            "gang", f"only {existing} of at least {least} pods exist: the others have not been created yet"
        )
    condition = next((c for c in group.status.conditions if c.type == "Unschedulable" and c.status == "True"), None)
    text = condition.message if condition is not None else "no session has considered it yet"
    messages = (text, *_reasons(facts.pods))
    if any(words in message for message in messages for words in _UNAVAILABLE_WORDS):
        return GangExplanation("nodes", text)
    if facts.enforces_capability and (short := _short(facts, group)):
        name = group.spec.queue or "default"
        return GangExplanation("quota", f"queue {name} has too little room: {', '.join(short)} ({text})")
    return GangExplanation("gang", text)


def _short(facts: Facts, group: PodGroup) -> list[str]:
    """Return the resources that are insufficient for the gang, by the queue's capability or the cluster's size."""
    limited = facts.enforces_capability is not False
    rooms = _room(facts, group)
    return [room.resource for room in rooms if room.exceeds_cluster or (limited and room.exceeds_capability)]


def _remark(gate: Gate, rooms: Sequence[Room], enforced: bool | None) -> str:
    """Explain the amounts without contradicting the gate."""
    # At the nodes gate the queue has admitted the pods, so its capability does not block them.
    limited = enforced is not False and gate != "nodes"
    short = [room.resource for room in rooms if room.exceeds_cluster or (limited and room.exceeds_capability)]
    remarks = []
    if short:
        remarks.append(f"Insufficient {', '.join(short)} in addition to what the queue has allocated.")
    if enforced is False and any(room.capability is not None for room in rooms):
        remarks.append(f"No configured plugin enforces the capability; {' and '.join(ENFORCERS)} do.")
    elif enforced is None and limited and any(room.exceeds_capability for room in rooms):
        remarks.append(f"The capability counts only if {' or '.join(ENFORCERS)} is configured.")
    return " ".join(remarks)


def _members(pods: Iterable[Pod]) -> Counter[str]:
    """Count pods by phase. A pending pod that has a node counts as Bound."""
    return Counter(
        "Bound" if pod.node_name and pod.status.phase == PENDING else pod.status.phase or PENDING for pod in pods
    )


def _reasons(pods: Iterable[Pod]) -> Counter[str]:
    found: Counter[str] = Counter()
    for pod in pods:
        condition = pod.condition("PodScheduled")
        if not pod.node_name and condition is not None and condition.status == "False" and condition.message:
            # Without its name, "Pod ns/name can possibly be ..." is the same message for all pods.
            found[condition.message.replace(f"Pod {pod.namespace}/{pod.name} ", "The pod ")] += 1
    return found


def _room(facts: Facts, group: PodGroup) -> Iterable[Room]:
    queue = facts.queues.get(group.spec.queue or "default")
    total: Counter[str] = Counter()
    for node in facts.nodes:
        total.update(amounts(node.status.allocatable))
    for name, quantity in (group.spec.min_resources or {}).items():
        if name in total:
            allocated = {} if queue is None else queue.status.allocated
            yield Room(
                resource=name,
                needed=amount(name, quantity),
                allocated=amount(name, allocated.get(name, 0)),
                deserved=None if queue is None else _optional(queue.spec.deserved, name),
                capability=None if queue is None else _optional(queue.spec.capability, name),
                cluster=total[name],
            )


def _optional(found: Amounts, name: str) -> int | None:
    return amount(name, found[name]) if name in found else None


def is_waiting(group: PodGroup) -> bool:
    """Return whether a PodGroup has not started."""
    return group.status.phase in {"", PENDING, INQUEUE}


async def gang_facts_of_job(client: Client, namespace: str, name: str) -> Facts:
    """Read the facts about a job's gang. Raises NotFound if the job does not exist."""
    job = await client.get(VolcanoJob, name, namespace=namespace)
    return await gang_facts(client, namespace, group_name(job), job)


async def gang_facts_of_pod(client: Client, namespace: str, name: str) -> Facts | None:
    """Read the facts about a pod's gang. Return None if the pod has no PodGroup. Raises NotFound."""
    pod = await client.get(Pod, name, namespace=namespace)
    group = pod.annotations.get(GROUP_ANNOTATION)
    return None if not group else await gang_facts(client, namespace, group)


async def gang_facts(client: Client, namespace: str, group: str, job: VolcanoJob | None = None) -> Facts:
    """Read the facts about a PodGroup."""
    try:
        found = await client.get(PodGroup, group, namespace=namespace)
    except NotFound:
        found = None
    pods = (await client.list(Pod, namespace=namespace)).items
    return Facts(
        group=found,
        job=job,
        queues={each.name: each for each in (await client.list(Queue)).items},
        pods=[pod for pod in pods if pod.annotations.get(GROUP_ANNOTATION) == group],
        nodes=(await client.list(Node)).items,
        notes=[event.note for event in await events_about(client, namespace, group)],
    )


async def events_about(client: Client, namespace: str, name: str) -> list[Event]:
    """Return the events about an object, latest last; none if reading events is forbidden."""
    try:
        found = (await client.list(Event, namespace=namespace)).items
    except Forbidden:
        return []

    def last_observed(event: Event) -> str:
        return (event.series.last_observed_time if event.series is not None else None) or event.event_time or ""

    return sorted((each for each in found if each.regarding.name == name), key=last_observed)
