"""Asking a cluster something from the command line."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from mooring.kube import AccessError, Client, KubeError, load_access

T = TypeVar("T")


def on_cluster(kubeconfig: str, work: Callable[[Client], Awaitable[T]]) -> T:
    """Do something with the cluster of a kubeconfig. Ends the command, in one line, where that does not work."""
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
