"""`mooring plugin list`: list plugins with their source, extension points, state and cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from mooring.cli.options import SchedulerAddress, config_option, output_option, plugin_options, scheduler_options

if TYPE_CHECKING:
    from mooring.loading import Requested
    from mooring.loading.plugin_rows import PluginRow


@click.command(name="list")
@config_option
@plugin_options
@click.option("--kubeconfig", default="", help="Query the scheduler that `mooring up` entered in this kubeconfig.")
@scheduler_options
@click.option("-a", "--all", "with_builtin", is_flag=True, help="List the built-in plugins too.")
@output_option("table", "json")
def list_(
    config_file: str | None,
    requested: Requested,
    kubeconfig: str,
    address: SchedulerAddress,
    with_builtin: bool,
    output: str,
) -> None:
    """List plugins with their source, extension points, weight, version, state and cost.

    With --scheduler or --kubeconfig, a running scheduler is queried, which includes calls and failures. Otherwise the
    configuration and the plugins are read as `mooring run` reads them.
    """
    from mooring.cli.input_files import fail, read_setup
    from mooring.cli.scheduler_client import NoAnswer
    from mooring.loading.plugin_rows import plugin_rows

    if kubeconfig or address.is_given:
        try:
            _print(address.client(kubeconfig).plugins(), output, with_builtin=with_builtin)
        except NoAnswer as problem:
            fail([str(problem)])
        return
    setup = read_setup(config_file, requested)
    for note in setup.notes:
        click.echo(note, err=True)
    _print(plugin_rows(setup.config, setup.catalog), output, with_builtin=with_builtin)


def _print(rows: list[PluginRow], output: str, *, with_builtin: bool) -> None:
    from mooring.cli.output import print_result, table

    chosen = [row for row in rows if with_builtin or row.source != "built in"]
    if output == "table" and not chosen:
        click.echo("only built-in plugins are enabled (-a lists them)", err=True)
        return
    titles = ("name", "profile", "points", "weight", "version", "state", "calls", "failures", "mean", "source")
    right = {"weight", "calls", "failures", "mean"}
    print_result(chosen, output, lambda: [table("Plugins", titles, map(_cells, chosen), right=right)])


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
