"""`mooring plugin list`: what plugins there are, where they came from, what they do and cost."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from mooring.cli.plugin_options import plugin_options
from mooring.cli.running_options import Address, running_options

if TYPE_CHECKING:
    from mooring.loading import Requested
    from mooring.loading.listing import PluginRow


@click.command(name="list")
@click.option("--config", "config_file", metavar="FILE", help="The configuration whose plugins to show.")
@plugin_options
@click.option("--kubeconfig", default="", help="Ask the scheduler that `mooring up` wrote of into this kubeconfig.")
@running_options
@click.option("-a", "--all", "everything", is_flag=True, help="Show the built-in plugins too.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def listing(
    config_file: str | None, requested: Requested, kubeconfig: str, address: Address, everything: bool, output: str
) -> None:
    """Show plugins: where each came from, its points, weight, version, state and cost.

    With --scheduler or --kubeconfig a running Mooring is asked, which knows how they fare; otherwise the configuration
    and the plugins are read as `mooring run` would read them.
    """
    from mooring.cli.inputs import fail, read_setup
    from mooring.cli.running import NoAnswer
    from mooring.loading.listing import plugin_rows

    if kubeconfig or address.is_given:
        try:
            _show(address.running(kubeconfig).plugins(), output, everything=everything)
        except NoAnswer as problem:
            fail([str(problem)])
        return
    setup = read_setup(config_file, requested)
    for note in setup.notes:
        click.echo(note, err=True)
    _show(plugin_rows(setup.config, setup.catalog), output, everything=everything)


def _show(rows: list[PluginRow], output: str, *, everything: bool) -> None:
    import msgspec

    chosen = [row for row in rows if everything or row.source != "built in"]
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(chosen), indent=2).decode())
        return
    if not chosen:
        click.echo("no plugins but the built-in ones (-a shows them)", err=True)
        return
    from mooring.cli.tables import show
    from mooring.simulate.report import Column, Grid

    titles = ("name", "profile", "points", "weight", "version", "state", "calls", "failures", "mean", "source")
    right = {"weight", "calls", "failures", "mean"}
    columns = tuple(Column(title, "right" if title in right else "left") for title in titles)
    show([Grid("Plugins", columns, [_cells(row) for row in chosen])], sys.stdout)


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
