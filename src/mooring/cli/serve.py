"""`mooring serve`: services for other programs."""

from __future__ import annotations

import asyncio
import secrets
import sys
from typing import TYPE_CHECKING

import click

from mooring.cli.cluster_access import ClusterChoice, cluster_access
from mooring.cli.options import ReleaseChoice, cluster_options, config_option, plugin_options, release_options

if TYPE_CHECKING:
    from mooring.kube import Access
    from mooring.loading import Requested, Setup


@click.group()
def serve() -> None:
    """Serve answers for other programs."""


@serve.command("what-if")
@cluster_options
@config_option
@plugin_options
@release_options
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on this machine. By default any free port."
)
@click.option("--token", envvar="MOORING_TOKEN", default="", help="Token of the clients. By default a random one.")
def what_if(
    choice: ClusterChoice,
    config_file: str | None,
    requested: Requested,
    emulated: ReleaseChoice,
    port: int,
    token: str,
) -> None:
    """Answer what-if questions about a cluster over HTTP, until Ctrl-C. The cluster is only read.

    It is served on this machine only. GET /what-if/openapi.json describes the requests.
    """
    from mooring.cli.daemon import StopSignals, run_until_stopped
    from mooring.cli.explain import server_minor
    from mooring.cli.input_files import read_setup
    from mooring.live.endpoints.endpoint_server import ServerError

    release = emulated.release(server_minor(choice) if emulated.named is None else None)
    setup = read_setup(config_file, requested, release)
    access = cluster_access(choice)
    token = token or secrets.token_urlsafe(32)

    async def run(signals: StopSignals) -> int:
        return await run_until_stopped(_serve(access, setup, port, token), signals)

    try:
        with StopSignals() as signals:
            code = asyncio.run(run(signals))
    except ServerError as error:
        raise click.ClickException(str(error).replace("--secure-port", "--port")) from None
    sys.exit(code)


async def _serve(access: Access, setup: Setup, port: int, token: str) -> None:
    from mooring.dashboard.read_only import ReadOnlyServer

    async with ReadOnlyServer(access, setup, port=port, token=token) as served:
        click.echo(f"Serving {served.server.url}/what-if; Authorization: Bearer {token}")
        await served.wait()
