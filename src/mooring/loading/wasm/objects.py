"""Pods and nodes in protobuf, encoded once per version of an object."""

from __future__ import annotations

from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.protobuf import encode_object

_KEPT = "_protobuf"


def pod_bytes(pod: Pod) -> bytes:
    """A pod in protobuf; kept on the pod, which never changes."""
    kept: bytes | None = vars(pod).get(_KEPT)
    if kept is None:
        kept = vars(pod)[_KEPT] = encode_object(pod)
    return kept


class NodeTexts:
    """Nodes in protobuf; shared by all instances of a guest."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Node, bytes]] = {}

    def encoded(self, node: Node) -> bytes:
        """A node in protobuf."""
        kept = self._kept.get(node.name)
        if kept is None or kept[0] is not node:
            kept = self._kept[node.name] = (node, encode_object(node))
        return kept[1]

    def forget(self) -> None:
        """Start anew, when there are many nodes in here that are gone."""
        self._kept.clear()

    def __len__(self) -> int:
        return len(self._kept)
