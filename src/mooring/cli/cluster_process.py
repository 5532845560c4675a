"""Embedded clusters in other processes: start, query and stop them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import click
import msgspec

if TYPE_CHECKING:
    from mooring.kube import Access

#: Timeout for a cluster to terminate.
_STOP_SECONDS = 15.0


class ChildCluster:
    """An embedded cluster in a child process; use it as a context manager.

    The cluster has its own process, so that a busy scheduler does not slow it down. The child exits when its standard
    input is closed, which happens however the parent ends. Ctrl-C reaches only the parent, which then stops the child.
    """

    def __init__(
        self,
        *,
        nodes: int,
        port: int = 0,
        data_dir: Path | None = None,
        controllers: str = "*",
        devices: Mapping[str, int] | None = None,
        queue_gates: Iterable[str] = (),
    ) -> None:
        self._command = [sys.executable, "-m", "mooring.cli", "cluster", "start", "--attached"]
        self._command += [f"--nodes={nodes}", f"--port={port}", f"--controllers={controllers}"]
        self._command += [f"--devices={name}={count}" for name, count in (devices or {}).items()]
        self._command += [f"--queue-gates={name}" for name in queue_gates]
        if data_dir is not None:
            self._command.append(f"--data-dir={data_dir}")
        self._process: subprocess.Popen[bytes] | None = None
        self._stopping = False
        #: The URL, the CA certificate (PEM) and the administrator's token, once the cluster is serving.
        self.server = self.authority = self.token = ""

    def __enter__(self) -> ChildCluster:
        self._process = process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        line = process.stdout.readline() if process.stdout else b""
        if not line:
            # The child has already printed the error.
            self._stop()
            raise SystemExit(1)
        self.server, self.authority, self.token = json.loads(line)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def on_exit(self, call: Callable[[], None]) -> None:
        """Register a function that is called on a thread if the cluster exits before it is stopped."""

        def wait() -> None:
            if self._process is not None:
                status = self._process.wait()
                if not self._stopping:
                    click.echo(f"The embedded cluster exited unexpectedly (status {status}). Stopping.", err=True)
                    call()

        threading.Thread(target=wait, name="mooring-cluster", daemon=True).start()

    def _stop(self) -> None:
        self._stopping = True
        process = self._process
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class ClusterStatus(msgspec.Struct, frozen=True):
    """A running embedded cluster: its process, and the number of nodes and pods."""

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


def cluster_status(kubeconfig: str) -> ClusterStatus:
    """Return the status of the embedded cluster of a kubeconfig. Ends the command if the cluster does not respond."""
    from mooring.kube import AccessError, KubeError, load_access

    try:
        access = load_access(kubeconfig=kubeconfig)
        return asyncio.run(_read_status(access))
    except AccessError as error:
        raise click.ClickException(f"no embedded cluster found: {error}") from None
    except msgspec.DecodeError:
        raise click.ClickException(f"{access.origin}: {access.server} is not a Mooring embedded cluster") from None
    except KubeError as error:
        raise click.ClickException(f"{access.origin}: no Mooring embedded cluster answers: {error}") from None


async def _read_status(access: Access) -> ClusterStatus:
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
    return ClusterStatus(access.server, process.pid, process.data_dir, len(nodes), ready, len(pods), bound)


def stop_cluster(status: ClusterStatus) -> None:
    """Terminate the process of a running cluster and wait for it."""
    try:
        os.kill(status.pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    except PermissionError:
        raise click.ClickException(f"process {status.pid} belongs to another user, who has to stop it") from None
    deadline = time.monotonic() + _STOP_SECONDS
    while not _has_exited(status.pid):
        if time.monotonic() > deadline:
            raise click.ClickException(f"process {status.pid} is still running {_STOP_SECONDS:.0f} s after SIGTERM")
        time.sleep(0.05)


def _has_exited(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    try:
        # A zombie: it has exited, but its parent has not waited for it yet.
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except OSError:
        return False
