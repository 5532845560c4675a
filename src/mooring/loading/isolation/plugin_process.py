"""The process of an isolated plugin: starting it, calling it with a deadline, killing and restarting it."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import weakref
from pathlib import Path
from typing import Any, Final

from mooring.framework.plugin_frames import set_author_frames
from mooring.loading.isolation.wire import (
    MAX_ERROR,
    MAX_FRAMES,
    Closed,
    InvalidReply,
    Late,
    Reply,
    receive_reply,
    send,
    unpack,
)
from mooring.loading.load_errors import refuse
from mooring.loading.plugin_files import FoundPlugin
from mooring.logs import get_logger, log_settings
from mooring.unexpected_errors import shortened

log = get_logger("mooring.plugins")

#: The start timeout. Loading Python and NumPy takes long on a loaded machine.
_START_SECONDS: Final = 60.0
#: The backoff between restarts. It doubles until the process has responded to a call.
_FIRST_BACKOFF, _MAX_BACKOFF = 0.25, 30.0
#: The maximum number of processes that a plugin's process may start. More are a fork bomb.
MAX_PROCESSES: Final = 64
#: The rounds in which processes are searched for and killed. One is enough unless they fork meanwhile.
_KILL_ROUNDS: Final = 20


class PluginProcessError(RuntimeError):
    """An error of a plugin's process: it did not respond, or the plugin raised. The message contains the reason."""


class PluginProcess:
    """The process of one version of a plugin. The plugin's instances (one per profile) share it."""

    def __init__(self, found: FoundPlugin, memory: int) -> None:
        """Start the process. Raises PluginLoadError if the plugin cannot be loaded in it."""
        self._hello = {
            "path": str(found.path), "name": found.name, "sha256": found.sha256, "memory": memory,
            "processes": MAX_PROCESSES,
        }  # fmt: skip
        self._calls = itertools.count(1)
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
        """Send a message and return the answer. Raises PluginProcessError on failure and at the deadline."""
        channel = self._open_channel()
        dropped, self._dropped = self._dropped, []
        number = next(self._calls)
        deadline = time.monotonic() + seconds
        try:
            send(channel, {**message, "dropped": dropped, "number": number}, deadline)
            reply = receive_reply(channel, number, deadline, self._check_processes)
            answer = unpack(reply.answer)
        except Late:
            self._broken(f"killed: it did not answer within {seconds:g} s")
        except Closed:
            self._broken(self._exit_reason())
        except InvalidReply as error:
            self._broken(f"killed: {error}")
        self._backoff = _FIRST_BACKOFF
        if reply.error:
            raise _raised(reply)
        return answer

    def _check_processes(self) -> None:
        process = self._process
        if process is not None and len(_members(process.pid)) > MAX_PROCESSES:
            self._broken(f"killed: it started more than {MAX_PROCESSES} processes")

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
            reply = receive_reply(channel, 0, deadline)
        except (Closed, Late, InvalidReply) as error:
            _end([process, channel])
            if isinstance(error, InvalidReply):
                raise PluginProcessError(f"its process was killed: {error}") from None
            reason = "exited at once" if isinstance(error, Closed) else f"did not start within {_START_SECONDS:g} s"
            raise PluginProcessError(f"its process {reason}; is its memoryLimit too small?") from None
        if reply.error:
            _end([process, channel])
            problem = shortened(f"{reply.error}: {reply.text}", MAX_ERROR)
            raise PluginProcessError(f"cannot be loaded in its process: {problem}")
        self._process, self._channel = process, channel
        self.generation += 1
        if hasattr(self, "_alive"):
            self._alive[:] = [process, channel]

    def _exit_reason(self) -> str:
        """Return how the process ended. It stays a zombie, so that its ID still names its process group."""
        process = self._process
        if process is None:
            return "it exited"
        deadline = time.monotonic() + 1.0
        while (ended := os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)) is None:
            if time.monotonic() >= deadline:
                return "killed: it closed its channel"
            time.sleep(0.005)
        if ended.si_code == os.CLD_EXITED:
            return f"it exited with code {ended.si_status}"
        return f"it was terminated by signal {ended.si_status}"

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


def _raised(reply: Reply) -> PluginProcessError:
    """Return the plugin's exception with its name, so that messages are the same as without isolation."""
    name = reply.error if reply.error.isidentifier() and len(reply.error) <= 200 else "Exception"
    raised: PluginProcessError = type(name, (PluginProcessError,), {})(shortened(reply.text, MAX_ERROR))
    set_author_frames(raised, [_frame(*each) for each in reply.frames[:MAX_FRAMES]])
    return raised


def _frame(filename: str, line: int, name: str, text: str) -> traceback.FrameSummary:
    return traceback.FrameSummary(filename, line, name, lookup_line=False, line=shortened(text))


def _end(things: list[Any]) -> None:
    process, channel = things
    if channel is not None:
        channel.close()
    if process is not None and process.returncode is None:
        _kill(process.pid)
        process.wait()


def _kill(leader: int) -> None:
    """Kill a plugin's process and all processes that it started.

    The group is stopped first, so that its members start no further processes, and keep their children. A process that
    has left the group is found as a descendant.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGSTOP)
    for _ in range(_KILL_ROUNDS):
        others = _members(leader)
        for pid in others:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if not others:
            break
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, signal.SIGKILL)


def _members(leader: int) -> list[int]:
    """Return the processes that belong to the session of a process or descend from it, without itself and zombies."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    ended: set[int] = set()
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_bytes().rpartition(b")")[2].split()
        except OSError:  # it has ended
            continue
        pid = int(path.parent.name)
        parents[pid] = int(fields[1])
        if int(fields[3]) == leader:
            found.add(pid)
        if fields[0] in b"ZX":
            ended.add(pid)
    for pid in parents:
        line = [pid]
        while line[-1] in parents and line[-1] not in found and line[-1] != leader:
            line.append(parents[line[-1]])
        if line[-1] in found or line[-1] == leader:
            found.update(line)
    return sorted(found - ended - {leader})
