"""The host functions that a guest may call, except those that shared_memory.wat implements.

One `Host` serves one instance of a guest. Pointers and lengths are 32-bit numbers of the guest's memory. A function
that returns data writes it only if it fits, and returns its length; the guest then retries with a larger buffer.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.pod import Pod
from mooring.api.protobuf import encode_list
from mooring.framework import ActionType, ClusterEvent, Handle
from mooring.framework.waiting_pods import WaitingPods
from mooring.loading.wasm.guest_config import GuestArgs
from mooring.loading.wasm.shared_memory import EncodedNodes, pod_bytes
from mooring.logs import get_logger

if TYPE_CHECKING:
    from mooring.loading.wasm.shared_memory import GuestMemory


#: Imported module and function -> the method that implements it.
METHODS: Final = {
    ("k8s.io/api", "nodeList"): "node_list",
    ("k8s.io/klog", "log"): "log",
    ("k8s.io/klog", "logs"): "logs",
    ("k8s.io/klog", "severity"): "severity",
    ("k8s.io/scheduler", "get_config"): "get_config",
    ("k8s.io/scheduler", "targetPod"): "target_pod",
    ("k8s.io/scheduler", "filteredNodeList"): "filtered_node_list",
    ("k8s.io/scheduler", "nodeToStatusMap"): "node_to_status_map",
    ("k8s.io/scheduler", "nodeScoreList"): "node_score_list",
    ("k8s.io/scheduler", "nodeImageStates"): "image_states",
    ("k8s.io/scheduler", "result.nominated_node_name"): "nominate",
    ("k8s.io/scheduler", "result.node_names"): "node_names",
    ("k8s.io/scheduler", "result.cluster_events"): "cluster_events",
    ("k8s.io/scheduler", "result.normalized_score_list"): "normalized",
    ("k8s.io/scheduler", "handle.eventrecorder.eventf"): "record",
    ("k8s.io/scheduler", "handle.reject_waiting_pod"): "reject_waiting",
    ("k8s.io/scheduler", "handle.get_waiting_pod"): "get_waiting",
}
#: WASI preview 1: the type of a clock subscription, and the errno of an unsupported one.
_CLOCK, _NOT_SUPPORTED = 0, 58
_INVALID: Final = 28
#: The maximum number of subscriptions of one poll. Guests sleep with one.
_MAX_SUBSCRIPTIONS: Final = 1024
#: The maximum number of bytes of a log message, an event, the registered cluster events, and lists of nodes. They are
#: copied and decoded outside of the guest's memory and time limits.
_MAX_LOG, _MAX_EVENT, _MAX_CLUSTER_EVENTS, _MAX_NODES = 64 << 10, 64 << 10, 8 << 10, 16 << 20
#: The maximum number of log messages and events of one call.
_MAX_MESSAGES: Final = 1000
_SEVERITIES: Final = ("info", "warning", "error", "critical")


class Reference(msgspec.Struct, rename="pascal"):
    """A reference to an object, as the guest SDK encodes it."""

    kind: str = ""
    api_version: str = msgspec.field(name="APIVersion", default="")
    name: str = ""
    namespace: str = ""
    uid: str = msgspec.field(name="UID", default="")
    resource_version: str = ""

    def as_object(self) -> KubeObject:
        """Return an object with the metadata of the reference."""
        metadata = ObjectMeta(
            name=self.name, namespace=self.namespace, uid=self.uid, resource_version=self.resource_version
        )
        return KubeObject(api_version=self.api_version, kind=self.kind, metadata=metadata)


class EventMessage(msgspec.Struct, rename="pascal"):
    """An event that a guest records."""

    regarding_reference: Reference = msgspec.field(default_factory=Reference)
    related_reference: Reference = msgspec.field(default_factory=Reference)
    eventtype: str = ""
    reason: str = ""
    action: str = ""
    note: str = ""


class Host:
    """The host functions of one instance."""

    def __init__(self, plugin: str, args: GuestArgs, handle: Handle, nodes: EncodedNodes) -> None:
        self._plugin = plugin
        self._args = args
        self._handle = handle
        self._nodes = nodes
        self.call: Call = NO_CALL
        #: The number of log messages and events in the current call.
        self.messages = 0
        self.memory: GuestMemory  # set after instantiation; no earlier call needs it
        #: Whether the guest has read the current node. From then on, nodes are written to the shared memory.
        self.reads_nodes = False

    # Reads

    def node_list(self, at: int, limit: int) -> int:
        """Return all nodes as a NodeList."""
        return self._write(encode_list(self._nodes.encoded(info.node) for info in self._handle.nodes), at, limit)

    def get_config(self, at: int, limit: int) -> int:
        """Return the guest's configuration."""
        return self._write(self._args.guest_config.encode(), at, limit)

    def target_pod(self, at: int, limit: int) -> int:
        """Return the pod that is added or removed."""
        return self._write(b"" if self.call.target is None else pod_bytes(self.call.target), at, limit)

    def filtered_node_list(self, at: int, limit: int) -> int:
        """Return the names of the feasible nodes."""
        return self._write_lazy(self.call.filtered_nodes, at, limit)

    def node_to_status_map(self, at: int, limit: int) -> int:
        """Return the status codes of the rejected nodes."""
        return self._write_lazy(self.call.statuses, at, limit)

    def node_score_list(self, at: int, limit: int) -> int:
        """Return the scores by node."""
        return self._write_lazy(self.call.scores, at, limit)

    def _write(self, answer: bytes, at: int, limit: int) -> int:
        if len(answer) <= limit % 2**32:
            self.memory.write(at, answer)
        return len(answer)

    def _write_lazy(self, make: Callable[[], bytes] | None, at: int, limit: int) -> int:
        return 0 if make is None else self._write(make(), at, limit)

    def node(self, name: int, length: int, at: int, limit: int) -> int:
        """Return a node by name; empty if it does not exist."""
        info = self._handle.nodes.get(self.memory.text(name, length))
        if info is None:
            return 0
        self.reads_nodes = True
        return self._write(self._nodes.encoded(info.node), at, limit)

    def image_states(self, name: int, length: int, at: int, limit: int) -> int:
        """Return the images of a node, with their sizes and the number of nodes that have them."""
        info = self._handle.nodes.get(self.memory.text(name, length))
        if info is None:
            return self._write(b"null", at, limit)
        images = self._handle.table.images
        states = {}
        for image in info.node.status.images:
            for each in image.names:
                state = images.get(each)
                if state is not None:
                    states[each] = {"Size": state.size, "NumNodes": state.rows.total}
        return self._write(json_text(states), at, limit)

    # Results

    def nominate(self, at: int, length: int) -> None:
        """Set the nominated node (PostFilter)."""
        self.call.nominated_node = self._text(at, length, _MAX_LOG, "the nominated node")

    def node_names(self, at: int, length: int) -> None:
        """Set the nodes to which PreFilter restricts the attempt."""
        names = tuple(filter(None, self._text(at, length, _MAX_NODES, "the list of nodes").split("\0")))
        self.call.node_names = names or None

    def cluster_events(self, at: int, length: int) -> None:
        """Set the events that make a pod schedulable again (Enqueue)."""
        self.call.events = decode_events(self._read(at, length, _MAX_CLUSTER_EVENTS, "the list of cluster events"))

    def normalized(self, at: int, length: int) -> None:
        """Set the normalized scores (NormalizeScore)."""
        content = self._read(at, length, _MAX_NODES, "the list of scores")
        found = msgspec.json.decode(content, type=dict[str, int] | None)
        self.call.normalized = found or None

    # Logs, events, waiting pods

    def severity(self) -> int:
        """Return the minimum severity that is logged."""
        return self._args.log_severity

    def log(self, severity: int, at: int, length: int) -> None:
        """Log a message."""
        self._log(severity, self._text(at, length, _MAX_LOG, "a log message"), {})

    def logs(self, severity: int, at: int, length: int, pairs: int, pairs_length: int) -> None:
        """Log a message with keys and values."""
        words = self._text(pairs, pairs_length, _MAX_LOG, "a log message").split("\0")  # the last word is empty
        text = self._text(at, length, _MAX_LOG, "a log message")
        self._log(severity, text, dict(zip(words[::2], words[1::2], strict=False)))

    def _log(self, severity: int, text: str, pairs: dict[str, Any]) -> None:
        if severity >= self._args.log_severity and self._may_write():
            log = getattr(get_logger("mooring"), _SEVERITIES[min(max(severity, 0), 3)])
            # The log does not escape keys, so they must not contain line breaks.
            fields = {key if key.isidentifier() else repr(key): each for key, each in pairs.items()}
            log(text.rstrip("\n"), **{**fields, "plugin": self._plugin})

    def record(self, at: int, length: int) -> None:
        """Record an event."""
        message = msgspec.json.decode(self._read(at, length, _MAX_EVENT, "an event"), type=EventMessage)
        if not self._may_write():
            return
        related = message.related_reference
        self._handle.events.record(
            message.regarding_reference.as_object(),
            type=message.eventtype,
            reason=message.reason,
            action=message.action,
            note=message.note,
            related=related.as_object() if related.name else None,
        )

    def _may_write(self) -> bool:
        """Count a log message or event of the call, and return whether it is within the limit."""
        self.messages += 1
        if self.messages == _MAX_MESSAGES + 1:
            text = "a guest wrote too many log messages and events in one call; further ones are dropped"
            get_logger("mooring").warning(text, plugin=self._plugin, limit=_MAX_MESSAGES)
        return self.messages <= _MAX_MESSAGES

    def _read(self, at: int, length: int, limit: int, what: str) -> bytes:
        """Read what the guest wrote. Raises ValueError if it is too long."""
        if length % 2**32 > limit:
            raise ValueError(f"{what} has {length % 2**32} bytes; the limit is {limit}")
        return self.memory.read(at, length)

    def _text(self, at: int, length: int, limit: int, what: str) -> str:
        return self._read(at, length, limit, what).decode("utf-8", "replace")

    def poll(self, subscriptions: int, events: int, count: int, found: int) -> int:
        """Implement WASI's poll_oneoff, with which guests sleep. Return at once, because a sleep would delay others."""
        if not 0 <= count <= _MAX_SUBSCRIPTIONS:
            return _INVALID
        for number in range(count):
            user_data, kind = struct.unpack("<QB", self.memory.read(subscriptions + 48 * number, 9))
            errno = 0 if kind == _CLOCK else _NOT_SUPPORTED
            self.memory.write(events + 32 * number, struct.pack("<QHB21x", user_data, errno, kind))
        self.memory.write(found, struct.pack("<I", count))
        return 0

    @property
    def _waiting(self) -> WaitingPods:
        return self._handle.waiting_pods

    def reject_waiting(self, uid: int, length: int, at: int, _limit: int) -> None:
        """Reject a pod that is waiting at Permit, and write whether it was waiting."""
        waiting = self._waiting.get(self.memory.text(uid, length))
        if waiting is not None:
            waiting.reject("", "removed")
        self.memory.write(at, struct.pack("<Q", int(waiting is not None)))

    def get_waiting(self, uid: int, length: int, at: int, limit: int) -> None:
        """Return a pod that is waiting at Permit."""
        waiting = self._waiting.get(self.memory.text(uid, length))
        if waiting is None:
            self.memory.write(at, bytes(8))
        else:
            self._write(pod_bytes(waiting.pod), at, limit)


