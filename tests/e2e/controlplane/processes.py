"""Programs as child processes: started, stopped, killed and started again, with a log each."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

#: Below the range that outgoing connections take theirs from, so that a client that tries to connect while a server is
#: down can never take the server's port, nor connect to itself on it.
_PORTS: Final = range(20_000, 30_000)
_GIVEN: set[int] = set()


class StartError(Exception):
    """A program did not start; the message has the end of its log."""


def free_port() -> int:
    """A port on loopback that nobody listens on and that was not given out before."""
    for port in random.sample(_PORTS, 1000):
        if port in _GIVEN:
            continue
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            _GIVEN.add(port)
            return port
    raise StartError("no port is free on loopback")


class Process:
    """A program that runs with the same command whenever it is started. As a context manager it stops at the end."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        folder: Path,
        *,
        ready: Callable[[], bool] | None = None,
        env: Mapping[str, str] | None = None,
        patience: float = 120.0,
    ) -> None:
        self.name = name
        self.command = list(command)
        #: Output of all its runs, one after the other.
        self.log = folder / f"{name}.log"
        self._pid_file = folder / "pids" / name
        self._ready = ready
        self._env = dict(os.environ, **(env or {}))
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Process:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id of the present run, or of the last."""
        if self._process is None:
            raise StartError(f"{self.name} was never started")
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """What the last run ended with; None while it runs. Signals are negative."""
        return self._process.poll() if self._process is not None else None

    def start(self, *, wait: bool = True) -> Process:
        """Start it, and wait until it is ready to serve."""
        if self.alive:
            return self
        self._pid_file.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            log.write(f"$ {shlex.join(self.command)}\n".encode())
            log.flush()
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._env,
                # Ctrl-C is for the tests, which then stop their processes in order.
                start_new_session=True,
            )
        self._pid_file.write_text(str(self._process.pid))
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        """Wait until it serves. Raises StartError when it ends before, or takes too long."""
        deadline = time.monotonic() + self._patience
        while self._ready is not None and not self._ready():
            if not self.alive:
                raise StartError(f"{self.name} ended with status {self.exit_code}; its last words:\n{self.tail()}")
            if time.monotonic() > deadline:
                raise StartError(f"{self.name} is not ready after {self._patience:g} s:\n{self.tail()}")
            time.sleep(0.05)

    def wait(self, timeout: float = 120.0) -> int:
        """Wait until it ends by itself, and hand back its exit code."""
        assert self._process is not None
        return self._process.wait(timeout)

    def stop(self, timeout: float = 30.0) -> None:
        """Ask it to end, and kill it if it does not."""
        if self._process is None:
            return
        if self.alive:
            # One that is paused could not hear the request.
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
        self._pid_file.unlink(missing_ok=True)

    def kill(self) -> None:
        """End it at once, as `kill -9` does."""
        if self._process is not None:
            self.signal(signal.SIGKILL)
            self._process.wait()
            self._pid_file.unlink(missing_ok=True)

    def restart(self, *, kill: bool = False, down: float = 0.0) -> None:
        """Stop (or kill) it, leave it down for some seconds, and start it again."""
        if kill:
            self.kill()
        else:
            self.stop()
        time.sleep(down)
        self.start()

    def pause(self) -> None:
        """Stop the clock for it: it keeps its connections but does nothing."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused one go on."""
        self.signal(signal.SIGCONT)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, if it still runs."""
        if self._process is not None and self.alive:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(number)

    def tail(self, lines: int = 30) -> str:
        """The end of its log."""
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(no log)"


class Reaper:
    """Kills what is left when this process dies without a chance to stop it, by `kill -9` for instance.

    It is a shell that waits for the end of a pipe which only we hold open.
    """

    def __init__(self, folder: Path) -> None:
        pids = folder / "pids"
        pids.mkdir(parents=True, exist_ok=True)
        script = 'cat >/dev/null; for file in "$1"/*; do [ -e "$file" ] && kill -9 "$(cat "$file")"; done; rm -rf "$2"'
        self._process = subprocess.Popen(
            ["sh", "-c", script, "sh", str(pids), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """Everything was stopped in order."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        self._process.stdin.close()
