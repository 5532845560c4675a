"""Printing of lists, once or on every change, in the formats table, JSON, YAML and name."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from mooring.cli.cluster_access import ClusterChoice, on_cluster
from mooring.cli.output import Screen, print_json, print_parts, print_result, print_yaml
from mooring.cli.table_layout import Layout, fit
from mooring.simulation.report import Cell, Column, Grid

if TYPE_CHECKING:
    from mooring.api.meta import KubeObject
    from mooring.kube import Client

#: Changes within this time are printed together.
_SETTLE_SECONDS = 0.2


class Item(NamedTuple):
    """An item of a list."""

    #: The key of the item in the list.
    key: str
    #: The output of `-o name`: TYPE/NAME, as in kubectl.
    name: str
    #: The output of `-o json` and `-o yaml`.
    value: Any
    #: The cells of its row.
    cells: tuple[Cell, ...]
    #: The state of the item. With `--watch`, the item is printed again when this changes.
    state: object


class ObjectList(NamedTuple):
    """A list of items, as a table and as values."""

    title: str
    columns: tuple[Column, ...]
    items: Sequence[Item]
    footer: str = ""

    @property
    def grid(self) -> Grid:
        """The list as a table."""
        return Grid(self.title, self.columns, [item.cells for item in self.items], self.footer)


def print_list(found: ObjectList, output: str) -> None:
    """Print a list in an output format."""
    if output == "name":
        for name in dict.fromkeys(item.name for item in found.items):
            click.echo(name)
    else:
        print_result([item.value for item in found.items], output, lambda: [found.grid])


class ChangePrinter:
    """A printer of a list, and then of each item that changes. JSON and YAML are one document per item."""

    def __init__(self, output: str) -> None:
        self._output = output
        self._seen: dict[str, Item] | None = None
        self._layout: Layout | None = None

    def show(self, found: ObjectList) -> None:
        """Print the list on the first call, and the changed items on later calls."""
        before, self._seen = self._seen, {item.key: item for item in found.items}
        if before is None and self._output in ("table", "wide"):
            print_parts([found.grid], wide=self._output == "wide")
            self._layout = fit(found.grid, Screen(sys.stdout).width, wide=self._output == "wide")[1]
        else:
            before = before or {}
            for item in found.items:
                if item.key not in before or before[item.key].state != item.state:
                    self._print(item)
            for key in before.keys() - self._seen.keys():
                if self._layout is not None:
                    click.echo(f"{before[key].name} deleted")
        sys.stdout.flush()

    def _print(self, item: Item) -> None:
        match self._output:
            case "name":
                click.echo(item.name)
            case "json":
                print_json(item.value)
            case "yaml":
                click.echo("---")
                print_yaml([item.value])
            case _:
                assert self._layout is not None
                click.echo("\n".join(self._layout.row(item.cells, Screen(sys.stdout).bar)))


def print_cluster_list(
    choice: ClusterChoice,
    kinds: Sequence[type[KubeObject]],
    make: Callable[[list[list[Any]]], ObjectList],
    output: str,
    *,
    namespace: str | None = None,
    watch: bool = False,
) -> None:
    """Print a list of objects in a cluster. With ``watch``, continue until Ctrl-C.

    ``make`` creates the list from the objects of each kind. ``namespace`` is the namespace of the objects: empty for
    that of the context, None for all.
    """

    async def work(client: Client) -> None:
        where = "" if namespace is None else namespace or client.access.namespace
        if watch:
            printer = ChangePrinter(output)
            await _follow(client, kinds, where, lambda objects: printer.show(make(objects)))
        else:
            print_list(make([await _objects(client, kind, where) for kind in kinds]), output)

    on_cluster(choice, work)


async def _objects(client: Client, kind: type[KubeObject], namespace: str) -> list[Any]:
    from mooring.kube import NotFound

    try:
        return (await client.list(kind, namespace=namespace)).items
    except NotFound:
        _missing(client, kind)


def _missing(client: Client, kind: type[KubeObject]) -> NoReturn:
    from mooring.kube import resource_of

    raise click.ClickException(
        f"{client.access.server} does not serve {resource_of(kind)}; run `mooring batch install`"
    )


async def _follow(
    client: Client, kinds: Sequence[type[KubeObject]], namespace: str, show: Callable[[list[list[Any]]], None]
) -> None:
    """Call ``show`` with the objects of each kind at the start and after every change."""
    from mooring.kube import Reflector

    for kind in kinds:
        await _objects(client, kind, namespace)  # a reflector would retry what cannot succeed
    changed = asyncio.Event()
    reflectors = [Reflector(client, kind, lambda _changes: changed.set(), namespace=namespace) for kind in kinds]
    async with asyncio.TaskGroup() as tasks:
        for each in reflectors:
            tasks.create_task(each.run())
        for each in reflectors:
            await each.synced.wait()
        while True:
            changed.clear()
            show([list(each.objects.values()) for each in reflectors])
            await changed.wait()
            await asyncio.sleep(_SETTLE_SECONDS)
