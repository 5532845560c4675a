"""`mooring dashboard`: show any cluster in a browser, whichever scheduler it has."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from mooring.cli.cluster_access import ClusterChoice, cluster_access
from mooring.cli.options import ReleaseChoice, cluster_options, config_option, plugin_options, release_options

if TYPE_CHECKING:
    from mooring.kube import Access
    from mooring.loading import Requested, Setup


@click.command()
@cluster_options
@config_option
@plugin_options
@release_options
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on this machine. By default any free port."
)
def dashboard(
    choice: ClusterChoice,
    config_file: str | None,
    requested: Requested,
    emulated: ReleaseChoice,
    port: int,
) -> None:
    """Show a cluster in a browser, until Ctrl-C. The cluster is only read.

    It works with any scheduler: pending pods are shown with what the scheduler has reported, and decisions are those
    that Mooring would make now, with the configuration and the plugins of the options. The page is served on this
    machine only, with the rights of the kubeconfig. A running Mooring serves the dashboard itself.
    """
    from mooring.cli.daemon import StopSignals, run_until_stopped
    from mooring.cli.explain import server_minor
    from mooring.cli.input_files import read_setup
    from mooring.live.endpoints.endpoint_server import ServerError

    release = emulated.release(server_minor(choice) if emulated.named is None else None)
    setup = read_setup(config_file, requested, release)
    access = cluster_access(choice)

    async def run(signals: StopSignals) -> int:
        return await run_until_stopped(_serve(access, setup, port), signals)

    try:
        with StopSignals() as signals:
            code = asyncio.run(run(signals))
    except ServerError as error:
        raise click.ClickException(str(error).replace("--secure-port", "--port")) from None
    sys.exit(code)


async def _serve(access: Access, setup: Setup, port: int) -> None:
    from mooring.dashboard.read_only import ReadOnlyServer

    async with ReadOnlyServer(access, setup, port=port) as shown:
        click.echo("Open this link in a browser of this machine. It works once:")
        click.echo(f"  {shown.link()}")
        click.echo("Press Ctrl-C to stop.")
        await shown.wait()
