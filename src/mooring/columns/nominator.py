"""Nominated pods: pods without a node for which preemption has reserved room on one."""

from __future__ import annotations

from collections.abc import Iterable

from mooring.columns.node_info import PodInfo


class Nominator:
    """The nominated pods by node."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}

    def __bool__(self) -> bool:
        return bool(self._node_of)

    def add(self, info: PodInfo, node_name: str) -> None:
        """Nominate a pod, replacing an earlier nomination."""
        self.remove(info.pod.uid)
        self._by_node.setdefault(node_name, {})[info.pod.uid] = info
        self._node_of[info.pod.uid] = node_name

    def remove(self, uid: str) -> None:
        """Remove a pod's nomination, if it has one."""
        node_name = self._node_of.pop(uid, None)
        if node_name is None:
            return
        pods = self._by_node[node_name]
        del pods[uid]
        if not pods:
            del self._by_node[node_name]

    def node_of(self, uid: str) -> str | None:
        """Return the node to which a pod is nominated."""
        return self._node_of.get(uid)

    def on_node(self, node_name: str) -> Iterable[PodInfo]:
        """Return the pods nominated to a node."""
        return self._by_node.get(node_name, {}).values()

    def nodes(self) -> Iterable[str]:
        """Return the nodes that have nominated pods."""
        return self._by_node.keys()
