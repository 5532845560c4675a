"""DeviceIndex: the devices of all nodes, as one number per node.

Nodes with equal signatures have pools that look the same, with the same devices in use. The allocator gives the same
answer for all of them, so it runs once for each signature and not once for each node.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from mooring.api.affinity import NodeSelector
from mooring.api.devices import ResourceSlice
from mooring.api.node import Node
from mooring.api.node_selectors import compile_node_selector
from mooring.framework import Lister, NodeTable
from mooring.plugins.dynamic_resources.allocator_features import allocator_features
from mooring.plugins.dynamic_resources.claim_tracker import DeviceUsage
from mooring.plugins.dynamic_resources.pools import (
    SKIPS_NODE_OPERATIONS,
    DeviceContents,
    DeviceID,
    NodeMatches,
    Pool,
    PoolError,
    PoolID,
    SliceDevices,
    gather_pool,
)
from mooring.releases import Release

Ints = npt.NDArray[np.int64]

#: The numbers of states are assigned anew when there are more.
_MOST_STATES: Final = 200_000


class NodePools:
    """The pools of a node in the order in which they are tried."""

    __slots__ = ("error", "pools", "signature")

    def __init__(self, pools: tuple[Pool, ...], error: str = "") -> None:
        self.pools = pools
        #: Why the slices cannot be evaluated.
        self.error = error
        self.signature = 0


class DeviceIndex:
    """The pools of each node, and their signatures by row. Call ``refresh`` before reading."""

    def __init__(self, table: NodeTable, slices: Lister[ResourceSlice], usage: DeviceUsage, release: Release) -> None:
        self._table = table
        self._usage = usage
        self._release = release
        self._cursor = table.node_cursor(survives_resize=True)
        self._contents = DeviceContents(allocator_features(release))
        self._slices: dict[str, SliceDevices] = {}
        #: Slices with devices: of one node, and of several.
        self._of_node: dict[str, dict[str, SliceDevices]] = {}
        self._shared: dict[str, SliceDevices] = {}
        self._of_pool: dict[PoolID, dict[str, SliceDevices]] = {}
        #: The names of slices whose devices need a feature of the node.
        self._skipping: set[str] = set()
        #: Slices that are relevant for all nodes, because they have counters, by pool.
        self._counters: dict[PoolID, dict[str, SliceDevices]] = {}
        #: Pools that are incomplete or invalid also on nodes that none of their devices reaches.
        self._markers: dict[PoolID, Pool] = {}
        self._stale_markers: set[PoolID] = set()
        self._views: dict[PoolID, dict[Hashable, Pool]] = {}
        self._nodes: dict[str, NodePools] = {}
        self._dirty: set[str] = set()
        self._all_dirty = False
        self._stale: set[Pool] = set()
        self._resign: set[str] = set()
        self._states: dict[Hashable, int] = {}
        self._signatures: dict[Hashable, int] = {}
        #: Increases when the numbers are assigned anew: signatures from before mean nothing.
        self.epoch = 0
        #: Row -> signature.
        self.column: Ints = np.zeros(0, dtype=np.int64)
        #: The number of signatures.
        self.count = 0
        #: Called with every slice that is added, removed or replaced.
        self.listeners: list[Callable[[SliceDevices], None]] = []
        for each in slices.list():
            self._slice_changed(None, each)
        slices.listen(self._slice_changed)
        usage.listeners.append(self._usage_changed)

    def of_node(self, name: str) -> NodePools:
        """Return the pools of a node."""
        return self._nodes.get(name, _NO_POOLS)

    def slices(self) -> Iterable[SliceDevices]:
        """Return all slices."""
        return self._slices.values()

    def slices_of_node(self, name: str) -> Iterable[SliceDevices]:
        """Return the slices with devices that name a node."""
        return self._of_node.get(name, {}).values()

    def slices_of_pool(self, pool: PoolID) -> Iterable[SliceDevices]:
        """Return the slices of a pool, of all generations."""
        return self._of_pool.get(pool, {}).values()

    def of_row(self, row: int) -> NodePools:
        """Return the pools of a row."""
        return self.of_node(self.name_of(row))

    def name_of(self, row: int) -> str:
        """Return the name of the node of a row."""
        return self._table.nodes[row].name

    # Changes

    def _slice_changed(self, old: ResourceSlice | None, new: ResourceSlice | None) -> None:
        if old is not None:
            known = self._slices.pop(old.name, None)
            if known is not None:
                self._touch(known)
                self._store(known, exists=False)
        if new is not None:
            made = self._slices[new.name] = SliceDevices(new, self._contents, self._release)
            self._store(made, exists=True)
            self._touch(made)

    def _store(self, devices: SliceDevices, *, exists: bool) -> None:
        name, pool = devices.value.name, devices.pool
        _put(self._of_pool, pool, name, devices if exists else None)
        if exists and any(devices.skipping):
            self._skipping.add(name)
        else:
            self._skipping.discard(name)
        if devices.is_for_all:
            _put(self._counters, pool, name, devices if exists else None)
        elif devices.node_name:
            _put(self._of_node, devices.node_name, name, devices if exists else None)
        elif exists:
            self._shared[name] = devices
        else:
            self._shared.pop(name, None)

    def _touch(self, devices: SliceDevices) -> None:
        """Mark the nodes whose pools depend on a slice."""
        pool = devices.pool
        for view in self._views.pop(pool, {}).values():
            self._dirty |= view.users
        for each in self._of_pool.get(pool, {}).values():
            self._touch_nodes(each)
        self._touch_nodes(devices)
        if pool in self._counters or devices.is_for_all or pool in self._markers:
            self._stale_markers.add(pool)
        for listener in self.listeners:
            listener(devices)

    def _touch_nodes(self, devices: SliceDevices) -> None:
        if devices.node_name:
            self._dirty.add(devices.node_name)
        elif not devices.is_for_all:
            self._all_dirty = True

    def _usage_changed(self, device: DeviceID) -> None:
        self._stale.update(self._views.get(device[:2], {}).values())

    # Refreshing

    def refresh(self) -> None:
        """Apply the changes since the last call."""
        if len(self._states) > _MOST_STATES or len(self._signatures) > _MOST_STATES:
            self._number_anew()
        if self._stale_markers:
            self._find_markers()
        moved = self._read_rows()
        if self._all_dirty:
            self._dirty.update(self._table.row_of)
        if self._dirty:
            for name in self._dirty:
                self._gather(name)
            self._resign |= self._dirty
            self._dirty = set()
            self._all_dirty = False
        if self._stale:
            for pool in self._stale:
                state = self._state(pool)
                if state != pool.state:
                    pool.state = state
                    self._resign |= pool.users
            self._stale.clear()
        if self._resign or moved:
            self._sign(moved)

    def _read_rows(self) -> list[int]:
        """Return the rows whose node was added, moved or changed; the nodes are dirty if they changed."""
        if self._cursor.current:
            return []
        table, size = self._table, len(self._table)
        if size > len(self.column):
            self.column = np.concatenate([self.column, np.zeros(max(64, 2 * size) - len(self.column), dtype=np.int64)])
        rows = self._cursor.changed(size // 2)
        changed = list(range(size)) if rows is None else rows
        for row in changed:
            name = table.nodes[row].name
            if name not in self._nodes or self._shared or self._skipping:
                self._dirty.add(name)
        if len(self._nodes) > size:
            for name in [name for name in self._nodes if name not in table.row_of]:
                self._forget(name)
        self._cursor.advance()
        return changed

    def _forget(self, name: str) -> None:
        known = self._nodes.pop(name, None)
        for pool in known.pools if known is not None else ():
            pool.users.discard(name)
            if not pool.users:
                self._drop_view(pool)

    def _drop_view(self, pool: Pool) -> None:
        views = self._views.get(pool.id, {})
        for key in [key for key, view in views.items() if view is pool]:
            del views[key]
        if not views:
            self._views.pop(pool.id, None)
        self._stale.discard(pool)

    def _find_markers(self) -> None:
        for pool in self._stale_markers:
            counters = self._counters.get(pool)
            found = None
            if counters:
                found = gather_pool(
                    pool, list(counters.values()), self._of_pool.get(pool, {}).values(), "", _matches_nothing
                )
            marker = found if found is not None and not found.is_usable else None
            known = self._markers.get(pool)
            if (marker is None) != (known is None) or (marker and known and marker.layout != known.layout):
                self._all_dirty = True
            if marker is None:
                self._markers.pop(pool, None)
            else:
                marker.state = self._state(marker)
                self._markers[pool] = marker
        self._stale_markers.clear()

    def _gather(self, name: str) -> None:
        """Find the pools of a node."""
        self._forget(name)
        row = self._table.row_of.get(name)
        if row is None:
            return
        node = self._table.nodes[row].node
        try:
            pools = self._pools_of(name, node)
        except PoolError as error:
            self._nodes[name] = NodePools((), f"gather pool information: {error}")
            return
        for pool in pools:
            pool.users.add(name)
        self._nodes[name] = NodePools(tuple(pools))

    def _pools_of(self, name: str, node: Node) -> list[Pool]:
        def matches(selector: NodeSelector) -> bool:
            matcher = compile_node_selector(selector)
            if matcher.error is not None:
                raise PoolError(f"failed to parse node selector: {matcher.error}")
            return matcher.matches(node.labels, name)

        relevant: dict[PoolID, list[SliceDevices]] = {}
        for each in self._of_node.get(name, {}).values():
            if each.is_ignored or each.is_unusable:
                continue
            relevant.setdefault(each.pool, []).append(each)
        for each in self._shared.values():
            try:
                reaches = each.reaches(name, matches)
            except PoolError as error:
                raise PoolError(f"failed to perform node selection for slice {each.value.name}: {error}") from None
            if reaches:
                relevant.setdefault(each.pool, []).append(each)
        found: list[Pool] = []
        skips = SKIPS_NODE_OPERATIONS in node.status.declared_features
        for pool, mine in relevant.items():
            view = self._view(pool, [*mine, *self._counters.get(pool, {}).values()], name, matches, skips=skips)
            if view is not None:
                found.append(view)
        found += [marker for pool, marker in self._markers.items() if pool not in relevant]
        found.sort(key=lambda pool: pool.sort_key)
        return found

    def _view(
        self, pool: PoolID, relevant: list[SliceDevices], name: str, matches: NodeMatches, *, skips: bool
    ) -> Pool | None:
        """Return a pool as a node sees it; nodes that see the same share it."""
        key: Hashable = tuple(
            (each.value.name, each.devices_on(name, matches), each.refuses(skips=skips)) for each in relevant
        )
        views = self._views.setdefault(pool, {})
        found = views.get(key)
        if found is None:
            found = gather_pool(pool, relevant, self._of_pool[pool].values(), name, matches, skips=skips)
            if found is None:
                return None
            found.state = self._state(found)
            views[key] = found
        return found

    # Numbers

    def _number(self, numbers: dict[Hashable, int], key: Hashable) -> int:
        found = numbers.get(key)
        if found is None:
            found = numbers[key] = len(numbers)
        return found

    def _state(self, pool: Pool) -> int:
        """Return a number for a pool's layout and for its devices in use."""
        usage = self._usage.view
        layout = self._number(self._states, pool.layout)
        allocated = usage.allocated
        used = bytes([device in allocated for device in pool.ids])
        key: Hashable = (layout, used)
        if usage.shared or usage.capacity or pool.counter_sets:
            shares = tuple(
                (place, device in usage.shared, _amounts(usage.capacity.get(device)))
                for place, device in enumerate(pool.ids)
                if device in usage.shared or device in usage.capacity
            )
            others = bytes([usage.is_allocated(device) for device in pool.other_ids])
            key = (layout, used, shares, others)
        return self._number(self._states, key)

    def _sign(self, moved: list[int]) -> None:
        row_of, nodes, column = self._table.row_of, self._table.nodes, self.column
        for name in self._resign:
            pools = self._nodes.get(name)
            if pools is None:
                continue
            key: Hashable = pools.error or tuple([pool.state for pool in pools.pools])
            pools.signature = self._number(self._signatures, key)
            row = row_of.get(name)
            if row is not None:
                column[row] = pools.signature
        self._resign.clear()
        for row in moved:
            column[row] = self.of_node(nodes[row].name).signature
        self.count = len(self._signatures)

    def _number_anew(self) -> None:
        self.epoch += 1
        self._states.clear()
        self._signatures.clear()
        for views in self._views.values():
            for pool in views.values():
                pool.state = self._state(pool)
        for marker in self._markers.values():
            marker.state = self._state(marker)
        self._resign.update(self._nodes)


_NO_POOLS: Final = NodePools(())


def _put(
    places: dict[PoolID, dict[str, SliceDevices]] | dict[str, dict[str, SliceDevices]],
    key: object,
    name: str,
    devices: SliceDevices | None,
) -> None:
    """Store a slice in a dictionary of dictionaries, or remove it."""
    if devices is not None:
        places.setdefault(key, {})[name] = devices  # type: ignore[arg-type]
        return
    found = places.get(key)  # type: ignore[call-overload]
    if found is not None:
        found.pop(name, None)
        if not found:
            del places[key]  # type: ignore[arg-type]


def _amounts(used: object) -> Hashable:
    if not isinstance(used, dict):
        return None
    return tuple(sorted((name, amount.unscaled, amount.scale) for name, amount in used.items()))


def _matches_nothing(_selector: NodeSelector) -> bool:
    return False
