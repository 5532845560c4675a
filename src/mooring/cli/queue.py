"""`mooring queue`: create, list, show, open, close and delete queues, as vcctl does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mooring.cli.cluster_access import ClusterChoice, on_cluster
from mooring.cli.options import LIST_FORMATS, VIEW_FORMATS, cluster_options, named, output_option, watch_option

if TYPE_CHECKING:
    from mooring.api.volcano import PodGroup, Queue
    from mooring.cli.object_list import ObjectList
    from mooring.kube import Client
    from mooring.simulation.report import Part

_PHASES = ("Inqueue", "Pending", "Running", "Unknown", "Completed")
#: Queues that the controller creates.
_STANDING = ("root", "default")
#: The order in which columns are omitted on a narrow terminal.
_RANKS = {"Unknown": 7, "Completed": 6, "Weight": 5, "Parent": 4, "Memory": 3, "CPU": 2, "Inqueue": 1}


@click.group()
def queue() -> None:
    """Create, list, show, open, close and delete queues."""


_queue_argument = named("name", "NAME", "-n")


@queue.command("list")
@cluster_options
@output_option(*LIST_FORMATS)
@watch_option
def list_(choice: ClusterChoice, output: str, watch: bool) -> None:
    """List all queues with the number of pod groups in each phase."""
    from mooring.api.volcano import PodGroup, Queue
    from mooring.cli.object_list import print_cluster_list

    print_cluster_list(choice, (Queue, PodGroup), lambda read: _queue_list(*read), output, watch=watch)


def _queue_list(queues: list[Queue], groups: list[PodGroup]) -> ObjectList:
    from mooring.cli.object_list import Item, ObjectList
    from mooring.cli.output import columns

    titles = ("Name", "Weight", "State", "Parent", *_PHASES, "CPU", "Memory")
    items = []
    for each in sorted(queues, key=lambda each: each.name):
        value = _summary(each, groups)
        items.append(Item(each.name, f"queue.scheduling.volcano.sh/{each.name}", value, _cells(value), value))
    return ObjectList("Queues", columns(titles, right={"Weight", *_PHASES, "CPU", "Memory"}, ranks=_RANKS), items)


def _cells(queue: dict[str, Any]) -> tuple[str, ...]:
    counts = [str(queue["groups"][phase]) for phase in _PHASES]
    used = [str(queue["allocated"].get(name, "0")) for name in ("cpu", "memory")]
    return queue["name"], str(queue["weight"]), queue["state"] or "-", queue["parent"] or "-", *counts, *used


@queue.command()
@_queue_argument
@cluster_options
@output_option(*VIEW_FORMATS)
def get(name: str, choice: ClusterChoice, output: str) -> None:
    """Show one queue: its limits, its allocated resources, and the pod groups that are waiting in it."""
    from mooring.cli.output import print_result

    queues, groups = on_cluster(choice, _read)
    found = next((each for each in queues if each.name == name), None)
    if found is None:
        existing = ", ".join(each.name for each in queues) or "none"
        raise click.ClickException(f"there is no queue {name}; there are: {existing}")
    print_result(_summary(found, groups), output, lambda: _details(found, groups))


def _details(queue: Queue, groups: list[PodGroup]) -> list[Part]:
    from mooring.api.resources import amount
    from mooring.cli.explanation_tables import optional_amount
    from mooring.cli.output import table
    from mooring.controllers.gang_explanation import is_waiting
    from mooring.simulation.report import Listing

    spec, status = queue.spec, queue.status
    counts = _summary(queue, groups)["groups"]
    head = f"Queue {queue.name}: {status.state or 'no state yet'}, weight {spec.weight}, parent {spec.parent or '-'}"
    reclaimable = "not reclaimable" if spec.reclaimable is False else "other queues can reclaim what exceeds its share"
    parts: list[Part] = [f"{head}; {reclaimable}."]
    parts.append("Pod groups: " + ", ".join(f"{count} {phase}" for phase, count in counts.items()))
    lists = (status.allocated, spec.guarantee.resource, spec.deserved, spec.capability)
    names = sorted({name for each in lists for name in each})
    if names:
        rows = [
            (name, *(optional_amount(name, amount(name, each[name]) if name in each else None) for each in lists))
            for name in names
        ]
        amounts = ("Allocated", "Guaranteed", "Deserved", "Capability")
        parts.append(table("Resources", ("Resource", *amounts), rows, right=amounts))
    waiting = [each for each in groups if _queue_of(each) == queue.name and is_waiting(each)]
    if waiting:
        items = [(f"{each.key} ({each.status.phase or 'Pending'})", _waiting_reason(each)) for each in waiting[:20]]
        parts.append(Listing(f"Waiting ({len(waiting)})", items))
    return parts


def _waiting_reason(group: PodGroup) -> str:
    found = [each.message for each in group.status.conditions if each.status == "True" and each.type != "Scheduled"]
    if not found and group.status.phase in {"", "Pending"}:
        return "not admitted yet; run `mooring explain job` for the reason"
    return found[-1] if found else "no decision yet"


@queue.command("open")
@_queue_argument
@cluster_options
def open_(name: str, choice: ClusterChoice) -> None:
    """Open a queue: it accepts jobs again."""
    _open_or_close(choice, name, "open")


@queue.command()
@_queue_argument
@cluster_options
def close(name: str, choice: ClusterChoice) -> None:
    """Close a queue: it accepts no new jobs, and running jobs continue."""
    _open_or_close(choice, name, "close")


@queue.command()
@_queue_argument
@click.option(
    "-a",
    "--action",
    required=True,
    type=click.Choice(("open", "close", "update")),
    help="What to do; update sets the weight.",
)
@click.option("-w", "--weight", type=click.IntRange(1, 65535), help="The weight that update sets.")
@cluster_options
def operate(name: str, action: str, weight: int | None, choice: ClusterChoice) -> None:
    """Open, close or update a queue, as `vcctl queue operate` does."""
    if (action == "update") == (weight is None):
        raise click.UsageError("--weight belongs to --action update, which needs it.")
    if weight is not None:
        on_cluster(choice, lambda client: _set_weight(client, name, weight))
        click.echo(f"queue {name}: the weight is {weight}")
    else:
        _open_or_close(choice, name, action)


@queue.command()
@_queue_argument
@click.option(
    "-w", "--weight", default=1, show_default=True, type=click.IntRange(1, 65535), help="Weight of the queue."
)
@click.option("--parent", default="", help="Parent queue. By default root.")
@cluster_options
def create(name: str, weight: int, parent: str, choice: ClusterChoice) -> None:
    """Create a queue."""
    from mooring.api.meta import ObjectMeta
    from mooring.api.volcano import Queue, QueueSpec
    from mooring.kube import AlreadyExists

    made = Queue(metadata=ObjectMeta(name=name), spec=QueueSpec(weight=weight, parent=parent))

    async def send(client: Client) -> None:
        try:
            await client.create(made)
        except AlreadyExists:
            raise click.ClickException(f"there is a queue {name} already") from None

    on_cluster(choice, send)
    click.echo(f"queue {name}: created")


@queue.command()
@_queue_argument
@cluster_options
def delete(name: str, choice: ClusterChoice) -> None:
    """Delete a queue that has no child queues and no pod groups."""
    from mooring.api.volcano import Queue
    from mooring.kube import NotFound

    if name in _STANDING:
        raise click.ClickException(f"the {name} queue cannot be deleted")

    async def send(client: Client) -> None:
        queues, groups = await _read(client)
        children = [each.name for each in queues if each.spec.parent == name]
        inside = [each.key for each in groups if _queue_of(each) == name]
        if children or inside:
            what = f"child queues: {', '.join(children)}" if children else f"pod groups: {', '.join(inside[:5])}"
            raise click.ClickException(f"queue {name} cannot be deleted: it has {what}")
        try:
            await client.delete(Queue, name)
        except NotFound:
            raise click.ClickException(f"there is no queue {name}") from None

    on_cluster(choice, send)
    click.echo(f"queue {name}: deleted")


def _open_or_close(choice: ClusterChoice, name: str, verb: str) -> None:
    from mooring.api.volcano import Queue
    from mooring.controllers.commands import create_command
    from mooring.kube import NotFound

    if verb == "close" and name == "root":
        raise click.ClickException("the root queue cannot be closed: close the queues below it")
    action = f"{verb.capitalize()}Queue"

    async def send(client: Client) -> str:
        try:
            found = await client.get(Queue, name)
        except NotFound:
            raise click.ClickException(f"there is no queue {name}") from None
        await create_command(client, found, action)
        return found.status.state

    state = on_cluster(choice, send)
    click.echo(f"queue {name}: {action} requested; the current state is {state or 'not set yet'}")


async def _set_weight(client: Client, name: str, weight: int) -> None:
    from mooring.api.volcano import Queue
    from mooring.kube import NotFound

    try:
        await client.patch(Queue, name, {"spec": {"weight": weight}})
    except NotFound:
        raise click.ClickException(f"there is no queue {name}") from None


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
