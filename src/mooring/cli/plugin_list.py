"""`mooring plugin list`: list plugins with their source, extension points, state and cost."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from mooring.cli.cluster_access import ClusterChoice
from mooring.cli.options import (
    LIST_FORMATS,
    SchedulerAddress,
    cluster_options,
    config_option,
    output_option,
    plugin_options,
    scheduler_options,
)

if TYPE_CHECKING:
    from mooring.cli.object_list import ObjectList
    from mooring.cli.scheduler_client import SchedulerClient
    from mooring.loading import Requested
    from mooring.loading.plugin_rows import PluginRow

_WATCH_SECONDS = 2.0
#: The order in which columns are omitted on a narrow terminal.
_RANKS = {"version": 7, "profile": 6, "weight": 5, "mean": 4, "source": 3, "calls": 2, "points": 1}


@click.command(name="list")
@config_option
@plugin_options
@cluster_options
@scheduler_options
@click.option("-a", "--all", "with_builtin", is_flag=True, help="List the built-in plugins too.")
@output_option(*LIST_FORMATS)
@click.option(
    "-w", "--watch", is_flag=True, help="After listing, print plugins of a running scheduler that change, until Ctrl-C."
)
def list_(
    config_file: str | None,
    requested: Requested,
    choice: ClusterChoice,
    address: SchedulerAddress,
    with_builtin: bool,
    output: str,
    watch: bool,
) -> None:
    """List plugins with their source, extension points, weight, version, state and cost.

    A running scheduler is queried, which includes calls and failures, if --scheduler names one, or if the kubeconfig
    does, as the one that `mooring up` writes. With --config, --plugin or --plugins-dir, or if there is no such
    scheduler, the configuration and the plugins are read as `mooring run` reads them.
    """
    from mooring.cli.input_files import fail, read_setup
    from mooring.cli.object_list import print_list
    from mooring.cli.scheduler_client import NoAnswer, client_from_kubeconfig
    from mooring.loading.plugin_rows import plugin_rows

    client, is_named = None, any(choice) or address.is_given or watch
    if is_named:
        client = address.client(choice)
    elif config_file is None and not requested.plugins and not requested.directories:
        client = client_from_kubeconfig(choice)
    if client is not None:
        try:
            _print_running(client, output, with_builtin=with_builtin, watch=watch)
        except NoAnswer as problem:
            if is_named:
                fail([str(problem)])
            click.echo(f"note: {problem} These are the plugins of the default configuration.", err=True)
        else:
            return
    setup = read_setup(config_file, requested)
    for note in setup.notes:
        click.echo(note, err=True)
    found = _plugin_list(plugin_rows(setup.config, setup.catalog), with_builtin=with_builtin)
    if output == "table" and not found.items:
        click.echo("only built-in plugins are enabled (-a lists them)", err=True)
    else:
        print_list(found, output)


def _print_running(client: SchedulerClient, output: str, *, with_builtin: bool, watch: bool) -> None:
    """Print the plugins of a running scheduler; with ``watch``, until Ctrl-C. Raises NoAnswer."""
    from mooring.cli.object_list import ChangePrinter, print_list

    if not watch:
        print_list(_plugin_list(client.plugins(), with_builtin=with_builtin), output)
        return
    printer = ChangePrinter(output)
    try:
        while True:
            printer.show(_plugin_list(client.plugins(), with_builtin=with_builtin))
            time.sleep(_WATCH_SECONDS)
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def _plugin_list(rows: list[PluginRow], *, with_builtin: bool) -> ObjectList:
    import msgspec

    from mooring.cli.object_list import Item, ObjectList
    from mooring.cli.output import columns

    titles = ("name", "profile", "points", "weight", "version", "state", "calls", "failures", "mean", "source")
    # Calls and durations change constantly, so they are not part of the state.
    items = [
        Item(
            f"{row.profile}/{row.name}",
            f"plugin/{row.name}",
            row,
            _cells(row),
            msgspec.structs.replace(row, calls=0, mean_micros=None),
        )
        for row in rows
        if with_builtin or row.source != "built in"
    ]
    right = {"weight", "calls", "failures", "mean"}
    footer = "" if items else "Only built-in plugins are enabled; -a lists them."
    return ObjectList("Plugins", columns(titles, right=right, ranks=_RANKS), items, footer)


def _cells(row: PluginRow) -> tuple[str, ...]:
    mean = "" if row.mean_micros is None else f"{row.mean_micros:.1f} us"
    return (
        row.name,
        row.profile,
        ",".join(row.points),
        str(row.weight or ""),
        row.version,
        row.state,
        str(row.calls or ""),
        str(row.failures or ""),
        mean,
        row.source,
    )
