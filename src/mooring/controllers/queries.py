"""Reads from a cluster what people ask about queues and jobs, and writes what they command."""

from __future__ import annotations

from typing import Any

from mooring.api.events import Event
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.volcano import GROUP_ANNOTATION, PodGroup, Queue
from mooring.api.volcano_jobs import COMMAND_VERSION, Command, VolcanoJob
from mooring.controllers.gang_explanation import Facts
from mooring.controllers.jobs.documents import group_name
from mooring.kube import Client, Forbidden, NotFound, resource_of


async def facts_of_job(client: Client, namespace: str, name: str) -> Facts:
    """What is known about a job. Raises NotFound where there is none."""
    job = await client.get(VolcanoJob, name, namespace=namespace)
    return await _facts(client, namespace, group_name(job), job)


async def facts_of_pod(client: Client, namespace: str, name: str) -> Facts | None:
    """What is known about the gang of a pod; None if the pod is in no group. Raises NotFound."""
    pod = await client.get(Pod, name, namespace=namespace)
    group = pod.annotations.get(GROUP_ANNOTATION)
    return None if not group else await _facts(client, namespace, group, None)


async def _facts(client: Client, namespace: str, group: str, job: VolcanoJob | None) -> Facts:
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
    """What was said about an object, the latest last; nothing where one may not look."""
    try:
        found = (await client.list(Event, namespace=namespace)).items
    except Forbidden:
        return []

    def last(event: Event) -> str:
        return (event.series.last_observed_time if event.series is not None else None) or event.event_time or ""

    return sorted((each for each in found if each.regarding.name == name), key=last)


async def command(client: Client, target: VolcanoJob | Queue, action: str) -> None:
    """Ask the controllers to do something to a job or a queue."""
    place = resource_of(type(target))
    reference = {
        "apiVersion": place.api_version,
        "kind": place.kind,
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
