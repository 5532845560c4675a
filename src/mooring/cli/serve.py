"""`mooring serve`: services for other programs."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import click

from mooring.cli.cluster_access import ClusterChoice, cluster_access
from mooring.cli.options import (
    ReleaseChoice,
    cluster_options,
    config_option,
    filename_option,
    plugin_options,
    release_options,
)

if TYPE_CHECKING:
    from mooring.api.meta import KubeObject
    from mooring.kube import Access
    from mooring.loading import Requested, Setup
    from mooring.simulation.sources import Given


@click.group()
def serve() -> None:
    """Serve answers for other programs."""


@serve.command("what-if")
@filename_option(
    "The cluster, instead of a running one: manifests (a file, a directory, - for standard input) or a recording."
)
@click.option("-R", "--recursive", is_flag=True, help="Read subdirectories too.")
@cluster_options
@config_option
@plugin_options
@release_options
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port on this machine. By default any free port."
)
@click.option("--token", envvar="MOORING_TOKEN", default="", help="Token of the clients. By default a random one.")
def what_if(
    files: tuple[str, ...],
    recursive: bool,
    choice: ClusterChoice,
    config_file: str | None,
    requested: Requested,
    emulated: ReleaseChoice,
    port: int,
    token: str,
) -> None:
    """Answer what-if questions about a cluster over HTTP, until Ctrl-C. The cluster is only read.

    The cluster is that of the kubeconfig, or that of manifests or a recording (-f), which are read once. Snapshots of
    manifests have their pending pods and the pods of their workloads on the nodes where Mooring would place them.

    It is served on this machine only. GET /what-if/openapi.json describes the requests.
    """
    from mooring.cli.daemon import StopSignals, run_until_stopped
    from mooring.cli.input_files import read_setup
    from mooring.cli.what_if import release_for
    from mooring.live.endpoints.endpoint_server import ServerError

    setup = read_setup(config_file, requested, release_for(emulated, choice, files))
    token = token or secrets.token_urlsafe(32)
    work: Callable[[], Coroutine[Any, Any, None]]
    if files:
        given, objects = _manifests(files, setup, recursive=recursive)
        work = lambda: _serve_manifests(given, objects, setup, port, token)  # noqa: E731
    else:
        access = cluster_access(choice)
        work = lambda: _serve(access, setup, port, token)  # noqa: E731

    async def run(signals: StopSignals) -> int:
        return await run_until_stopped(work(), signals)

    try:
        with StopSignals() as signals:
            code = asyncio.run(run(signals))
    except ServerError as error:
        raise click.ClickException(str(error).replace("--secure-port", "--port")) from None
    sys.exit(code)


def _manifests(files: tuple[str, ...], setup: Setup, *, recursive: bool) -> tuple[list[Given], list[KubeObject]]:
    """Return the objects of manifests, as written and with pods on their nodes. An error ends the command."""
    from mooring.api.decode_errors import ManifestError
    from mooring.cli.input_files import fail
    from mooring.config import ConfigError
    from mooring.scheduler.profile import ProfileError
    from mooring.simulation.sources import InputError, read
    from mooring.simulation.what_if_question import placed_objects

    try:
        given = read(files, recursive=recursive, stdin=sys.stdin.buffer.read)
        return given, placed_objects(given, setup)
    except (InputError, ManifestError, ProfileError) as error:
        fail(str(error).splitlines())
    except ConfigError as error:
        fail(error.lines())


async def _serve_manifests(given: list[Given], objects: list[KubeObject], setup: Setup, port: int, token: str) -> None:
    from mooring.dashboard.read_only import serve_manifests

    async with serve_manifests(given, objects, setup, port=port, token=token) as server:
        _print_address(server.url, token)
        await asyncio.Event().wait()


def _print_address(url: str, token: str) -> None:
    click.echo(f"Serving {url}/what-if; Authorization: Bearer {token}")


async def _serve(access: Access, setup: Setup, port: int, token: str) -> None:
    from mooring.dashboard.read_only import ReadOnlyServer

    async with ReadOnlyServer(access, setup, port=port, token=token) as served:
        _print_address(served.server.url, token)
        await served.wait()
