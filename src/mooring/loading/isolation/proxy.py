"""The proxy of an isolated plugin: a class with the same extension points that calls the plugin's process."""

from __future__ import annotations

import functools
import inspect
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar, Final

import msgspec
import numpy as np

from mooring.api.codec import encode_json
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.columns.nodes import Nodes
from mooring.framework.declarations import declared_kinds, declared_listers
from mooring.framework.handle import Handle
from mooring.framework.listers import Lister
from mooring.framework.plugin import Plugin
from mooring.framework.state import CycleState, StateKey
from mooring.loading.isolation.plugin_process import PluginProcess
from mooring.loading.load_errors import Fault, PluginLoadError
from mooring.loading.plugin_files import FoundPlugin

#: Unsupported method -> why it is not supported.
_UNSUPPORTED: Final = {
    "less": "it is called for every comparison of two pods",
    "post_filter": "it calls the other plugins",
    "may_evict": "it is called for every possible victim",
    "score_allocation": "it is called for every possible allocation",
    "bind": "it writes to the API server",
    "run": "it runs in the scheduler's event loop",
    "add_pod": "it changes the state of hypothetical attempts",
    "remove_pod": "it changes the state of hypothetical attempts",
    "what_if": "it changes the state of hypothetical attempts",
    "pre_bind_pre_flight": "it belongs to long-running bindings",
    **dict.fromkeys(
        ("generate_placements", "placement_feasible", "score_placements"),
        "groups of pods are not sent to the process",
    ),
}
#: The maximum number of changes in one message, so that a message is processed well within the timeout of a call.
_MAX_CHANGES: Final = 2000
_numbers = itertools.count(1)


class IsolatedPlugin(Plugin):
    """The base class of the classes that `isolated` creates."""

    process: ClassVar[PluginProcess]
    seconds: ClassVar[float]
    #: The plugin's class, the timeout in seconds, and the memory limit.
    settings: ClassVar[tuple[type[Plugin], float, int]]
    volumes_only: ClassVar[bool] = False

    def setup(self) -> None:
        """Create the plugin in its process, with a copy of all objects that it can read."""
        self._attempt: StateKey[int] = StateKey(f"{self.name}/attempt")
        self._instance = self.process.new_instance()
        self._generation = -1
        self._feed = ChangeFeed(self.handle, declared_kinds([type(self)]))
        self.handle.listen(self)
        for kind in self._feed.kinds:
            self.handle.lister(kind).listen(self._object_changed)
        weakref.finalize(self, self.process.drop_instance, self._instance)
        self._call("", None, ())

    def pod_added(self, info: Any, row: int) -> None:
        """Queue a pod that was added to a node."""
        self._feed.pods[info.pod.uid] = info.pod

    def pod_removed(self, info: Any, row: int) -> None:
        """Queue a pod that was removed from a node."""
        self._feed.pods[info.pod.uid] = None

    def _object_changed(self, old: Any, new: Any) -> None:
        item = new if new is not None else old
        self._feed.objects[type(item), item.namespace, item.name] = new

    def _call(self, method: str, pod: Pod | None, rest: Iterable[Any], attempt: int = 0) -> Any:
        process, new = self.process, None
        if self._generation != process.generation:
            self._feed.reset()
            new = [self.handle.profile_name, msgspec.to_builtins(self.args), msgspec.to_builtins(self.handle.release)]
        changes, begin = self._feed.take(), new is not None
        message = {"attempt": attempt, "pod": b"" if pod is None else encode_json(pod), "rest": list(rest)}
        generation = process.generation
        try:
            while len(changes) > _MAX_CHANGES:  # a whole cluster may take longer than the timeout of a call
                some, changes = changes[:_MAX_CHANGES], changes[_MAX_CHANGES:]
                self._send({"new": new, "begin": False, "changes": some, "method": "", **message})
                new = None
            answer = self._send({"new": new, "begin": begin, "changes": changes, "method": method, **message})
        except BaseException:
            self._generation = -1  # changes may be lost, so the next call sends everything
            raise
        self._generation = generation
        return answer

    def _send(self, message: dict[str, Any]) -> Any:
        return self.process.call({"instance": self._instance, **message}, self.seconds)

    def _call_point(self, method: str, state: CycleState, pod: Pod, *rest: Any) -> Any:
        attempt = state.get(self._attempt)
        if attempt is None:
            attempt = next(_numbers)
            state.write(self._attempt, attempt)
        return self._call(method, pod, rest, attempt)

    def keep_state(self) -> Any:
        """Return the state that the plugin keeps for its next version, as opaque bytes."""
        return self._call("keep_state", None, ())

    def take_state(self, state: Any) -> None:
        """Pass on the state of the previous version, if that was isolated too."""
        if isinstance(state, bytes):
            self._call("take_state", None, (state,))


def _rows(nodes: Nodes) -> bytes | None:
    return None if nodes.rows is None else np.asarray(nodes.rows, dtype=np.int32).tobytes()


def _with_nodes(method: str) -> Callable[..., Any]:
    def call(self: IsolatedPlugin, state: CycleState, pod: Pod, nodes: Nodes) -> Any:
        return self._call_point(method, state, pod, _rows(nodes))

    return call


def _with_node(method: str) -> Callable[..., Any]:
    def call(self: IsolatedPlugin, state: CycleState, pod: Pod, node_name: str) -> Any:
        return self._call_point(method, state, pod, node_name)

    return call


def _normalize(self: IsolatedPlugin, state: CycleState, pod: Pod, scores: Any) -> Any:
    return self._call_point("normalize_scores", state, pod, np.asarray(scores, dtype=np.int64).tobytes())


