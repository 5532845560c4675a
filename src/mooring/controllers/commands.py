"""Commands (bus.volcano.sh) for jobs and queues: creating them, and consuming each at most once."""

from __future__ import annotations

from typing import Any

from mooring.api.volcano import Queue
from mooring.api.volcano_jobs import COMMAND_VERSION, Command, VolcanoJob
from mooring.controllers.reconciler import ObjectCache
from mooring.kube import Client, Conflict, NotFound, resource_of


def pending_commands(cache: ObjectCache, kind: str, name: str, namespace: str = "") -> list[Command]:
    """Return the commands for an object, oldest first. Commands for queues may be in any namespace."""
    found = [
        each
        for each in cache.all(Command).values()
        if each.target.kind == kind and each.target.name == name and namespace in {"", each.namespace}
    ]
    return sorted(found, key=lambda each: (each.metadata.creation_timestamp or "", each.name))


async def consume_command(client: Client, command: Command) -> bool:
    """Delete a command before it is executed. Return False if another process deleted it first."""
    try:
        await client.delete(Command, command.name, namespace=command.namespace, uid=command.uid)
    except (NotFound, Conflict):
        return False
    return True


async def create_command(client: Client, target: VolcanoJob | Queue, action: str) -> None:
    """Create a command for a job or a queue."""
    resource = resource_of(type(target))
    reference = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": target.name,
        "uid": target.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    namespace = target.namespace or "default"
    document: dict[str, Any] = {
        "apiVersion": COMMAND_VERSION,
        "kind": "Command",
        "metadata": {
            "generateName": f"{target.name}-{action.lower()}-",
            "namespace": namespace,
            "ownerReferences": [reference],
        },
        "action": action,
        "target": reference,
    }
    await client.send("POST", resource_of(Command).path(namespace=namespace), document)
