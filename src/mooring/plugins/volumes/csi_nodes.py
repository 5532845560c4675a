"""CSINode objects in columns: installed drivers, volume limits, and in-tree plugins migrated to CSI drivers."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api.storage import CSINode
from mooring.framework import Handle

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
#: The limit of a driver that has none.
NO_LIMIT: Final = 2**62


def volume_limits(node: CSINode) -> dict[str, int]:
    """Return the volume limit of each driver on a node; a driver that is not listed has none."""
    return {
        driver.name: driver.allocatable.count
        for driver in node.spec.drivers
        if driver.allocatable is not None and driver.allocatable.count is not None
    }


def migrated_plugins(node: CSINode) -> frozenset[str]:
    """Return the in-tree plugins migrated to CSI drivers on a node, from its annotation."""
    return frozenset(node.annotations.get(MIGRATED_PLUGINS, "").split(",")) - {""}


class CSINodeColumns:
    """The CSINode objects by row. Call ``sync`` before reading."""

    def __init__(self, handle: Handle) -> None:
        self._table = handle.table
        self._lister = handle.lister(CSINode)
        self._lister.listen(self._changed)
        self._cursor = self._table.node_cursor(survives_resize=True)
        #: Rows whose node has a CSINode object.
        self.exists: Mask = np.zeros(0, dtype=np.bool_)
        #: Rows where some driver has a limit.
        self.limited: Mask = np.zeros(0, dtype=np.bool_)
        #: Driver -> limit by row.
        self.limits: dict[str, Ints] = {}
        #: In-tree plugin -> rows where it is migrated.
        self.migrated: dict[str, Mask] = {}
        #: Driver -> rows where it is installed.
        self.installed: dict[str, Mask] = {}

    def _changed(self, old: CSINode | None, new: CSINode | None) -> None:
        changed = new or old
        if changed is not None:
            self._cursor.mark(changed.name)

    def sync(self) -> None:
        """Apply the changes since the last call."""
        if self._cursor.current:
            return
        table, size = self._table, len(self._table)
        if size > len(self.exists):
            self._grow(max(64, 2 * size))
        rows = self._cursor.changed(size // 2)
        for row in range(size) if rows is None else rows:
            self._read(row, self._lister.get(table.nodes[row].name))
        self._cursor.advance()

    def _read(self, row: int, node: CSINode | None) -> None:
        limits = volume_limits(node) if node is not None else {}
        plugins = migrated_plugins(node) if node is not None else frozenset()
        self.exists[row] = node is not None
        self.limited[row] = bool(limits)
        for driver in limits.keys() - self.limits.keys():
            self.limits[driver] = np.full(len(self.exists), NO_LIMIT, dtype=np.int64)
        for plugin in plugins - self.migrated.keys():
            self.migrated[plugin] = np.zeros(len(self.exists), dtype=np.bool_)
        for driver, column in self.limits.items():
            column[row] = limits.get(driver, NO_LIMIT)
        for plugin, mask in self.migrated.items():
            mask[row] = plugin in plugins
        drivers = {driver.name for driver in node.spec.drivers} if node is not None else set()
        for driver in drivers - self.installed.keys():
            self.installed[driver] = np.zeros(len(self.exists), dtype=np.bool_)
        for driver, mask in self.installed.items():
            mask[row] = driver in drivers

    def _grow(self, size: int) -> None:
        more = size - len(self.exists)
        self.exists = np.concatenate([self.exists, np.zeros(more, dtype=np.bool_)])
        self.limited = np.concatenate([self.limited, np.zeros(more, dtype=np.bool_)])
        for driver, column in self.limits.items():
            self.limits[driver] = np.concatenate([column, np.full(more, NO_LIMIT, dtype=np.int64)])
        for masks in (self.migrated, self.installed):
            for name, mask in masks.items():
                masks[name] = np.concatenate([mask, np.zeros(more, dtype=np.bool_)])
