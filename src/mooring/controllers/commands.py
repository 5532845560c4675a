"""Commands to jobs and queues, each carried out once at most: who could delete it carries it out."""

from __future__ import annotations

from mooring.api.volcano_jobs import Command
from mooring.controllers.reconciler import View
from mooring.kube import Client, Conflict, NotFound


def commands_for(view: View, kind: str, name: str, namespace: str = "") -> list[Command]:
    """What is asked of an object, the oldest first; queues are asked in any namespace."""
    found = [
        each
        for each in view.all(Command).values()
        if each.target.kind == kind and each.target.name == name and namespace in {"", each.namespace}
    ]
    return sorted(found, key=lambda each: (each.metadata.creation_timestamp or "", each.name))


async def take(client: Client, command: Command) -> bool:
    """Delete a command; False where somebody else has."""
    try:
        await client.delete(Command, command.name, namespace=command.namespace, uid=command.uid)
    except (NotFound, Conflict):
        return False
    return True
