"""The main program of a plugin's process: the plugin, and a copy of the objects that it can read.

Started as ``python -m mooring.loading.isolation.worker FD``. It exits when the scheduler exits.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import random
import resource
import signal
import socket
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from mooring.api.codec import decode_json
from mooring.api.core import Namespace
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.columns.nodes import Nodes
from mooring.columns.table import NodeTable
from mooring.framework.declarations import declared_kinds
from mooring.framework.handle import Handle
from mooring.framework.listers import ObjectStore
from mooring.framework.plugin import Plugin
from mooring.framework.plugin_errors import contain
from mooring.framework.plugin_frames import author_frames
from mooring.framework.state import CycleState
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts
from mooring.loading.isolation.wire import MAX_ERROR, MAX_FRAMES, Closed, pack, receive, send
from mooring.loading.plugin_files import load_file, pick
from mooring.logs import configure_logs
from mooring.releases import Release
from mooring.unexpected_errors import shortened

#: The number of attempts whose cycle state is kept. There are never more at a time.
_MAX_ATTEMPTS: Final = 4096
#: The option of Linux's prctl().
_PR_SET_CHILD_SUBREAPER: Final = 36


class _Instance:
    """One instance of the plugin, with copies of the node table and of other objects."""

    def __init__(self, cls: type[Plugin], profile: str, args: Any, release: Release) -> None:
        self.table, self.objects = NodeTable(release), ObjectStore()
        self._kinds: list[type[KubeObject]] = list(declared_kinds([cls]))
        #: The scheduler's row -> the row in this process.
        self._rows = np.zeros(0, dtype=np.intp)
        self._states: OrderedDict[int, CycleState] = OrderedDict()
        self._cls, self._args = cls, args
        self._handle = Handle(
            profile_name=profile, table=self.table, objects=self.objects, clock=time.time, rng=random.Random()
        )
        self.plugin: Plugin

    def begin(self) -> None:
        """Create the plugin after all objects have arrived."""
        self.plugin = self._cls(self._args, self._handle)

    def apply(self, what: str, *data: Any) -> None:
        """Apply a change."""
        if what == "node":
            self.table.add_node(decode_json(data[0], Node))
        elif what == "node-":
            if data[0] in self.table.row_of:
                self.table.remove_node(data[0])
        elif what == "rows":
            self._rows = np.array([self.table.row_of[name] for name in data[0]], dtype=np.intp)
        elif what == "pod":
            pod = decode_json(data[0], Pod)
            self.table.remove_pod(pod.uid)
            self.table.add_pod(pod)
        elif what == "pod-":
            self.table.remove_pod(data[0])
        elif what == "object":
            item = decode_json(data[1], self._kinds[data[0]])
            if isinstance(item, Namespace):
                self.table.set_namespace(item.name, item.labels)
            self.objects.put(item)
        elif what == "object-":
            self.objects.lister(self._kinds[data[0]]).remove(data[1], data[2])

    def call(self, method: str, attempt: int, pod: bytes, rest: list[Any]) -> object:
        """Call a method of the plugin."""
        if method == "keep_state":
            return pack(pickle.dumps(self.plugin.keep_state()))
        if method == "take_state":
            self.plugin.take_state(pickle.loads(rest[0]))  # from an older version of the same plugin
            return None
        if method == "events_to_register":
            return pack(self.plugin.events_to_register())
        decoded = decode_json(pod, Pod)
        if method == "pre_enqueue":
            return pack(self.plugin.pre_enqueue(decoded))
        state = self._state(attempt)
        if method in ("unreserve", "post_bind"):
            self._states.pop(attempt, None)
        if method in ("pre_filter", "pre_score"):
            return pack(getattr(self.plugin, method)(state, decoded, self._nodes(rest[0])))
        if method == "filter_nodes":
            return pack(self._filter(state, decoded, self._nodes(rest[0])))
        if method == "score_nodes":
            return pack(self._score(state, decoded, self._nodes(rest[0])))
        if method == "normalize_scores":
            scores = np.frombuffer(rest[0], dtype=np.int64).copy()
            return pack(self.plugin.normalize_scores(state, decoded, scores))
        return pack(getattr(self.plugin, method)(state, decoded, rest[0]))

    def _state(self, attempt: int) -> CycleState:
        state = self._states.get(attempt)
        if state is None:
            state = self._states[attempt] = CycleState()
            if len(self._states) > _MAX_ATTEMPTS:
                self._states.popitem(last=False)
        return state

    def _nodes(self, rows: bytes | None) -> Nodes:
        chosen = self._rows if rows is None else self._rows[np.frombuffer(rows, dtype=np.int32)]
        if rows is None and np.array_equal(chosen, np.arange(len(chosen))):
            return Nodes(self.table)
        return Nodes(self.table, chosen)

    def _filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> object:
        columns = getattr(self.plugin, "filter_nodes", None)
        if columns is not None:
            return columns(state, pod, nodes)
        single: Callable[..., Any] = self.plugin.filter
        return Verdicts.of([_status(single(state, pod, node)) for node in nodes])

    def _score(self, state: CycleState, pod: Pod, nodes: Nodes) -> object:
        columns = getattr(self.plugin, "score_nodes", None)
        if columns is not None:
            return columns(state, pod, nodes)
        single: Callable[..., Any] = self.plugin.score
        return np.array([_number(single(state, pod, node)) for node in nodes])


def _status(answer: object) -> Status | None:
    if answer is None or isinstance(answer, Status):
        return answer
    if isinstance(answer, str):
        return Status.unschedulable(answer)
    raise TypeError(f"returned {type(answer).__name__}; return None, a reason (str) or a Status")


def _number(answer: object) -> float:
    if isinstance(answer, bool) or not isinstance(answer, int | float | np.integer | np.floating):
        raise TypeError(f"score returned {type(answer).__name__}; return a number")
    return answer  # type: ignore[return-value]  # numpy's numbers are numbers


def serve(channel: socket.socket) -> None:
    """Load the plugin, then handle calls until the scheduler closes the channel."""
    hello = receive(channel)
    if hello["memory"]:
        resource.setrlimit(resource.RLIMIT_AS, (hello["memory"], hello["memory"]))
    _limit_processes(hello["processes"])
    if hello["logs"] is not None:
        configure_logs(**hello["logs"])
    path = Path(hello["path"])
    try:
        cls = pick(hello["name"], path, load_file(path, "isolation", pin=hello["sha256"])).cls
    except BaseException as error:
        send(channel, {"number": 0, **_error(error)})
        return
    send(channel, {"number": 0, "answer": None})
    instances: dict[int, _Instance] = {}
    while True:
        message = receive(channel)
        try:
            for dropped in message["dropped"]:
                instances.pop(dropped, None)
            number = message["instance"]
            if message["new"] is not None:
                profile, args, release = message["new"]
                instances[number] = _Instance(cls, profile, args, msgspec.convert(release, Release))
            instance = instances[number]
            for change in message["changes"]:
                instance.apply(*change)
            if message["begin"]:
                instance.begin()
            method = message["method"]
            answer = instance.call(method, message["attempt"], message["pod"], message["rest"]) if method else None
            reply: dict[str, Any] = {"answer": answer}
        except BaseException as error:
            contain(error)
            reply = _error(error)
        send(channel, {"number": message["number"], **reply})


def _limit_processes(count: int) -> None:
    """Limit the processes and threads that the plugin can start, and make it the parent of orphans among them.

    The kernel counts all tasks of the user, also those in other containers, which are not visible here. So the limit
    is raised until a thread can be started, and ``count`` is added. The kernel exempts root.
    """
    with contextlib.suppress(OSError, AttributeError):  # only Linux has it
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    most = 1 << 22 if hard == resource.RLIM_INFINITY else hard
    for limit in (min(64 << doublings, most) for doublings in range(17)):
        resource.setrlimit(resource.RLIMIT_NPROC, (limit, hard))
        try:
            probe = threading.Thread(target=int)
            probe.start()
        except RuntimeError:
            continue
        probe.join()
        break
    highest = min(limit + count, most)
    resource.setrlimit(resource.RLIMIT_NPROC, (highest, highest))


def _error(error: BaseException) -> dict[str, Any]:
    frames = [[each.filename, each.lineno or 0, each.name, each.line or ""] for each in author_frames(error)]
    return {"error": type(error).__name__, "text": shortened(str(error), MAX_ERROR), "frames": frames[-MAX_FRAMES:]}


def _exit_with(parent: int) -> None:
    """Exit when the scheduler exits, even while the plugin hangs."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.killpg(0, signal.SIGKILL)  # with the processes that the plugin started


def main() -> None:
    """Serve on the socket whose file descriptor is the argument."""
    threading.Thread(target=_exit_with, args=(os.getppid(),), daemon=True).start()
    try:
        serve(socket.socket(fileno=int(sys.argv[1])))
    except Closed:
        return


if __name__ == "__main__":
    main()
