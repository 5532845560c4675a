"""Why a gang waits: which gate holds it back (job, queue, quota, gang or nodes), and by what numbers.

A gang passes them in this order: its job must be right and have a group, its queue must exist and be open, there must
be room for its least needs in the queue (its quota), and then enough of its pods must fit on nodes at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.resources import amount, amounts
from mooring.api.volcano import Amounts, PodGroup, Queue
from mooring.api.volcano_jobs import VolcanoJob
from mooring.controllers.names import COMPLETED, INQUEUE, PENDING, RUNNING

Gate = Literal["job", "queue", "quota", "gang", "nodes"]
#: How a scheduler says that the queue has no room.
_QUOTA = ("quota", "overcommit", "insufficient")
#: How a scheduler says that a pod fits on no node.
_UNAVAILABLE = ("nodes are available", "nodes are unavailable")


class Room(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One resource: what the gang needs at least, what its queue has and may have, and what the nodes have."""

    resource: str
    needed: int
    allocated: int = 0
    deserved: int | None = None
    capability: int | None = None
    cluster: int = 0

    @property
    def is_short(self) -> bool:
        """Whether the queue's limit, or the whole cluster, is too small."""
        limit = self.cluster if self.capability is None else min(self.capability, self.cluster)
        return self.needed + self.allocated > limit


class Why(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What holds a gang back."""

    gate: Gate
    text: str
    #: Members by what they do, and how many must start together.
    members: dict[str, int] = {}
    min_member: int = 0
    room: tuple[Room, ...] = ()
    #: What schedulers said about its pods -> about how many.
    reasons: dict[str, int] = {}


class Facts(msgspec.Struct, frozen=True):
    """What is known about a gang."""

    group: PodGroup | None
    job: VolcanoJob | None = None
    queues: Mapping[str, Queue] = {}
    pods: Sequence[Pod] = ()
    nodes: Sequence[Node] = ()
    #: What schedulers said about the group, the latest last.
    notes: Sequence[str] = ()


def why_waiting(facts: Facts) -> Why | None:
    """What holds a gang back; None if it runs or is over."""
    group, job = facts.group, facts.job
    if job is not None and job.status.state.message and not job.status.conditions:
        return Why("job", job.status.state.message)
    if job is not None and job.status.state.phase in {"Aborting", "Aborted"}:
        return Why("job", "it is suspended; `mooring job resume` goes on with it")
    if job is not None and job.status.state.phase not in {"", PENDING, "Restarting"}:
        return None
    if group is None:
        return Why("job", "it has no PodGroup yet: does `mooring controller` run?")
    if group.status.phase in {RUNNING, COMPLETED}:
        return None
    found = _at_queue(facts, group)
    if found is None:
        found = _at_nodes(facts, group) if group.status.phase not in {"", PENDING} else _at_quota(facts, group)
    return msgspec.structs.replace(
        found,
        members=dict(_members(facts.pods)),
        min_member=group.spec.min_member,
        room=tuple(_room(facts, group)),
        reasons=dict(_reasons(facts.pods)),
    )


def _at_queue(facts: Facts, group: PodGroup) -> Why | None:
    name = group.spec.queue or "default"
    queue = facts.queues.get(name)
    if queue is None:
        return Why("queue", f"there is no queue {name}")
    if queue.status.state in {"Closed", "Closing"}:
        return Why("queue", f"queue {name} is {queue.status.state.lower()}: `mooring queue open {name}` opens it")
    return None


def _at_quota(facts: Facts, group: PodGroup) -> Why:
    """The group was not admitted yet."""
    name = group.spec.queue or "default"
    said = next((note for note in reversed(facts.notes) if any(word in note.lower() for word in _QUOTA)), "")
    short = [room.resource for room in _room(facts, group) if room.is_short]
    if said or short:
        text = said or f"queue {name} has too little room: {', '.join(short)}"
        return Why("quota", f"not admitted to queue {name}: {text}")
    return Why("queue", f"it waits to be admitted to queue {name}: does a scheduler for its pods run?")


def _at_nodes(facts: Facts, group: PodGroup) -> Why:
    """The group was admitted, and not enough of its pods can start."""
    members, least = _members(facts.pods), group.spec.min_member
    there = sum(members.values())
    if there < least:
        return Why("gang", f"only {there} of at least {least} pods exist: the others have not been made yet")
    condition = next((c for c in group.status.conditions if c.type == "Unschedulable" and c.status == "True"), None)
    text = condition.message if condition is not None else "no session has decided about it yet"
    on_nodes = any(sign in said for said in (text, *_reasons(facts.pods)) for sign in _UNAVAILABLE)
    return Why("nodes" if on_nodes else "gang", text)


def _members(pods: Iterable[Pod]) -> Counter[str]:
    """Pods by what they do; those that have a node but do not run yet are bound."""
    return Counter(
        "Bound" if pod.node_name and pod.status.phase == PENDING else pod.status.phase or PENDING for pod in pods
    )


def _reasons(pods: Iterable[Pod]) -> Counter[str]:
    found: Counter[str] = Counter()
    for pod in pods:
        condition = pod.condition("PodScheduled")
        if not pod.node_name and condition is not None and condition.status == "False" and condition.message:
            # "Pod ns/name can possibly be ..." is one reason for all of them.
            found[condition.message.replace(f"Pod {pod.namespace}/{pod.name} ", "The pod ")] += 1
    return found


def _room(facts: Facts, group: PodGroup) -> Iterable[Room]:
    queue = facts.queues.get(group.spec.queue or "default")
    total: Counter[str] = Counter()
    for node in facts.nodes:
        total.update(amounts(node.status.allocatable))
    for name, quantity in (group.spec.min_resources or {}).items():
        if name in total:
            held = {} if queue is None else queue.status.allocated
            yield Room(
                resource=name,
                needed=amount(name, quantity),
                allocated=amount(name, held.get(name, 0)),
                deserved=None if queue is None else _optional(queue.spec.deserved, name),
                capability=None if queue is None else _optional(queue.spec.capability, name),
                cluster=total[name],
            )


def _optional(found: Amounts, name: str) -> int | None:
    return amount(name, found[name]) if name in found else None


def is_waiting(group: PodGroup) -> bool:
    """Whether a group has not started."""
    return group.status.phase in {"", PENDING, INQUEUE}
