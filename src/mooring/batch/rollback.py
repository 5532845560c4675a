"""View: what a session does to the node table, so that it can be taken back.

Sessions work on the table itself: nothing is copied. When a session is over, pods that were only promised a place are
removed again, and pods that are being evicted are put back, since they are still there.
"""

from __future__ import annotations

from collections.abc import Collection

from mooring.api.pod import Pod
from mooring.columns.table import NodeTable


class View:
    """The table during one session."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        #: Pods that were touched -> the pod and the node it was on before (None: on none).
        self._before: dict[str, tuple[Pod, str | None]] = {}

    def add(self, pod: Pod, node_name: str) -> None:
        """Put a pod on a node."""
        self._remember(pod)
        self._table.add_pod(pod, node_name)

    def remove(self, pod: Pod) -> None:
        """Take a pod away."""
        self._remember(pod)
        self._table.remove_pod(pod.uid)

    def _remember(self, pod: Pod) -> None:
        if pod.uid not in self._before:
            known = self._table.pods.get(pod.uid)
            home = known.node.name if known is not None and known.node is not None else None
            self._before[pod.uid] = (known.pod if known is not None else pod, home)

    def restore(self, keep: Collection[str] = ()) -> None:
        """Make the table what it was, but for some pods (by uid)."""
        for uid, (pod, home) in self._before.items():
            if uid in keep:
                continue
            known = self._table.pods.get(uid)
            now = known.node.name if known is not None and known.node is not None else None
            if now == home:
                continue
            if home is None:
                self._table.remove_pod(uid)
            else:
                self._table.add_pod(pod, home)
        self._before.clear()
