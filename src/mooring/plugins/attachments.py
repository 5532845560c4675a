"""The volumes that VolumeAttachment objects have on each row of the table."""

from __future__ import annotations

from collections.abc import Iterator

from mooring.api.storage import PersistentVolume, VolumeAttachment
from mooring.framework import Handle
from mooring.plugins.csi_volumes import CSIVolume

_NOTHING: frozenset[CSIVolume] = frozenset()


class Attachments:
    """Attachments by node, laid out by row when asked."""

    def __init__(self, handle: Handle) -> None:
        self._table = handle.table
        self._volumes = handle.lister(PersistentVolume)
        #: Node -> its attachments by name.
        self._by_node: dict[str, dict[str, VolumeAttachment]] = {}
        #: Persistent volume -> (attachment -> node).
        self._nodes_of: dict[str, dict[str, str]] = {}
        self._cursor = self._table.node_cursor(survives_resize=True)
        self._rows: dict[int, frozenset[CSIVolume]] = {}
        attachments = handle.lister(VolumeAttachment)
        for attachment in attachments.list():
            self._changed(None, attachment)
        attachments.listen(self._changed)
        self._volumes.listen(self._volume_changed)

    def _changed(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None:
            node = old.spec.node_name
            self._cursor.mark(node)
            self._by_node.get(node, {}).pop(old.name, None)
            self._nodes_of.get(old.spec.source.persistent_volume_name or "", {}).pop(old.name, None)
        if new is not None:
            node = new.spec.node_name
            self._cursor.mark(node)
            self._by_node.setdefault(node, {})[new.name] = new
            self._nodes_of.setdefault(new.spec.source.persistent_volume_name or "", {})[new.name] = node

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        volume = new or old
        if volume is not None:
            for node in self._nodes_of.get(volume.name, {}).values():
                self._cursor.mark(node)

    def on_row(self, row: int) -> frozenset[CSIVolume]:
        """The volumes attached on a row, as of the last ``changes``."""
        return self._rows.get(row, _NOTHING)

    def changes(self) -> Iterator[tuple[int, frozenset[CSIVolume], frozenset[CSIVolume]]]:
        """Rows with what was attached there when last asked, and what is now, where the two differ."""
        if self._cursor.current:
            return
        table, size = self._table, len(self._table)
        for row in [row for row in self._rows if row >= size]:
            yield row, self._rows.pop(row), _NOTHING
        rows = self._cursor.changed(size // 2)
        self._cursor.advance()
        if not self._by_node and not self._rows:
            return
        for row in range(size) if rows is None else rows:
            before, now = self.on_row(row), self._on_node(table.nodes[row].name)
            if before != now:
                self._rows[row] = now
                yield row, before, now

    def _on_node(self, name: str) -> frozenset[CSIVolume]:
        attachments = self._by_node.get(name)
        if not attachments:
            return _NOTHING
        found = set()
        for attachment in attachments.values():
            driver, volume_name = attachment.spec.attacher, attachment.spec.source.persistent_volume_name
            volume = self._volumes.get(volume_name) if driver and volume_name is not None else None
            if volume is not None and volume.spec.csi is not None:
                found.add(CSIVolume(driver, volume.spec.csi.volume_handle))
        return frozenset(found)
