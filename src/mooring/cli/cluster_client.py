"""Asking an embedded cluster about itself, and ending it."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

if TYPE_CHECKING:
    from mooring.kube import Access

_SECONDS = 15.0


class Found(msgspec.Struct, frozen=True):
    """A cluster that answered."""

    server: str
    pid: int
    data_dir: str
    nodes: int
    ready: int
    pods: int
    bound: int


class _Process(msgspec.Struct, rename="camel"):
    pid: int
    data_dir: str = ""


def ask(kubeconfig: str) -> Found:
    """What the cluster of a kubeconfig tells about itself. Ends the command where none answers."""
    from mooring.kube import AccessError, KubeError, load_access

    try:
        access = load_access(kubeconfig=kubeconfig)
        return asyncio.run(_ask(access))
    except AccessError as error:
        raise click.ClickException(f"no embedded cluster is known here: {error}") from None
    except msgspec.DecodeError:
        raise click.ClickException(f"{kubeconfig}: {access.server} is no embedded cluster of Mooring's") from None
    except KubeError as error:
        raise click.ClickException(f"no embedded cluster of Mooring's answers as {kubeconfig} says: {error}") from None


async def _ask(access: Access) -> Found:
    from mooring.api.node import Node
    from mooring.api.pod import Pod
    from mooring.kube import Client

    async with Client(access) as client:
        answer = await client.call("GET", "/mooring/process")
        process = msgspec.json.decode(answer, type=_Process)
        nodes, pods = (await client.list(Node)).items, (await client.list(Pod)).items
    ready = sum(
        any(each.type == "Ready" and each.status == "True" for each in node.status.conditions) for node in nodes
    )
    bound = sum(bool(pod.spec.node_name) for pod in pods)
    return Found(access.server, process.pid, process.data_dir, len(nodes), ready, len(pods), bound)


def end(found: Found) -> None:
    """End the process of a cluster that answered, and wait for it."""
    try:
        os.kill(found.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise click.ClickException(f"process {found.pid} is somebody else's: ask its owner to end it") from None
    until = time.monotonic() + _SECONDS
    while not _has_ended(found.pid):
        if time.monotonic() > until:
            raise click.ClickException(f"process {found.pid} was asked to end but still runs after {_SECONDS:.0f} s")
        time.sleep(0.05)


def _has_ended(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    try:
        # One that ended, but that its parent has not taken note of yet, still has a number.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return False
