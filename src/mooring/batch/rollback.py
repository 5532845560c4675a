"""Rollback: undoes what a session did to the node table.

Sessions work on the table itself: nothing is copied. When a session is over, pods that were only pipelined are removed
again, and pods that are being evicted are put back, since they are still there.
"""

from __future__ import annotations

from collections.abc import Collection

from mooring.api.pod import Pod
from mooring.columns.table import NodeTable


class Rollback:
    """The pods of the table that a session changed, as they were before."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        #: Uid -> the pod, and the node that it was on before (None: on none).
        self._before: dict[str, tuple[Pod, str | None]] = {}

    def add_pod(self, pod: Pod, node_name: str) -> None:
        """Put a pod on a node of the table."""
        self._save(pod)
        self._table.add_pod(pod, node_name)

    def remove_pod(self, pod: Pod) -> None:
        """Remove a pod from the table."""
        self._save(pod)
        self._table.remove_pod(pod.uid)

    def _save(self, pod: Pod) -> None:
        if pod.uid not in self._before:
            known = self._table.pods.get(pod.uid)
            home = known.node.name if known is not None and known.node is not None else None
            self._before[pod.uid] = (known.pod if known is not None else pod, home)

    def restore(self, keep: Collection[str] = ()) -> None:
        """Restore all pods but those to keep (by uid)."""
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
