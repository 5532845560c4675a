"""Persistent volumes by storage class: the free ones smallest first, the claimed ones by their claim."""

from __future__ import annotations

import functools
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from mooring.api.quantity import QuantityLike, parse_quantity
from mooring.api.storage import PersistentVolume
from mooring.plugins.storage_class import volume_class
from mooring.plugins.volume_binding.reach import Reach, reach_of

_NANO = 9


@functools.lru_cache(maxsize=65536)
def _exact(quantity: QuantityLike) -> int:
    amount = parse_quantity(quantity)
    return int(amount.unscaled * 10 ** (amount.scale + _NANO))


def storage_of(amounts: Mapping[str, QuantityLike]) -> int:
    """How much storage a list of amounts names, exactly, in billionths of a byte; nothing if it names none."""
    quantity = amounts.get("storage")
    return 0 if quantity is None else _exact(quantity)


class VolumeEntry(NamedTuple):
    """A volume with what matching it to claims asks about; entries sort by size, then name."""

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
    """The volumes that a claim may get, kept current volume by volume."""

    def __init__(self) -> None:
        self._entries: dict[str, VolumeEntry] = {}
        #: Class -> entries without a claim that are available, sorted.
        self._free: dict[str, list[VolumeEntry]] = {}
        #: (class, namespace, claim) -> entries that name the claim, by name.
        self._claimed: dict[tuple[str, str, str], dict[str, VolumeEntry]] = {}

    def set(self, name: str, volume: PersistentVolume | None) -> None:
        """Take over a volume as it is now; None if it is gone."""
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
        """The free volumes of a class that are large enough, smallest first."""
        entries = self._free.get(class_name, ())
        return entries[bisect_left(entries, (at_least,)) :]

    def claimed(self, class_name: str, namespace: str, claim: str) -> Iterable[VolumeEntry]:
        """The volumes of a class that name a claim, by name; whether they mean that very claim its uid tells."""
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
