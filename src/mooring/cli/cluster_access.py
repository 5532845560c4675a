"""Access to the cluster of a kubeconfig."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

if TYPE_CHECKING:
    from mooring.kube import Access, Client

T = TypeVar("T")


class ClusterChoice(NamedTuple):
    """The kubeconfig and the context that the options select. The defaults are those of kubectl."""

    kubeconfig: str = ""
    context: str = ""

    def load(self, *, master: str = "") -> Access:
        """Load the address and credentials of the cluster. Raises AccessError."""
        from mooring.kube import load_access

        return load_access(kubeconfig=self.kubeconfig, context=self.context, master=master)


def cluster_access(choice: ClusterChoice, *, master: str = "") -> Access:
    """Return the address and credentials of a cluster. Ends the command if no cluster is configured."""
    from mooring.kube import AccessError

    try:
        return choice.load(master=master)
    except AccessError as error:
        raise click.ClickException(str(error)) from None


def context_namespace(choice: ClusterChoice) -> str:
    """Return the namespace of the context; ``default`` if no cluster is configured."""
    from mooring.kube import AccessError

    try:
        return choice.load().namespace
    except AccessError:
        return "default"


def on_cluster(choice: ClusterChoice, work: Callable[[Client], Awaitable[T]]) -> T:
    """Run ``work`` with a client for a cluster. An error ends the command with one line."""
    from mooring.kube import Client, Forbidden, KubeError

    access = cluster_access(choice)
    for warning in access.warnings:
        click.echo(f"note: {warning}", err=True)

    async def run() -> T:
        async with Client(access) as client:
            return await work(client)

    try:
        return asyncio.run(run())
    except Forbidden as error:
        raise click.ClickException(
            f"{access.server}: {error}; use a --context or --kubeconfig with the permission"
        ) from None
    except KubeError as error:
        text = str(error)
        raise click.ClickException(text if text.startswith(access.server) else f"{access.server}: {text}") from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
