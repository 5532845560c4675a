"""Counts by row or topology domain, and the indexes that use them: host ports and images.

Hot path. A cluster has thousands of counters (one per selector, per affinity term, per image). Most of them cover a
few nodes, and a few cover all of them. A dictionary suits the first kind and an array the second.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mooring.api.node import Node
from mooring.columns.templates import HostPort

_DENSE_FROM = 48


class Counts:
    """Counts by code. ``add`` is O(1); ``array`` returns all counts as a vector."""

    __slots__ = ("_dense", "_sparse", "total")

    def __init__(self) -> None:
        self._sparse: dict[int, int] | None = {}
        self._dense: npt.NDArray[np.int64] = _EMPTY
        #: The sum over all codes.
        self.total = 0

    def add(self, code: int, delta: int) -> None:
        """Add ``delta`` to the count of ``code``."""
        self.total += delta
        sparse = self._sparse
        if sparse is not None:
            count = sparse.get(code, 0) + delta
            if count:
                sparse[code] = count
                if len(sparse) > _DENSE_FROM:
                    self._densify()
            else:
                sparse.pop(code, None)
            return
        if code >= len(self._dense):
            grown = np.zeros(max(code + 1, 2 * len(self._dense)), dtype=np.int64)
            grown[: len(self._dense)] = self._dense
            self._dense = grown
        self._dense[code] += delta

    def get(self, code: int) -> int:
        """Return the count of one code."""
        if self._sparse is not None:
            return self._sparse.get(code, 0)
        return int(self._dense[code]) if code < len(self._dense) else 0

    def array(self, size: int) -> npt.NDArray[np.int64]:
        """Return the counts of codes 0 to ``size`` - 1. Do not modify it: it may be the internal array."""
        sparse = self._sparse
        if sparse is not None:
            vector = np.zeros(size, dtype=np.int64)
            for code, count in sparse.items():
                vector[code] = count
            return vector
        if len(self._dense) < size:
            grown = np.zeros(max(size, 2 * len(self._dense)), dtype=np.int64)
            grown[: len(self._dense)] = self._dense
            self._dense = grown
        return self._dense[:size]

    def snapshot(self, size: int) -> dict[int, int] | npt.NDArray[np.int64]:
        """Return the non-zero counts by code as a new dictionary if they are few, else ``array``."""
        return self.array(size) if self._sparse is None else dict(self._sparse)

    def add_to(self, vector: npt.NDArray[np.int64], weight: int = 1) -> None:
        """Add the counts, multiplied by a weight, to a vector indexed by code."""
        sparse = self._sparse
        if sparse is not None:
            for code, count in sparse.items():
                vector[code] += weight * count
            return
        dense = self._dense[: len(vector)]
        vector[: len(dense)] += dense if weight == 1 else weight * dense

    def grouped(self, codes: npt.NDArray[np.int32], within: npt.NDArray[np.bool_] | None = None) -> Counts:
        """Return the counts by other codes: the count of i is added to ``codes[i]``, unless that is negative.

        ``within`` excludes the codes where it is false.
        """
        result = Counts()
        if self._sparse is not None:
            for code, count in self._sparse.items():
                if codes[code] >= 0 and (within is None or within[code]):
                    result.add(int(codes[code]), count)
            return result
        size = min(len(self._dense), len(codes), len(codes if within is None else within))
        kept = codes[:size] >= 0
        if within is not None:
            kept &= within[:size]
        # Sums of counts stay far below 2**53, so the float sums are exact.
        sums = np.bincount(codes[:size][kept], weights=self._dense[:size][kept], minlength=64)
        result._sparse, result._dense = None, sums.astype(np.int64)
        result.total = int(result._dense.sum())
        return result

    def items(self) -> list[tuple[int, int]]:
        """Return the non-zero counts as (code, count), sorted by code."""
        if self._sparse is not None:
            return sorted(self._sparse.items())
        return [(int(code), int(self._dense[code])) for code in np.flatnonzero(self._dense)]

    def _densify(self) -> None:
        sparse = self._sparse or {}
        self._dense = np.zeros(max(64, 2 * (max(sparse) + 1)), dtype=np.int64)
        for code, count in sparse.items():
            self._dense[code] = count
        self._sparse = None


_EMPTY: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)

#: The address that stands for all addresses of a node.
ANY_ADDRESS = "0.0.0.0"


class PortIndex:
    """The host ports in use: (protocol, port) -> address -> number of pods by row."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, int], dict[str, Counts]] = {}

    def add(self, ports: Iterable[HostPort], row: int, delta: int) -> None:
        """Add a pod's ports on a row."""
        for address, protocol, port in ports:
            by_address = self._used.setdefault((protocol, port), {})
            counts = by_address.get(address)
            if counts is None:
                counts = by_address[address] = Counts()
            counts.add(row, delta)
            if not counts.total:
                del by_address[address]
                if not by_address:
                    del self._used[protocol, port]

    def conflicts(self, ports: Iterable[HostPort], size: int) -> npt.NDArray[np.bool_] | None:
        """Return the rows where any of the ports is in use; None if there are none."""
        taken: npt.NDArray[np.bool_] | None = None
        for counts in self.conflicting(ports).values():
            used = counts.array(size) > 0
            taken = used if taken is None else taken | used
        return taken

    def conflicting(self, ports: Iterable[HostPort]) -> dict[HostPort, Counts]:
        """Return the ports in use that conflict with any of some ports, each with its counts by row."""
        found: dict[HostPort, Counts] = {}
        for address, protocol, port in ports:
            for other, counts in self._used.get((protocol, port), {}).items():
                if address in (other, ANY_ADDRESS) or other == ANY_ADDRESS:
                    found[other, protocol, port] = counts
        return found

    def snapshot(self) -> dict[tuple[str, int, str], list[tuple[int, int]]]:
        """Return all counts, for consistency checks."""
        return {
            (*key, address): counts.items()
            for key, by_address in self._used.items()
            for address, counts in by_address.items()
        }


def ports_conflict(wanted: HostPort, used: HostPort) -> bool:
    """Return whether two host ports cannot be used on the same node."""
    return wanted[1:] == used[1:] and (wanted[0] == used[0] or ANY_ADDRESS in (wanted[0], used[0]))


class ImageState:
    """An image name: its size as first reported, and the rows that have it."""

    __slots__ = ("rows", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.rows = Counts()


class ImageIndex:
    """The container images on nodes, by name."""

    def __init__(self) -> None:
        self._images: dict[str, ImageState] = {}

    def add_node(self, row: int, node: Node) -> None:
        """Add a node's images."""
        for name, size in _images(node).items():
            state = self._images.get(name)
            if state is None:
                state = self._images[name] = ImageState(size)
            state.rows.add(row, 1)

    def remove_node(self, row: int, node: Node) -> None:
        """Remove a node's images."""
        for name in _images(node):
            state = self._images[name]
            state.rows.add(row, -1)
            if not state.rows.total:
                del self._images[name]

    def __bool__(self) -> bool:
        return bool(self._images)

    def get(self, name: str) -> ImageState | None:
        """Return an image by (normalized) name."""
        return self._images.get(name)

    def snapshot(self) -> dict[str, tuple[int, list[tuple[int, int]]]]:
        """Return all images, for consistency checks."""
        return {name: (state.size, state.rows.items()) for name, state in self._images.items()}


def _images(node: Node) -> dict[str, int]:
    found: dict[str, int] = {}
    for image in node.status.images:
        for name in image.names:
            found.setdefault(name, image.size_bytes)
    return found
