"""Why a gang waits, as parts of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mooring.api.quantity import format_quantity
from mooring.simulate.report import Column, Grid, Listing, Part

if TYPE_CHECKING:
    from mooring.controllers.gang_explanation import GangExplanation, Room

_GATES = {
    "job": "the job itself",
    "queue": "the queue",
    "quota": "the quota of the queue",
    "gang": "the gang",
    "nodes": "the nodes",
}


def why_parts(why: GangExplanation | None) -> list[Part]:
    """What holds a gang back, and the numbers."""
    if why is None:
        return ["It does not wait."]
    parts: list[Part] = [f"It waits at {_GATES[why.gate]} (gate {why.gate}): {why.text}"]
    if why.members or why.min_member:
        there = ", ".join(f"{count} {phase}" for phase, count in sorted(why.members.items())) or "none yet"
        parts.append(f"Pods: {there}; at least {why.min_member} start together.")
    if why.room:
        right = tuple(Column(title, "right") for title in ("needs", "queue has", "deserves", "at most", "nodes have"))
        rows = [
            (
                room.resource,
                *(
                    shown(room.resource, each)
                    for each in (room.needed, room.allocated, room.deserved, room.capability, room.cluster)
                ),
            )
            for room in why.room
        ]
        parts.append(Grid("Room", (Column("Resource"), *right), list(rows), footer=_short(why.room)))
    if why.reasons:
        items = [(f"{count} pods", reason) for reason, count in sorted(why.reasons.items(), key=lambda each: -each[1])]
        parts.append(Listing("What was said about the pods", items))
    return parts


def _short(rooms: tuple[Room, ...]) -> str:
    names = [room.resource for room in rooms if room.is_short]
    return f"Too little {', '.join(names)} for it beside what the queue has." if names else ""


def shown(resource: str, amount: int | None) -> str:
    """An amount as people write it."""
    if amount is None:
        return "-"
    return format_quantity(amount, binary=resource in {"memory", "ephemeral-storage"}, milli=resource == "cpu")
