"""Device counts: devices as amounts of extended resources, for the scores of NodeResourcesFit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api.affinity import NodeSelector
from mooring.api.devices import DeviceClass
from mooring.api.node_selectors import compile_node_selector
from mooring.framework import Handle, Nodes, NodeTable
from mooring.plugins.dynamic_resources.device_state import DeviceState, device_state
from mooring.plugins.dynamic_resources.pools import DeviceContent, DeviceID, SliceDevices
from mooring.plugins.dynamic_resources.selectors import SelectorError

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp] | slice

#: The rows of the array of counts.
_TOTAL, _USED, _FAILED = range(3)
_EVERYWHERE: Final = slice(None)


class DeviceCounts:
    """Counts the devices of nodes by class. All plugins on a cache share it, so that a reload adds no listeners."""

    def __init__(self, table: NodeTable, state: DeviceState) -> None:
        self._table = table
        self._state = state
        self._classes: dict[str, _ClassDevices] = {}
        state.tracker.usage.listeners.append(self._usage_changed)
        state.index.listeners.append(self._slice_changed)
        state.classes.listen(self._class_changed)

    def of(self, names: Iterable[str]) -> Mapping[str, tuple[Ints, Ints]]:
        """Return the devices, and the allocated ones, of the resources that a class provides, by row."""
        found = {}
        for name in names:
            provider = self._state.extended.get(name)
            if provider is not None:
                found[name] = self._of_class(provider).counts()
        return found

    def _of_class(self, provider: DeviceClass) -> _ClassDevices:
        found = self._classes.get(provider.name)
        if found is None or found.provider is not provider:
            found = self._classes[provider.name] = _ClassDevices(self._table, self._state, provider)
        return found

    # Changes. The scores of nodes whose devices changed are no longer valid.

    def _class_changed(self, old: DeviceClass | None, new: DeviceClass | None) -> None:
        if old is not None and self._classes.pop(old.name, None) is not None:
            self._touch(tuple(self._table.row_of))

    def _slice_changed(self, devices: SliceDevices) -> None:
        node = _node_of(devices)
        if not node:
            for each in self._classes.values():
                each.slices_changed()
        self._changed({node})

    def _usage_changed(self, device: DeviceID) -> None:
        self._changed({_node_of(each) for each in self._state.index.slices_of_pool(device[:2])})

    def _changed(self, nodes: Collection[str]) -> None:
        """Count the devices of some nodes again; an empty name stands for the slices of several nodes."""
        for each in self._classes.values():
            for node in nodes:
                each.changed(node)
        self._touch(tuple(self._table.row_of) if "" in nodes else nodes)

    def _touch(self, names: Iterable[str]) -> None:
        for name in names:
            self._table.touch(name)


class _ClassDevices:
    """The devices of one class. Only nodes whose devices changed are counted again."""

    def __init__(self, table: NodeTable, state: DeviceState, provider: DeviceClass) -> None:
        self.provider = provider
        self._table = table
        self._state = state
        self._cursor = table.node_cursor(survives_resize=True)
        self._selectors = [
            state.selectors.of(each.cel.expression) for each in provider.spec.selectors if each.cel is not None
        ]
        #: Slices of no single node; None if they have to be found.
        self._slices: list[SliceDevices] | None = None
        self._shared_changed = True
        #: Total, used and failed by row: of the slices of one node, and of the others.
        self._own: Ints = np.zeros((3, 0), dtype=np.int64)
        self._shared: Ints = np.zeros((3, 0), dtype=np.int64)

    def changed(self, node: str) -> None:
        """Count the devices of a node again; those that several nodes share if the name is empty."""
        if node:
            self._cursor.mark(node)
        else:
            self._shared_changed = True

    def slices_changed(self) -> None:
        """Find the slices of several nodes again."""
        self._slices = None

    def counts(self) -> tuple[Ints, Ints]:
        """Return the devices and the allocated ones by row; none where a selector fails."""
        if not self._cursor.current or self._slices is None or self._shared_changed:
            self._refresh()
        found = self._own if not self._slices else self._own + self._shared
        fine = found[_FAILED] == 0
        return found[_TOTAL] * fine, found[_USED] * fine

    def _refresh(self) -> None:
        table, size = self._table, len(self._table)
        rows = self._cursor.changed(size // 2)
        if self._own.shape[1] != size:
            kept = min(size, self._own.shape[1])
            self._own = np.concatenate([self._own[:, :kept], np.zeros((3, size - kept), dtype=np.int64)], axis=1)
        for row in range(size) if rows is None else rows:
            slices = self._state.index.slices_of_node(table.nodes[row].name)
            self._own[:, row] = np.sum([self._count(each) for each in slices if _node_of(each)] or [(0, 0, 0)], axis=0)
        if self._slices is None:
            self._slices = [each for each in self._state.index.slices() if not _node_of(each)]
            self._shared_changed = True
        if self._slices and (self._shared_changed or rows != [] or self._shared.shape[1] != size):
            self._shared = np.zeros((3, size), dtype=np.int64)
            for each in self._slices:
                self._count_shared(each)
        self._shared_changed = False
        self._cursor.advance()

    def _count_shared(self, devices: SliceDevices) -> None:
        spec = devices.spec
        if not spec.per_device_node_selection:
            rows = self._rows(spec.node_name, spec.all_nodes, spec.node_selector, default=_EVERYWHERE)
            self._shared[:, rows] += np.array(self._count(devices))[:, None]
            return
        for place, each in enumerate(spec.devices):
            rows = self._rows(each.node_name, each.all_nodes, each.node_selector, default=slice(0))
            self._shared[:, rows] += np.array(self._count(devices, place))[:, None]

    def _rows(self, name: str | None, all_nodes: bool | None, selector: NodeSelector | None, *, default: slice) -> Rows:
        if all_nodes:
            return _EVERYWHERE
        if name:
            row = self._table.row_of.get(name)
            return slice(0) if row is None else slice(row, row + 1)
        if selector is not None:
            return np.flatnonzero(Nodes(self._table).matches_any(compile_node_selector(selector).terms))
        return default

    def _count(self, devices: SliceDevices, place: int | None = None) -> tuple[int, int, int]:
        """Return how many devices of a slice, or whether one of them, match, are in use, and fail."""
        total = used = failed = 0
        view = self._state.tracker.usage.view
        for number in range(len(devices.contents)) if place is None else (place,):
            try:
                if self._matches(devices.contents[number]):
                    total += 1
                    used += view.is_allocated(devices.ids[number])
            except SelectorError:
                failed += 1
        return total, used, failed

    def _matches(self, content: DeviceContent) -> bool:
        return all(each.matches(content) for each in self._selectors)


def _node_of(devices: SliceDevices) -> str:
    """Return the only node that can use a slice; empty if the slice is not restricted to one."""
    return "" if devices.spec.all_nodes or devices.spec.per_device_node_selection else devices.node_name


def device_counts(handle: Handle) -> DeviceCounts:
    """Return the counts that all plugins on a cache share."""
    return handle.objects.derived(DeviceCounts, lambda: DeviceCounts(handle.table, device_state(handle)))
