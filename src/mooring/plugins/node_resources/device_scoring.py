"""Devices as amounts of extended resources, for the scores of NodeResourcesFit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from mooring.api.devices import DeviceClass
from mooring.api.node_selectors import compile_node_selector
from mooring.framework import Handle
from mooring.plugins.dynamic_resources.device_state import DeviceState, device_state
from mooring.plugins.dynamic_resources.extended_resources import is_device_resource
from mooring.plugins.dynamic_resources.pools import DeviceContent, DeviceID, SliceDevices
from mooring.plugins.dynamic_resources.selectors import SelectorError
from mooring.plugins.node_resources.scoring import ScoringStrategy

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]


class DeviceScoring:
    """Counts the devices of nodes by class, if the scoring strategy has extended resources."""

    def __init__(self, handle: Handle, strategy: ScoringStrategy) -> None:
        self._handle = handle
        self._names = frozenset(spec.name for spec in strategy.resources if is_device_resource(spec.name))
        self._state: DeviceState | None = None
        if self._names:
            self._state = device_state(handle)
            self._state.tracker.usage.listeners.append(self._usage_changed)
            self._state.index.listeners.append(self._touch)

    def _usage_changed(self, device: DeviceID) -> None:
        assert self._state is not None
        self._touch(self._state.index.nodes_of(device[:2]))

    def _touch(self, names: Iterable[str]) -> None:
        """Drop the cached scores of nodes whose devices changed."""
        for name in names:
            self._handle.touch(name)

    def counts(self, names: Iterable[str], rows: Rows | None) -> Mapping[str, tuple[Ints, Ints]]:
        """Return the devices, and the allocated ones, of the resources that a class provides, by row."""
        if self._state is None:
            return {}
        found = {}
        for name in names:
            provider = self._state.extended.get(name) if name in self._names else None
            if provider is not None:
                found[name] = self._count(self._state, provider)
        return found

    def _count(self, state: DeviceState, provider: DeviceClass) -> tuple[Ints, Ints]:
        table = self._handle.table
        total, used = np.zeros(len(table), dtype=np.int64), np.zeros(len(table), dtype=np.int64)
        failed = np.zeros(len(table), dtype=np.bool_)
        for each in state.index.slices():
            rows, devices = self._reached(each)
            for place, content in enumerate(each.contents):
                where = rows if devices is None else devices[place]
                if not len(where):
                    continue
                try:
                    if not _matches(state, provider, content):
                        continue
                except SelectorError:
                    failed[where] = True
                    continue
                total[where] += 1
                if state.tracker.usage.view.is_allocated(each.ids[place]):
                    used[where] += 1
        total[failed], used[failed] = 0, 0
        return total, used

    def _reached(self, devices: SliceDevices) -> tuple[Rows, list[Rows] | None]:
        """Return the rows that a slice reaches or, if each device selects its nodes, the rows of each device."""
        spec = devices.spec
        if spec.per_device_node_selection:
            return np.zeros(0, dtype=np.intp), [
                self._rows(each.node_name, each.all_nodes, each.node_selector, default=False) for each in spec.devices
            ]
        return self._rows(spec.node_name, spec.all_nodes, spec.node_selector, default=True), None

    def _rows(self, name: str | None, all_nodes: bool | None, selector: object, *, default: bool) -> Rows:
        table = self._handle.table
        if all_nodes:
            return np.arange(len(table))
        if name:
            row = table.row_of.get(name)
            return np.array([] if row is None else [row], dtype=np.intp)
        if selector is not None:
            matcher = compile_node_selector(selector)
            return np.flatnonzero(self._handle.nodes.matches_any(matcher.terms))
        return np.arange(len(table) if default else 0)


def _matches(state: DeviceState, provider: DeviceClass, content: DeviceContent) -> bool:
    return all(
        state.selectors.of(each.cel.expression).matches(content)
        for each in provider.spec.selectors
        if each.cel is not None
    )
