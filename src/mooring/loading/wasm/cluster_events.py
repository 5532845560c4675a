"""The events that a guest wants to be woken by, from its records of eight bytes."""

from __future__ import annotations

import struct
from typing import Final

from mooring.framework import ActionType, ClusterEvent

#: Numbers of the interface -> kinds; PodSchedulingContext (4) is gone from Kubernetes.
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
#: The interface has no other updates than these four of nodes; all of them together mean any update.
_ALL_UPDATES: Final = 0b111100
_KNOWN: Final = 0b111111


def decode_events(records: bytes) -> tuple[ClusterEvent, ...]:
    """Little-endian pairs of a kind's number and action bits; what is unknown is left out."""
    found = []
    for kind, bits in struct.iter_unpack("<II", records[: len(records) // 8 * 8]):
        actions = ActionType(bits & _KNOWN)
        if bits & _ALL_UPDATES == _ALL_UPDATES:
            actions |= ActionType.UPDATE
        if kind in _KINDS and actions:
            found.append(ClusterEvent(_KINDS[kind], actions))
    return tuple(found)
