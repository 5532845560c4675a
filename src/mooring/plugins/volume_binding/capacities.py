"""How large a volume CSI drivers can still make, by storage class and node, from CSIStorageCapacity objects."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from mooring.api.quantity import value
from mooring.api.selectors import IN, NodeTerm, Selector, SelectorError, compile_selector
from mooring.api.storage import CSIStorageCapacity
from mooring.columns.interned import LabelColumn
from mooring.framework import Lister, Nodes

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_Name = tuple[str, str]
_NONE = -1


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """The largest volume that can be made there, if it is known: the maximum if it is given, or what is left."""
    if capacity.maximum_volume_size is not None:
        return value(capacity.maximum_volume_size)
    return None if capacity.capacity is None else value(capacity.capacity)


class _Segment:
    """The capacities of one class for single values of one label: usually one for each node or zone."""

    __slots__ = ("_cached", "_columns_version", "limits")

    def __init__(self) -> None:
        self.limits: dict[str, dict[_Name, int]] = {}
        self._cached: Ints | None = None
        self._columns_version = -1

    def put(self, label: str, name: _Name, limit: int | None) -> None:
        """Take over one capacity; None if it is gone."""
        limits = self.limits.setdefault(label, {})
        if limit is None:
            limits.pop(name, None)
        else:
            limits[name] = limit
        if not limits:
            del self.limits[label]
        self._cached = None

    def by_code(self, column: LabelColumn) -> Ints:
        """The limit for each code of the label; the last entry is for nodes without it."""
        if self._cached is None or self._columns_version != column.version:
            self._cached = np.full(column.size + 1, _NONE, dtype=np.int64)
            for label, limits in self.limits.items():
                code = column.code_of.get(label)
                if code is not None:
                    self._cached[code] = max(limits.values())
            self._columns_version = column.version
        return self._cached


class _ClassCapacities:
    """The capacities of one storage class."""

    __slots__ = ("others", "segments")

    def __init__(self) -> None:
        self.segments: dict[str, _Segment] = {}
        #: Capacities with any other selector.
        self.others: dict[_Name, tuple[Selector, int]] = {}


class Capacities:
    """All CSIStorageCapacity objects, kept current."""

    def __init__(self, lister: Lister[CSIStorageCapacity]) -> None:
        self._classes: dict[str, _ClassCapacities] = {}
        for capacity in lister.list():
            self._changed(None, capacity)
        lister.listen(self._changed)

    def _changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        if old is not None:
            self._put(old, None)
        if new is not None:
            self._put(new, volume_limit(new))

    def _put(self, capacity: CSIStorageCapacity, limit: int | None) -> None:
        if capacity.node_topology is None:
            return
        try:
            selector = compile_selector(capacity.node_topology)
        except SelectorError:  # no node has access then
            return
        known = self._classes.setdefault(capacity.storage_class_name, _ClassCapacities())
        name = (capacity.namespace, capacity.name)
        requirements = selector.requirements
        if len(requirements) == 1 and requirements[0].operator == IN and len(requirements[0].values) == 1:
            segment = known.segments.setdefault(requirements[0].key, _Segment())
            segment.put(next(iter(requirements[0].values)), name, limit)
        elif limit is None:
            known.others.pop(name, None)
        else:
            known.others[name] = (selector, limit)

    def sufficient(self, class_name: str, size: int, nodes: Nodes) -> Mask:
        """Which nodes have access to a capacity of a class that a volume of some size fits in."""
        found: Mask = np.zeros(len(nodes), dtype=np.bool_)
        known = self._classes.get(class_name)
        if known is None:
            return found
        for key, segment in known.segments.items():
            column = nodes.label(key)
            limits = segment.by_code(column)[nodes.codes(column)]
            found |= (limits >= size) & (limits != _NONE)
        for selector, limit in known.others.values():
            if limit >= size:
                if selector.is_empty:
                    found[:] = True
                else:
                    found |= nodes.matches_term(NodeTerm(selector.requirements))
        return found
