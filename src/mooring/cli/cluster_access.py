"""Connect to the cluster of a kubeconfig."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from mooring.kube import Access, Client

T = TypeVar("T")


def cluster_access(kubeconfig: str, *, master: str = "") -> Access:
    """Return how to reach the cluster of a kubeconfig. Ends the command if there is none."""
    from mooring.kube import AccessError, load_access

    try:
        return load_access(kubeconfig=kubeconfig, master=master)
    except AccessError as error:
        raise click.ClickException(str(error)) from None


def on_cluster(kubeconfig: str, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run ``work`` with a client for the cluster of a kubeconfig. An error ends the command with one line."""
    from mooring.kube import Client, KubeError

    access = cluster_access(kubeconfig)
    for warning in access.warnings:
        click.echo(f"note: {warning}", err=True)

    async def run() -> T:
        async with Client(access) as client:
            return await work(client)

    try:
        return asyncio.run(run())
    except KubeError as error:
        raise click.ClickException(f"{access.server}: {error}") from None
