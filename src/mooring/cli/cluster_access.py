"""Asking a cluster something from the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from mooring.kube import Client

T = TypeVar("T")

kubeconfig_option = click.option("--kubeconfig", default="", help="The cluster; otherwise found as kubectl finds it.")
output_option = click.option(
    "-o", "--output", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True
)


def on_cluster(kubeconfig: str, work: Callable[[Client], Awaitable[T]]) -> T:
    """Do something with the cluster of a kubeconfig. Ends the command, in one line, where that does not work."""
    from mooring.kube import AccessError, Client, KubeError, load_access

    try:
        access = load_access(kubeconfig=kubeconfig)
    except AccessError as error:
        raise click.ClickException(str(error)) from None
    for warning in access.warnings:
        click.echo(f"note: {warning}", err=True)

    async def run() -> T:
        async with Client(access) as client:
            return await work(client)

    try:
        return asyncio.run(run())
    except KubeError as error:
        raise click.ClickException(f"{access.server}: {error}") from None
