"""The gangs and queues at the end of a simulation, and the reasons why gangs wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from mooring.api.quantity import QuantityLike
from mooring.api.volcano import PodGroup
from mooring.simulation.outcome import GangOutcome, QueueOutcome, State
from mooring.simulation.scenario import Workload

if TYPE_CHECKING:
    from mooring.simulation.sessions import Sessions

_ROOT: Final = "root"


class Member(NamedTuple):
    """A pod of a gang."""

    workload: Workload | None
    state: State


def gang_outcomes(sessions: Sessions, members: Mapping[str, Sequence[Member]]) -> list[GangOutcome]:
    """Return all PodGroups; ``members`` are their pods by namespace/name."""
    return [_gang(group, members.get(key, ()), sessions) for key, group in sessions.groups().items()]


def _gang(group: PodGroup, members: Sequence[Member], sessions: Sessions) -> GangOutcome:
    queue = group.spec.queue or sessions.settings.default_queue
    placed = sum(member.state in (State.PLACED, State.RUNNING) for member in members)
    owned = any(owner.controller for owner in group.metadata.owner_references)
    return GangOutcome(
        namespace=group.namespace,
        name=group.name,
        workload=members[0].workload if owned and members else None,
        queue=queue,
        phase=group.status.phase or "Pending",
        min_member=group.spec.min_member,
        pods=len(members),
        placed=placed,
        message="" if members and placed == len(members) else _why(group, queue, len(members), sessions),
    )


def _why(group: PodGroup, queue: str, pods: int, sessions: Sessions) -> str:
    """Return why pods of a gang wait: the queue's state, the note of the last session, or the group's condition."""
    found = sessions.queues().get(queue)
    if found is None:
        return f"there is no queue {queue}"
    if found.status.state not in ("", "Open"):
        return f"queue {queue} is {found.status.state.lower()}"
    if note := sessions.notes.get(group.key):
        return f"not admitted to queue {queue}: {note}"
    if pods < group.spec.min_member:
        return f"it has {pods} pods, and at least {group.spec.min_member} must start together"
    stuck = [each for each in group.status.conditions if each.type == "Unschedulable" and each.status == "True"]
    return stuck[-1].message if stuck else ""


def queue_outcomes(sessions: Sessions, gangs: Sequence[GangOutcome]) -> list[QueueOutcome]:
    """Return all queues."""
    return [
        QueueOutcome(
            name=name,
            parent="" if name == _ROOT else queue.spec.parent or _ROOT,
            weight=queue.spec.weight,
            allocated=_quantities(queue.status.allocated),
            deserved=sessions.deserved.get(name, {}),
            capability=_quantities(queue.spec.capability),
            share=sessions.shares.get(name, 0.0),
            gangs=sum(gang.queue == name for gang in gangs),
            waiting=sum(gang.queue == name and gang.waits for gang in gangs),
        )
        for name, queue in sessions.queues().items()
    ]


def _quantities(amounts: Mapping[str, QuantityLike]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}
