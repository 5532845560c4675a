"""An embedded cluster in a child process, which lives no longer than its parent.

It is a process of its own so that a busy scheduler does not slow it down. It ends when its standard input does, which
the operating system sees to however the parent ends; Ctrl-C reaches the parent alone, which ends things in order.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import click

_SECONDS = 15.0


class AttachedCluster:
    """Starts an embedded cluster and waits until it serves; use it as a context manager."""

    def __init__(self, *, nodes: int, port: int = 0, data_dir: Path | None = None) -> None:
        self._command = [sys.executable, "-m", "mooring.cli", "cluster", "start", "--attached"]
        self._command += [f"--nodes={nodes}", f"--port={port}"]
        if data_dir is not None:
            self._command.append(f"--data-dir={data_dir}")
        self._process: subprocess.Popen[bytes] | None = None
        self._ending = False
        #: The address, the authority of the certificate (PEM) and the administrator's token, once it serves.
        self.server = self.authority = self.token = ""

    def __enter__(self) -> AttachedCluster:
        self._process = process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        line = process.stdout.readline() if process.stdout else b""
        if not line:
            # It has said on standard error what is wrong.
            self._end()
            raise SystemExit(1)
        self.server, self.authority, self.token = json.loads(line)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def when_ended(self, call: Callable[[], None]) -> None:
        """Call back, on a thread, if the cluster ends by itself."""

        def wait() -> None:
            if self._process is not None:
                status = self._process.wait()
                if not self._ending:
                    click.echo(f"The embedded cluster has ended (status {status}), and so does the rest.", err=True)
                    call()

        threading.Thread(target=wait, name="mooring-cluster", daemon=True).start()

    def _end(self) -> None:
        self._ending = True
        process = self._process
        if process is None:
            return
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        try:
            process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
