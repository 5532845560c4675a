"""NodeShare: the nodes and pods of one member, if several schedulers work side by side (active-active).

Rendezvous hashing assigns every node and every pod to a member: each member has a weight for each key, and the highest
wins. So members that know each other never both own a key, whatever other members they know, and a member that joins
or leaves moves only its own keys.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from mooring.api.pod import Pod
from mooring.api.scheduling import native_group_key

if TYPE_CHECKING:
    from mooring.columns.table import NodeTable

Mask = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]

#: The label of the pods of a group of the plugin Coscheduling.
_COSCHEDULING: Final = "scheduling.x-k8s.io/pod-group"
_MIX: Final = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
_ALL: Final = (1 << 64) - 1


def key_hash(key: str) -> int:
    """Return a hash of 64 bits that is the same in every process."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big")


def weight(member: int, key: int) -> int:
    """Return the weight of a member for a key, both as hashes."""
    mixed = member ^ key
    mixed = ((mixed ^ (mixed >> 30)) * _MIX[0]) & _ALL
    mixed = ((mixed ^ (mixed >> 27)) * _MIX[1]) & _ALL
    return mixed ^ (mixed >> 31)


def owner_of(key: str, members: Iterable[str]) -> str:
    """Return the member with the highest weight for a key; empty if there is none."""
    hashed = key_hash(key)
    return max(members, key=lambda member: (weight(key_hash(member), hashed), member), default="")


def weights(member: int, keys: Hashes) -> Hashes:
    """Return the weights of a member for many keys."""
    mixed = keys ^ np.uint64(member)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(_MIX[0])
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(_MIX[1])
    return mixed ^ (mixed >> np.uint64(31))


def group_of(pod: Pod) -> str:
    """Return the group of a pod that is scheduled as a whole; empty if there is none."""
    return native_group_key(pod) or pod.labels.get(_COSCHEDULING, "")


def pod_key(pod: Pod) -> str:
    """Return the key of a pod: its group, or its controller, or itself. One member decides about all pods of a key."""
    group = group_of(pod)
    if group:
        return f"{pod.namespace}/{group}"
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return owner.uid
    return pod.uid


def decides(pod: Pod, members: Collection[str]) -> str:
    """Return the member that decides about a pod: the owner of its nominated node, or that of its key."""
    return owner_of(pod.status.nominated_node_name or pod_key(pod), members)


class NodeShare:
    """The nodes that this scheduler may use, and the pods that it decides about.

    ``members`` includes this one, ``me``. ``departed`` are former members whose binds may still be on their way: their
    nodes are not used by anyone. Their pods are decided at once: only one of two binds of a pod succeeds.
    """

    def __init__(self) -> None:
        self.me = ""
        self.members: frozenset[str] = frozenset()
        self.departed: frozenset[str] = frozenset()
        #: The members that this one has published: until it publishes a new one, its decisions may still be bound.
        self.published: frozenset[str] = frozenset()
        #: Whether all members have acknowledged this one. Otherwise it owns and decides nothing.
        self.active = False
        #: The pods (namespace/name) whose node is not usable yet.
        self.delayed: set[str] = set()
        #: How many pods were handed over to other members, and how many handed over by others had to be refused.
        self.handovers = 0
        self.refusals = 0
        self._version = 0
        self._seen: tuple[int, int] | None = None
        self._mask: Mask = np.zeros(0, dtype=np.bool_)
        self._hashes: dict[str, int] = {}

    def set(self, me: str, members: frozenset[str], departed: frozenset[str], *, active: bool) -> bool:
        """Replace the members. Return whether anything changed."""
        if (me, members, departed, active) == (self.me, self.members, self.departed, self.active):
            return False
        self.me, self.members, self.departed, self.active = me, members, departed, active
        self._version += 1
        return True

    def owner(self, node_name: str) -> str:
        """Return the member that owns a node, whether or not it may use the node yet."""
        return owner_of(node_name, self.members)

    def usable(self, node_name: str) -> bool:
        """Return whether this member may choose a node for a pod."""
        return self.active and owner_of(node_name, (*self.members, *self.departed)) == self.me

    def takes(self, pod: Pod) -> bool:
        """Return whether this member decides about a pod now."""
        return self.active and decides(pod, self.members) == self.me

    def may_bind(self, pod: Pod, node_name: str) -> bool:
        """Return whether this member may bind a pod to a node that it has chosen.

        A member that has joined since then does not use the node before this one has published it.
        """
        if not self.active or decides(pod, self.published) != self.me:
            return False
        return owner_of(node_name, self.published | self.departed) == self.me

    def count_failure(self, pod: Pod, *, cleared: bool) -> None:
        """Count a failed attempt: a refusal if another member has handed over the pod and its nomination is cleared."""
        if cleared and pod.status.nominated_node_name and owner_of(pod_key(pod), self.members) != self.me:
            self.refusals += 1

    def mask(self, table: NodeTable) -> Mask:
        """Return which rows of the table are usable. Do not modify it."""
        seen = (self._version, table.structure)
        if seen != self._seen:
            self._seen = seen
            self._mask = self._compute(table)
        return self._mask

    def _compute(self, table: NodeTable) -> Mask:
        if not self.active:
            return np.zeros(len(table), dtype=np.bool_)
        known = self._hashes
        names = [node.name for node in table.nodes]
        self._hashes = {name: known.get(name) or key_hash(name) for name in names}
        keys = np.fromiter(self._hashes.values(), dtype=np.uint64, count=len(names))
        mine = weights(key_hash(self.me), keys)
        best = np.ones(len(names), dtype=np.bool_)
        for member in (*self.members, *self.departed):
            if member != self.me:
                best &= mine > weights(key_hash(member), keys)
        return best
