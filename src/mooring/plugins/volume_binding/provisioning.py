"""Dynamic provisioning: allowed topologies of a class, and the storage capacity that drivers report."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.label_selectors import IN, Selector, SelectorError, compile_selector, requirement
from mooring.api.node_selectors import NodeTerm
from mooring.api.quantity import value
from mooring.api.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorTerm,
)
from mooring.columns.interned import LabelColumn
from mooring.framework import Handle, Lister, Nodes
from mooring.plugins.volume_binding.scoring import StorageUse
from mooring.plugins.volumes.pod_volumes import claim_class

Ints = npt.NDArray[np.int64]

Mask = npt.NDArray[np.bool_]

_Name = tuple[str, str]

_NONE = -1


def volume_limit(capacity: CSIStorageCapacity) -> int | None:
    """Return the largest volume that can be provisioned, if known: the maximum size, or the free capacity."""
    if capacity.maximum_volume_size is not None:
        return value(capacity.maximum_volume_size)
    return None if capacity.capacity is None else value(capacity.capacity)


class _Limit(NamedTuple):
    """What one CSIStorageCapacity allows: the largest volume, and all free capacity (0 if it is not known)."""

    largest: int
    capacity: int


def _limit_of(capacity: CSIStorageCapacity) -> _Limit | None:
    largest = volume_limit(capacity)
    return None if largest is None else _Limit(largest, 0 if capacity.capacity is None else value(capacity.capacity))


class _Segment:
    """The capacities of one class for single values of one label: usually one for each node or zone."""

    __slots__ = ("_cached", "_columns_version", "limits")

    def __init__(self) -> None:
        self.limits: dict[str, dict[_Name, _Limit]] = {}
        self._cached: Ints | None = None
        self._columns_version = -1

    def put(self, label: str, name: _Name, limit: _Limit | None) -> None:
        """Set one capacity; None removes it."""
        limits = self.limits.setdefault(label, {})
        if limit is None:
            limits.pop(name, None)
        else:
            limits[name] = limit
        if not limits:
            del self.limits[label]
        self._cached = None

    def by_code(self, column: LabelColumn) -> Ints:
        """Return the largest volume (first row) and the capacity (second row) for each code of the label.

        The last column is for nodes without the label.
        """
        if self._cached is None or self._columns_version != column.version:
            self._cached = np.full((2, column.size + 1), _NONE, dtype=np.int64)
            for label, limits in self.limits.items():
                code = column.code_of.get(label)
                if code is not None:
                    self._cached[:, code] = max(limits.values())
            self._columns_version = column.version
        return self._cached


class _ClassCapacities:
    """The capacities of one storage class."""

    __slots__ = ("others", "segments")

    def __init__(self) -> None:
        self.segments: dict[str, _Segment] = {}
        #: Capacities with any other selector.
        self.others: dict[_Name, tuple[Selector, _Limit]] = {}


class Capacities:
    """An index of all CSIStorageCapacity objects."""

    def __init__(self, lister: Lister[CSIStorageCapacity]) -> None:
        self._classes: dict[str, _ClassCapacities] = {}
        for capacity in lister.list():
            self._changed(None, capacity)
        lister.listen(self._changed)

    def _changed(self, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None) -> None:
        if old is not None:
            self._put(old, None)
        if new is not None:
            self._put(new, _limit_of(new))

    def _put(self, capacity: CSIStorageCapacity, limit: _Limit | None) -> None:
        if capacity.node_topology is None:
            return
        try:
            selector = compile_selector(capacity.node_topology)
        except SelectorError:  # no node has access
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
        """Return which nodes have access to sufficient capacity of a class."""
        found: Mask = np.zeros(len(nodes), dtype=np.bool_)
        for sufficient, _ in self._sufficient(class_name, size, nodes):
            found |= sufficient
        return found

    def capacity(self, class_name: str, size: int, nodes: Nodes) -> Ints:
        """Return the capacity of a class on nodes that have access to sufficient capacity.

        If several objects are sufficient, kube-scheduler uses any of them.
        """
        found: Ints = np.zeros(len(nodes), dtype=np.int64)
        undecided = np.ones(len(nodes), dtype=np.bool_)
        for sufficient, capacities in self._sufficient(class_name, size, nodes):
            np.copyto(found, capacities, where=sufficient & undecided)
            undecided &= ~sufficient
        return found

    def _sufficient(self, class_name: str, size: int, nodes: Nodes) -> Iterator[tuple[Mask, Ints | int]]:
        """Yield which nodes have access to sufficient capacity of a class, with the capacity."""
        known = self._classes.get(class_name)
        if known is None:
            return
        for key, segment in known.segments.items():
            column = nodes.label(key)
            largest, capacities = segment.by_code(column)[:, nodes.codes(column)]
            yield (largest >= size) & (largest != _NONE), capacities
        for selector, limit in known.others.values():
            if limit.largest >= size:
                matches = nodes.matches_term(NodeTerm(selector.requirements)) if not selector.is_empty else None
                yield np.ones(len(nodes), dtype=np.bool_) if matches is None else matches, limit.capacity


Codes = npt.NDArray[np.int8]

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"

#: Verdicts on the claims without a volume.
FINE, NO_VOLUME, NO_SPACE = 0, 1, 2


class Provisioner:
    """Checks storage classes, their topologies and the drivers' capacities."""

    def __init__(self, handle: Handle) -> None:
        self._classes = handle.lister(StorageClass)
        self._drivers = handle.lister(CSIDriver)
        self._capacities = Capacities(handle.lister(CSIStorageCapacity))

    def check(self, claim: PersistentVolumeClaim, needed: Mask | None, codes: Codes, nodes: Nodes) -> None:
        """Set codes where a volume is needed (None: everywhere) and cannot be provisioned."""
        name = claim_class(claim)
        storage_class = self._classes.get(name)
        if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
            codes[_undecided(needed, codes)] = NO_VOLUME
            return
        if storage_class.allowed_topologies:
            allowed = nodes.matches_any(_terms(storage_class.allowed_topologies))
            codes[_undecided(needed, codes) & ~allowed] = NO_VOLUME
        size = self._tracked_size(claim, storage_class.provisioner)
        if size is not None:
            codes[_undecided(needed, codes) & ~self._capacities.sufficient(name, size, nodes)] = NO_SPACE

    def uses(self, claims: list[PersistentVolumeClaim], nodes: Nodes) -> dict[str, StorageUse]:
        """Return the storage that claims to provision request by class, where the drivers report capacity."""
        found: dict[str, StorageUse] = {}
        for claim in claims:
            name = claim_class(claim)
            storage_class = self._classes.get(name)
            size = None if storage_class is None else self._tracked_size(claim, storage_class.provisioner)
            if size is not None:
                before = found[name].requested if name in found else 0
                found[name] = StorageUse(before + size, self._capacities.capacity(name, size, nodes))
        return found

    def _tracked_size(self, claim: PersistentVolumeClaim, driver_name: str) -> int | None:
        """Return the requested size, if the driver reports capacity."""
        wanted = claim.spec.resources.requests.get("storage")
        driver = self._drivers.get(driver_name) if wanted is not None else None
        return value(wanted) if wanted is not None and driver is not None and driver.spec.storage_capacity else None


def _undecided(needed: Mask | None, codes: Codes) -> Mask:
    fine: Mask = codes == FINE
    return fine if needed is None else fine & needed


@functools.lru_cache(maxsize=1024)
def _terms(topologies: tuple[TopologySelectorTerm, ...]) -> tuple[NodeTerm, ...]:
    """Return a class's topologies as terms of which one must match; empty or invalid terms match nothing."""
    terms = []
    for topology in topologies:
        try:
            expressions = [requirement(each.key, IN, each.values) for each in topology.match_label_expressions]
        except SelectorError:
            continue
        if expressions:
            terms.append(NodeTerm(tuple(expressions)))
    return tuple(terms)
