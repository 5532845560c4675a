"""`mooring queue`: queues as people see them, opened and closed (as vcctl)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mooring.cli.cluster_access import kubeconfig_option, on_cluster, output_option

if TYPE_CHECKING:
    from mooring.api.volcano import PodGroup, Queue
    from mooring.kube import Client
    from mooring.simulate.report import Part

_PHASES = ("Inqueue", "Pending", "Running", "Unknown", "Completed")


@click.group()
def queue() -> None:
    """Look at queues, open and close them."""


@queue.command("list")
@kubeconfig_option
@output_option
def list_(kubeconfig: str, output: str) -> None:
    """List all queues, with how many groups of pods are in which phase."""
    queues, groups = on_cluster(kubeconfig, _read)
    if output != "table":
        _echo([_summary(each, groups) for each in queues], output)
        return
    from mooring.cli.tables import show
    from mooring.simulate.report import Column, Grid

    titles = ("Weight", "State", "Parent", *_PHASES, "CPU", "Memory")
    rows = []
    for each in queues:
        found = _summary(each, groups)
        counts = [str(found["groups"][phase]) for phase in _PHASES]
        held = [str(found["allocated"].get(name, "0")) for name in ("cpu", "memory")]
        state, parent = found["state"] or "-", found["parent"] or "-"
        rows.append((each.name, str(each.spec.weight), state, parent, *counts, *held))
    columns = (Column("Name"), *(Column(each, "left" if each in {"State", "Parent"} else "right") for each in titles))
    show([Grid("Queues", columns, list(rows))])


@queue.command()
@click.argument("name")
@kubeconfig_option
@output_option
def get(name: str, kubeconfig: str, output: str) -> None:
    """Show one queue: what it may use, what it has, and what waits in it."""
    queues, groups = on_cluster(kubeconfig, _read)
    found = next((each for each in queues if each.name == name), None)
    if found is None:
        known = ", ".join(each.name for each in queues) or "none"
        raise click.ClickException(f"there is no queue {name}; there are: {known}")
    if output != "table":
        _echo(_summary(found, groups), output)
        return
    from mooring.cli.tables import show

    show(_details(found, groups))


def _details(queue: Queue, groups: list[PodGroup]) -> list[Part]:
    from mooring.api.resources import amount
    from mooring.cli.gang_explanation_parts import shown
    from mooring.controllers.gang_explanation import is_waiting
    from mooring.simulate.report import Column, Grid, Listing

    spec, status = queue.spec, queue.status
    counts = _summary(queue, groups)["groups"]
    head = f"Queue {queue.name}: {status.state or 'not opened yet'}, weight {spec.weight}, parent {spec.parent or '-'}"
    kept = "it keeps what it has" if spec.reclaimable is False else "others may take back what exceeds its share"
    parts: list[Part] = [f"{head}; {kept}."]
    parts.append("Groups: " + ", ".join(f"{count} {phase}" for phase, count in counts.items()))
    lists = (status.allocated, spec.guarantee.resource, spec.deserved, spec.capability)
    names = sorted({name for each in lists for name in each})
    if names:
        rows = [
            (name, *(shown(name, amount(name, each[name]) if name in each else None) for each in lists))
            for name in names
        ]
        titles = ("Allocated", "Guaranteed", "Deserved", "Capability")
        columns = (Column("Resource"), *(Column(title, "right") for title in titles))
        parts.append(Grid("Resources", columns, list(rows)))
    waiting = [each for each in groups if _queue_of(each) == queue.name and is_waiting(each)]
    if waiting:
        items = [(f"{each.key} ({each.status.phase or 'Pending'})", _said(each)) for each in waiting[:20]]
        parts.append(Listing(f"Waiting ({len(waiting)})", items))
    return parts


def _said(group: PodGroup) -> str:
    found = [each.message for each in group.status.conditions if each.status == "True" and each.type != "Scheduled"]
    if not found and group.status.phase in {"", "Pending"}:
        return "not admitted yet; `mooring explain job` tells why"
    return found[-1] if found else "not decided about yet"


@queue.command("open")
@click.argument("name")
@kubeconfig_option
def open_(name: str, kubeconfig: str) -> None:
    """Let a queue take jobs again."""
    _command(kubeconfig, name, "OpenQueue")


@queue.command()
@click.argument("name")
@kubeconfig_option
def close(name: str, kubeconfig: str) -> None:
    """Let a queue take no more jobs; what runs goes on to its end."""
    if name == "root":
        raise click.ClickException("the root queue cannot be closed: close the queues below it")
    _command(kubeconfig, name, "CloseQueue")


def _command(kubeconfig: str, name: str, action: str) -> None:
    from mooring.api.volcano import Queue
    from mooring.controllers.commands import create_command
    from mooring.kube import NotFound

    async def ask(client: Client) -> str:
        try:
            found = await client.get(Queue, name)
        except NotFound:
            raise click.ClickException(f"there is no queue {name}") from None
        await create_command(client, found, action)
        return found.status.state

    state = on_cluster(kubeconfig, ask)
    click.echo(f"queue {name}: {action} was asked for; it is {state or 'not opened yet'} now")


async def _read(client: Client) -> tuple[list[Queue], list[PodGroup]]:
    from mooring.api.volcano import PodGroup, Queue

    queues = sorted((await client.list(Queue)).items, key=lambda each: each.name)
    return queues, (await client.list(PodGroup)).items


def _queue_of(group: PodGroup) -> str:
    return group.spec.queue or "default"


def _summary(queue: Queue, groups: list[PodGroup]) -> dict[str, Any]:
    inside = [each.status.phase or "Pending" for each in groups if _queue_of(each) == queue.name]
    spec = queue.spec
    return {
        "name": queue.name,
        "weight": spec.weight,
        "state": queue.status.state,
        "parent": spec.parent,
        "groups": {phase: inside.count(phase) for phase in _PHASES},
        "allocated": dict(queue.status.allocated),
        "guarantee": dict(spec.guarantee.resource),
        "deserved": dict(spec.deserved),
        "capability": dict(spec.capability),
        "reclaimable": spec.reclaimable is not False,
    }


def _echo(value: Any, output: str) -> None:
    from mooring.cli.documents import echo_value

    echo_value(value, output)
