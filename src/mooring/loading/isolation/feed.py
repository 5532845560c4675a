"""Feed: what a plugin's process has not heard of yet, so that its copy of the cluster is current when it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mooring.api.codec import encode_json
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.framework.handle import Handle


class Feed:
    """Gathers changes between two calls; only what changed is sent."""

    def __init__(self, handle: Handle, kinds: Iterable[type[KubeObject]]) -> None:
        self._handle = handle
        self._table = handle.table
        self.kinds = list(kinds)
        #: Pods that came, changed or (None) went, by uid; and other objects, by kind, namespace and name.
        self.pods: dict[str, Pod | None] = {}
        self.objects: dict[tuple[type[KubeObject], str, str], KubeObject | None] = {}
        self._sent: dict[str, Node] = {}
        self._cursor = self._table.node_cursor()

    def everything(self) -> None:
        """The other side knows nothing."""
        self._sent.clear()
        self._cursor.reset()
        self.pods = {info.pod.uid: info.pod for info in self._handle.pods if info.node is not None}
        listed = (item for kind in self.kinds for item in self._handle.lister(kind).list())
        self.objects = {(type(item), item.namespace, item.name): item for item in listed}

    def take(self) -> list[list[Any]]:
        """What is new since the last time, in an order in which it can be applied."""
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