class Call(msgspec.Struct, kw_only=True):
    """The inputs of one call into a guest, and its results in addition to the returned number."""

    pod: Pod | None = None
    #: The pod that is added or removed (AddPod, RemovePod).
    target: Pod | None = None
    node_name: str = ""
    #: Functions that return JSON: names of feasible nodes (PreScore), codes by node (PostFilter), scores by node
    #: (NormalizeScore).
    filtered_nodes: Callable[[], bytes] | None = None
    statuses: Callable[[], bytes] | None = None
    scores: Callable[[], bytes] | None = None

    node_names: tuple[str, ...] | None = None
    nominated_node: str = ""
    events: tuple[ClusterEvent, ...] = ()
    normalized: dict[str, int] | None = None


NO_CALL = Call()


def json_text(value: Any) -> bytes:
    """Encode JSON with sorted keys, as Go does."""
    return msgspec.json.encode(value, order="deterministic")


#: Number in the interface -> kind. Kubernetes removed PodSchedulingContext (4).
_KINDS: Final = {
    0: "Pod",
    1: "Node",
    2: "PersistentVolume",
    3: "PersistentVolumeClaim",
    5: "ResourceClaim",
    6: "StorageClass",
    7: "CSINode",
    8: "CSIDriver",
    9: "CSIStorageCapacity",
    10: "*",
}
#: The interface has only these four node updates. All of them together mean any update.
_ALL_UPDATES: Final = 0b111100
_KNOWN: Final = 0b111111


def decode_events(records: bytes) -> tuple[ClusterEvent, ...]:
    """Decode little-endian pairs of kind number and action bits. Unknown kinds are skipped."""
    found = []
    for kind, bits in struct.iter_unpack("<II", records[: len(records) // 8 * 8]):
        actions = ActionType(bits & _KNOWN)
        if bits & _ALL_UPDATES == _ALL_UPDATES:
            actions |= ActionType.UPDATE
        if kind in _KINDS and actions:
            found.append(ClusterEvent(_KINDS[kind], actions))
    return tuple(found)
