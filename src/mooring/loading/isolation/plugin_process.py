"""The process of an isolated plugin: starting it, calling it with a deadline, killing and restarting it."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import threading
import time
import traceback
import weakref
from typing import Any, Final

from mooring.framework.plugin_frames import set_author_frames
from mooring.loading.isolation.wire import Closed, Late, receive, send
from mooring.loading.load_errors import refuse
from mooring.loading.plugin_files import FoundPlugin
from mooring.logs import get_logger, log_settings

log = get_logger("mooring.plugins")

#: The start timeout. Loading Python and NumPy takes long on a loaded machine.
_START_SECONDS: Final = 60.0
#: The backoff between restarts. It doubles until the process has responded to a call.
_FIRST_BACKOFF, _MAX_BACKOFF = 0.25, 30.0


class PluginProcessError(RuntimeError):
    """An error of a plugin's process: it did not respond, or the plugin raised. The message contains the reason."""


class PluginProcess:
    """The process of one version of a plugin. The plugin's instances (one per profile) share it."""

    def __init__(self, found: FoundPlugin, memory: int) -> None:
        """Start the process. Raises PluginLoadError if the plugin cannot be loaded in it."""
        self._hello = {
            "path": str(found.path), "name": found.name, "sha256": found.sha256, "memory": memory
        }  # fmt: skip
        self._name = found.name
        self._numbers = itertools.count(1)
        self._dropped: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._lock = threading.Lock()
        self._starting = False
        self._backoff = _FIRST_BACKOFF
        self._restart_at = 0.0
        self._reason = ""
        #: Increases with each start. A new process must receive the whole state again.
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
        """The process ID; 0 while there is no process."""
        return self._process.pid if self._process is not None else 0

    def new_instance(self) -> int:
        """Return the number of a new instance of the plugin."""
        return next(self._numbers)

    def drop_instance(self, number: int) -> None:
        """Drop an instance with the next call."""
        self._dropped.append(number)

    def call(self, message: dict[str, Any], seconds: float) -> Any:
        """Send a message and return the response. Raises PluginProcessError on failure and at the deadline."""
        channel = self._open_channel()
        dropped, self._dropped = self._dropped, []
        deadline = time.monotonic() + seconds
        try:
            send(channel, {**message, "dropped": dropped}, deadline)
            reply = receive(channel, deadline)
        except Late:
            self._broken(f"killed: it did not answer within {seconds:g} s")
        except Closed:
            self._broken(self._exit_reason())
        if not isinstance(reply, dict):
            self._broken("killed: its answer is invalid")
        self._backoff = _FIRST_BACKOFF
        if "error" in reply:
            # Use the name of the plugin's exception, so that messages are the same as without isolation.
            raised = type(str(reply["error"]), (PluginProcessError,), {})(str(reply["text"]))
            set_author_frames(raised, map(_frame, reply["frames"]))
            raise raised
        return reply.get("answer")

    def _open_channel(self) -> socket.socket:
        """Return the channel. If there is no process, start one on a thread and raise PluginProcessError."""
        if self._process is not None and self._channel is not None:
            return self._channel
        if not self._starting and time.monotonic() >= self._restart_at:
            self._starting = True
            threading.Thread(target=self._restart, name="mooring-plugin-start", daemon=True).start()
        raise PluginProcessError(f"the plugin's process is restarting ({self._reason})")

    def _restart(self) -> None:
        try:
            self._start()
            log.info("restarted the plugin's process", plugin=self._name, pid=self.pid)
        except PluginProcessError as error:
            self._reason = str(error)
            self._schedule_restart()
        finally:
            self._starting = False

    def _start(self) -> None:
        channel, remote = socket.socketpair()
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1",
            "OMP_NUM_THREADS": "1",
        }  # fmt: skip
        command = [sys.executable, "-m", "mooring.loading.isolation.worker", str(remote.fileno())]
        process = subprocess.Popen(
            command, pass_fds=(remote.fileno(),), stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )
        remote.close()
        deadline = time.monotonic() + _START_SECONDS
        try:
            send(channel, {**self._hello, "logs": log_settings()}, deadline)
            reply = receive(channel, deadline)
        except (Closed, Late) as error:
            _end([process, channel])
            reason = "exited at once" if isinstance(error, Closed) else f"did not start within {_START_SECONDS:g} s"
            raise PluginProcessError(f"its process {reason}; is its memoryLimit too small?") from None
        if "error" in reply:
            _end([process, channel])
            raise PluginProcessError(f"cannot be loaded in its process: {reply['error']}: {reply['text']}")
        self._process, self._channel = process, channel
        self.generation += 1
        if hasattr(self, "_alive"):
            self._alive[:] = [process, channel]

    def _exit_reason(self) -> str:
        process = self._process
        if process is None:
            return "it exited"
        try:
            code = process.wait(1.0)
        except subprocess.TimeoutExpired:
            return "killed: it closed its channel"
        return f"it was terminated by signal {-code}" if code < 0 else f"it exited with code {code}"

    def _broken(self, reason: str) -> Any:
        """Kill the process, schedule a restart and raise PluginProcessError."""
        self._reason = reason
        _end([self._process, self._channel])
        self._process = self._channel = None
        self._schedule_restart()
        log.error("the plugin's process failed", plugin=self._name, reason=reason)
        raise PluginProcessError(f"the plugin's process: {reason}")

    def _schedule_restart(self) -> None:
        self._restart_at = time.monotonic() + self._backoff
        self._backoff = min(2 * self._backoff, _MAX_BACKOFF)

    def close(self) -> None:
        """Kill the process."""
        _end(self._alive)


def _frame(data: list[Any]) -> traceback.FrameSummary:
    filename, line, name, text = data
    return traceback.FrameSummary(str(filename), int(line), str(name), lookup_line=False, line=str(text))


def _end(things: list[Any]) -> None:
    process, channel = things
    if channel is not None:
        channel.close()
    if process is not None and process.poll() is None:
        process.kill()
        process.wait()
