"""Persistent volumes by class, mode and the nodes that can reach them."""

from __future__ import annotations

import functools
from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.api.affinity import NodeSelector
from mooring.api.label_selectors import IN
from mooring.api.node_selectors import NodeTerm, compile_node_selector
from mooring.api.quantity import QuantityLike, parse_quantity
from mooring.api.storage import PersistentVolume, VolumeNodeAffinity
from mooring.framework import Nodes
from mooring.plugins.volumes.pod_volumes import volume_class


class Reach:
    """Node selector terms of which a node must match one; without terms no node matches."""

    __slots__ = ("key", "keys", "terms", "values")

    def __init__(self, terms: tuple[NodeTerm, ...]) -> None:
        self.terms = terms
        #: All labels in the terms.
        self.keys = frozenset(each.key for term in terms for each in term.expressions)
        #: If the reach is a list of values of one label: that label and the values; else "" and none.
        self.key = ""
        self.values: frozenset[str] = frozenset()
        if len(terms) == 1 and len(terms[0].expressions) == 1 and terms[0].expressions[0].operator == IN:
            self.key, self.values = terms[0].expressions[0].key, terms[0].expressions[0].values

    def covers(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node with these labels matches."""
        return any(term.matches(labels, "") for term in self.terms)


def reach_of(affinity: VolumeNodeAffinity | None) -> Reach | None:
    """Return the reach of a node affinity, None for all nodes; equal affinities return the same object."""
    return None if affinity is None or affinity.required is None else _compile(affinity.required)


@functools.lru_cache(maxsize=65536)
def _compile(selector: NodeSelector) -> Reach | None:
    terms = []
    for term in compile_node_selector(selector).terms:
        if term.errors or term.is_empty:
            continue
        if not term.expressions:  # kube-scheduler evaluates a node without a name, which any matchFields accept
            return None
        terms.append(NodeTerm(term.expressions))
    return Reach(tuple(terms))


Mask = npt.NDArray[np.bool_]

Codes = npt.NDArray[np.intp]


class NodeGroups:
    """A partition of some nodes by the values of some labels. Groups are numbers below ``size``."""

    def __init__(self, nodes: Nodes, keys: Iterable[str]) -> None:
        self._columns = {key: nodes.label(key) for key in sorted(set(keys))}
        #: By label: the code of each group; -1 (the last entry of any lookup table) if it has none.
        self._codes: dict[str, Codes] = {}
        self._known: dict[Reach, Collection[int]] = {}
        #: (label, value) -> groups with several labels, value -> group with one.
        self._values: dict[tuple[str, str], list[int]] = {}
        self._code_of: dict[str, int] | None = None
        if not self._columns:
            self._of: Codes = np.zeros(len(nodes), dtype=np.intp)
            self.size = 1
            self.present = frozenset({0}) if len(nodes) else frozenset()
        elif len(self._columns) == 1:
            self._by_one(nodes, *self._columns)
        else:
            self._by_many(nodes)

    def _by_one(self, nodes: Nodes, key: str) -> None:
        """Use the codes of the only label as groups; nodes without it come last."""
        codes = nodes.codes(key)
        self._code_of = self._columns[key].code_of
        self.size = self._columns[key].size + 1
        self._of = np.where(codes < 0, self.size - 1, codes)
        self._codes[key] = np.append(np.arange(self.size - 1), -1)
        self.present = frozenset(np.flatnonzero(np.bincount(self._of, minlength=self.size)).tolist())

    def _by_many(self, nodes: Nodes) -> None:
        rows = np.stack([nodes.codes(key) for key in self._columns])
        groups, of = np.unique(rows, axis=1, return_inverse=True)
        self._of = of.reshape(-1)
        self.size = groups.shape[1]
        self._codes = {key: groups[number].astype(np.intp) for number, key in enumerate(self._columns)}
        self.present = frozenset(range(self.size))
        for key, codes in self._codes.items():
            values = self._columns[key].values
            for group, code in enumerate(codes.tolist()):
                if code >= 0:
                    self._values.setdefault((key, values[code] or ""), []).append(group)

    def spread(self, groups: Collection[int]) -> Mask:
        """Return which nodes are in any of some groups."""
        chosen = np.zeros(self.size, dtype=np.bool_)
        chosen[list(groups)] = True
        found: Mask = chosen[self._of]
        return found

    def within(self, reach: Reach | None) -> Collection[int]:
        """Return the groups that a volume's reach covers; some of them may have no nodes."""
        if reach is None:
            return self.present
        if reach.key:
            # There may be a volume for each node, so this must be fast and create no garbage.
            if self._code_of is None:
                return self._with_values(reach.key, reach.values)
            return [self._code_of[value] for value in reach.values if value in self._code_of]
        known = self._known.get(reach)
        if known is None:
            known = self._known[reach] = self._covered(reach)
        return known

    def _with_values(self, key: str, values: frozenset[str]) -> Collection[int]:
        found = [self._values.get((key, value), ()) for value in values]
        return found[0] if len(found) == 1 else [group for groups in found for group in groups]

    def _covered(self, reach: Reach) -> Collection[int]:
        covered = np.zeros(self.size, dtype=np.bool_)
        for term in reach.terms:
            found = np.ones(self.size, dtype=np.bool_)
            for each in term.expressions:
                found &= self._columns[each.key].requirement(each)[self._codes[each.key]]
            covered |= found
        return frozenset(np.flatnonzero(covered).tolist())


_NANO = 9


@functools.lru_cache(maxsize=65536)
def _exact(quantity: QuantityLike) -> int:
    amount = parse_quantity(quantity)
    return int(amount.unscaled * 10 ** (amount.scale + _NANO))


def storage_of(amounts: Mapping[str, QuantityLike]) -> int:
    """Return the exact storage amount in billionths of a byte; 0 if there is none."""
    quantity = amounts.get("storage")
    return 0 if quantity is None else _exact(quantity)


class VolumeEntry(NamedTuple):
    """A volume with the properties that matching reads; entries sort by size, then name."""

    capacity: int
    name: str
    volume: PersistentVolume
    mode: str
    attributes_class: str
    access_modes: frozenset[str]
    reach: Reach | None


def entry_of(volume: PersistentVolume) -> VolumeEntry:
    """Compile a volume."""
    spec = volume.spec
    return VolumeEntry(
        capacity=storage_of(spec.capacity),
        name=volume.name,
        volume=volume,
        mode=spec.volume_mode or "Filesystem",
        attributes_class=spec.volume_attributes_class_name or "",
        access_modes=frozenset(spec.access_modes),
        reach=reach_of(spec.node_affinity),
    )


class VolumeIndex:
    """An index of the volumes that claims can be bound to, updated volume by volume."""

    def __init__(self) -> None:
        self._entries: dict[str, VolumeEntry] = {}
        #: Class -> entries without a claim that are available, sorted.
        self._free: dict[str, list[VolumeEntry]] = {}
        #: (class, namespace, claim) -> entries that name the claim, by name.
        self._claimed: dict[tuple[str, str, str], dict[str, VolumeEntry]] = {}

    def set(self, name: str, volume: PersistentVolume | None) -> None:
        """Set the current version of a volume; None removes it."""
        known = self._entries.get(name)
        if known is not None:
            if known.volume is volume:
                return
            self._drop(known)
            del self._entries[name]
        if volume is not None and volume.metadata.deletion_timestamp is None:
            entry = self._entries[name] = entry_of(volume)
            self._file(entry)

    def free(self, class_name: str, at_least: int) -> Iterable[VolumeEntry]:
        """Return the free volumes of a class that are large enough, smallest first."""
        entries = self._free.get(class_name, ())
        return entries[bisect_left(entries, (at_least,)) :]

    def claimed(self, class_name: str, namespace: str, claim: str) -> Iterable[VolumeEntry]:
        """Return the volumes of a class that refer to a claim by name; check the uid separately."""
        return sorted(self._claimed.get((class_name, namespace, claim), {}).values(), key=lambda entry: entry.name)

    def _file(self, entry: VolumeEntry) -> None:
        volume = entry.volume
        claim = volume.spec.claim_ref
        if claim is not None:
            self._claimed.setdefault((volume_class(volume), claim.namespace, claim.name), {})[entry.name] = entry
        elif volume.status.phase == "Available":
            insort(self._free.setdefault(volume_class(volume), []), entry, key=_order)

    def _drop(self, entry: VolumeEntry) -> None:
        volume = entry.volume
        claim = volume.spec.claim_ref
        if claim is not None:
            key = (volume_class(volume), claim.namespace, claim.name)
            del self._claimed[key][entry.name]
            if not self._claimed[key]:
                del self._claimed[key]
        elif volume.status.phase == "Available":
            entries = self._free[volume_class(volume)]
            del entries[bisect_left(entries, _order(entry), key=_order)]


def _order(entry: VolumeEntry) -> tuple[int, str]:
    return entry.capacity, entry.name