def _pre_enqueue(self: IsolatedPlugin, pod: Pod) -> Any:
    return self._call_point("pre_enqueue", CycleState(), pod)


def _events(self: IsolatedPlugin) -> Any:
    return self._call_point("events_to_register", CycleState(), Pod())


_CALLS: Final[dict[str, tuple[tuple[str, ...], Callable[..., Any]]]] = {
    "pre_enqueue": (("pre_enqueue",), _pre_enqueue),
    "pre_filter": (("pre_filter",), _with_nodes("pre_filter")),
    "filter_nodes": (("filter", "filter_nodes"), _with_nodes("filter_nodes")),
    "pre_score": (("pre_score",), _with_nodes("pre_score")),
    "score_nodes": (("score", "score_nodes"), _with_nodes("score_nodes")),
    "normalize_scores": (("normalize_scores",), _normalize),
    **{name: ((name,), _with_node(name)) for name in ("reserve", "unreserve", "permit", "pre_bind", "post_bind")},
    "events_to_register": (("events_to_register",), _events),
}


def _declared(call: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call that replaces a method of the plugin, with the method's declarations and source location."""

    @functools.wraps(original)
    def declared(*args: Any) -> Any:
        return call(*args)

    return declared


def isolated(found: FoundPlugin, *, seconds: float, memory: int) -> type[IsolatedPlugin]:
    """Start the process of a plugin and return the plugin's proxy class.

    ``seconds`` is the timeout of a call, after which the process is killed. ``memory`` is the memory limit in bytes
    (0: no limit). Raises PluginLoadError if the plugin does not support isolation or does not start.
    """
    cls: type[Plugin] = found.cls
    path = str(found.path or found.source)
    faults = [
        Fault(
            path,
            0,
            f"{found.name}: '{name}' is not supported with isolation: process, because {why}; remove one of them",
        )
        for name, why in _UNSUPPORTED.items()
        if callable(getattr(cls, name, None))
    ]
    faults += [
        Fault(path, 0, f"{found.name}: '{name}' must not be async with isolation: process; write a plain def")
        for name in ("pre_bind", "post_bind")
        if inspect.iscoroutinefunction(getattr(cls, name, None))
    ]
    if found.path is None:
        faults.append(Fault(path, 0, f"{found.name}: isolation: process is for plugins from files and packages"))
    if faults:
        raise PluginLoadError(faults)
    members: dict[str, Any] = {}
    for name, (methods, call) in _CALLS.items():
        original = next((method for each in reversed(methods) if callable(method := getattr(cls, each, None))), None)
        if original is not None:
            members[name] = _declared(call, original)
    listers = declared_listers(cls)
    members |= {name: Lister(each.kind, events=each.events, gate=each.gate) for name, each in listers.items()}
    single = any(
        callable(getattr(cls, one, None)) and not callable(getattr(cls, many, None))
        for one, many in (("filter", "filter_nodes"), ("score", "score_nodes"))
    )
    members |= {
        "name": found.name, "Args": cls.Args, "per_node": single or cls.per_node, "__module__": cls.__module__,
        "__doc__": cls.__doc__, "permissions": cls.permissions, "score_range": cls.score_range, "seconds": seconds,
        "settings": (cls, seconds, memory), "process": PluginProcess(found, memory),
    }  # fmt: skip
    return type(found.name, (IsolatedPlugin,), members)


class ChangeFeed:
    """The changes between two calls, so that the process receives only those."""

    def __init__(self, handle: Handle, kinds: Iterable[type[KubeObject]]) -> None:
        self._handle = handle
        self._table = handle.table
        self.kinds = list(kinds)
        #: Changed pods by UID, and other changed objects by kind, namespace and name; None if deleted.
        self.pods: dict[str, Pod | None] = {}
        self.objects: dict[tuple[type[KubeObject], str, str], KubeObject | None] = {}
        self._sent: dict[str, Node] = {}
        self._cursor = self._table.node_cursor()

    def reset(self) -> None:
        """Queue the whole state for a new process."""
        self._sent.clear()
        self._cursor.reset()
        self.pods = {info.pod.uid: info.pod for info in self._handle.pods if info.node is not None}
        listed = (item for kind in self.kinds for item in self._handle.lister(kind).list())
        self.objects = {(type(item), item.namespace, item.name): item for item in listed}

    def take(self) -> list[list[Any]]:
        """Return the changes since the last call, in an order in which they can be applied."""
        changes = [*self._nodes(), *self._pods(), *self._objects()]
        self.pods, self.objects = {}, {}
        return changes

    def _nodes(self) -> Iterator[list[Any]]:
        table = self._table
        rows = self._cursor.changed(len(table))
        if rows is None:
            yield from self._all_nodes()
        else:
            for row in rows:
                yield from self._node(table.nodes[row].node)
        self._cursor.advance()

    def _all_nodes(self) -> Iterator[list[Any]]:
        names = [info.name for info in self._table.nodes]
        for name in self._sent.keys() - set(names):
            del self._sent[name]
            yield ["node-", name]
        for info in self._table.nodes:
            yield from self._node(info.node)
        yield ["rows", names]

    def _node(self, node: Node) -> Iterator[list[Any]]:
        if self._sent.get(node.name) is not node:
            self._sent[node.name] = node
            yield ["node", encode_json(node)]

    def _pods(self) -> Iterator[list[Any]]:
        for uid, pod in self.pods.items():
            yield ["pod-", uid] if pod is None else ["pod", encode_json(pod)]

    def _objects(self) -> Iterator[list[Any]]:
        for (kind, namespace, name), item in self.objects.items():
            number = self.kinds.index(kind)
            yield ["object-", number, name, namespace] if item is None else ["object", number, encode_json(item)]
