"""PluginProcess: starts a plugin's process, asks it with a deadline, kills it when it hangs, and starts it again."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import threading
import time
import weakref
from typing import Any, Final

import structlog

from mooring.loading.isolation.wire import Closed, Late, receive, send
from mooring.loading.load_errors import refuse
from mooring.loading.plugin_files import FoundPlugin

log = structlog.get_logger("mooring.plugins")

#: Python and NumPy have to be loaded, on a machine that may be busy.
_START_SECONDS: Final = 60.0
#: How long to wait before a process is started again: twice as long each time, until it has answered something.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 30.0


class PluginProcessError(RuntimeError):
    """A plugin's process did not answer; the message says why."""


class PluginProcess:
    """The process of one version of one plugin; several objects of it (one a profile) share it."""

    def __init__(self, found: FoundPlugin, memory: int) -> None:
        """Start it. Raises PluginLoadError where the plugin cannot be loaded there."""
        self._hello = {
            "path": str(found.path), "name": found.name, "sha256": found.sha256, "memory": memory
        }  # fmt: skip
        self._name = found.name
        self._numbers = itertools.count(1)
        self._gone: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._lock = threading.Lock()
        self._starting = False
        self._pause = _FIRST_PAUSE
        self._again_at = 0.0
        self._why = ""
        #: Rises with each start: what the last process knew must be told to the new one.
        self.generation = 0
        try:
            self._start()
        except PluginProcessError as error:
            raise refuse(found.path, f"{found.name}: {error}") from None
        weakref.finalize(self, _end, self._ending())

    def _ending(self) -> list[Any]:
        self._alive: list[Any] = [self._process, self._channel]
        return self._alive

    @property
    def pid(self) -> int:
        """The process's number; 0 while there is none."""
        return self._process.pid if self._process is not None else 0

    def number(self) -> int:
        """A number for another object of the plugin."""
        return next(self._numbers)

    def forget(self, number: int) -> None:
        """An object is needed no more."""
        self._gone.append(number)

    def ask(self, message: dict[str, Any], seconds: float) -> Any:
        """What the process answers, within so many seconds. Raises PluginProcessError, or what the plugin raised."""
        channel = self._ready()
        gone, self._gone = self._gone, []
        deadline = time.monotonic() + seconds
        try:
            send(channel, {**message, "gone": gone}, deadline)
            reply = receive(channel, deadline)
        except Late:
            self._broken(f"killed: it did not answer within {seconds:g} s")
        except Closed:
            self._broken(self._ended())
        if not isinstance(reply, dict):
            self._broken("killed: its answer makes no sense")
        self._pause = _FIRST_PAUSE
        if "error" in reply:
            # Under the name that the plugin's own exception has, so that people read the same as without isolation.
            kind = type(str(reply["error"]), (PluginProcessError,), {})
            raise kind(str(reply["text"]))
        return reply.get("answer")

    def _ready(self) -> socket.socket:
        """The channel, if there is a process. Starting one takes long, so that happens on a thread."""
        if self._process is not None and self._channel is not None:
            return self._channel
        if not self._starting and time.monotonic() >= self._again_at:
            self._starting = True
            threading.Thread(target=self._start_again, name="mooring-plugin-start", daemon=True).start()
        raise PluginProcessError(f"the plugin's process is being started again ({self._why})")

    def _start_again(self) -> None:
        try:
            self._start()
            log.info("the plugin's process was started again", plugin=self._name, pid=self.pid)
        except PluginProcessError as error:
            self._why = str(error)
            self._later()
        finally:
            self._starting = False

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        command = [sys.executable, "-m", "mooring.loading.isolation.worker", str(theirs.fileno())]
        process = subprocess.Popen(
            command, pass_fds=(theirs.fileno(),), stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )
        theirs.close()
        deadline = time.monotonic() + _START_SECONDS
        try:
            send(ours, self._hello, deadline)
            reply = receive(ours, deadline)
        except (Closed, Late) as error:
            _end([process, ours])
            why = "ended at once" if isinstance(error, Closed) else f"did not start within {_START_SECONDS:g} s"
            raise PluginProcessError(f"its process {why}; is its memoryLimit too small?") from None
        if "error" in reply:
            _end([process, ours])
            raise PluginProcessError(f"cannot be loaded in its process: {reply['error']}: {reply['text']}")
        self._process, self._channel = process, ours
        self.generation += 1
        if hasattr(self, "_alive"):
            self._alive[:] = [process, ours]

    def _ended(self) -> str:
        process = self._process
        if process is None:
            return "it ended"
        try:
            code = process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "killed: it closed its channel"
        return f"it ended with signal {-code}" if code < 0 else f"it ended with exit code {code}"

    def _broken(self, why: str) -> Any:
        """The process is of no use any more."""
        self._why = why
        _end([self._process, self._channel])
        self._process = self._channel = None
        self._later()
        log.error("the plugin's process is gone", plugin=self._name, why=why)
        raise PluginProcessError(f"the plugin's process: {why}")

    def _later(self) -> None:
        self._again_at = time.monotonic() + self._pause
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)

    def close(self) -> None:
        """End the process for good."""
        _end(self._alive)


def _end(things: list[Any]) -> None:
    process, channel = things
    if channel is not None:
        channel.close()
    if process is not None and process.poll() is None:
        process.kill()
        process.wait()
