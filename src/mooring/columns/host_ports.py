"""Host ports in use, by row."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from mooring.columns.counts import Counts
from mooring.columns.templates import HostPort

#: The address that means all addresses of a node.
ANY_ADDRESS = "0.0.0.0"


class PortIndex:
    """(protocol, port) -> address -> how many pods use it, by row."""

    def __init__(self) -> None:
        self._used: dict[tuple[str, int], dict[str, Counts]] = {}

    def add(self, ports: Iterable[HostPort], row: int, delta: int) -> None:
        """Count a pod's ports on a row."""
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
        """The rows where any of the ports is taken; None if it is taken nowhere."""
        taken: npt.NDArray[np.bool_] | None = None
        for counts in self.conflicting(ports).values():
            used = counts.array(size) > 0
            taken = used if taken is None else taken | used
        return taken

    def conflicting(self, ports: Iterable[HostPort]) -> dict[HostPort, Counts]:
        """The ports in use anywhere that exclude one of some ports, and by how many pods, by row."""
        found: dict[HostPort, Counts] = {}
        for address, protocol, port in ports:
            for other, counts in self._used.get((protocol, port), {}).items():
                if address in (other, ANY_ADDRESS) or other == ANY_ADDRESS:
                    found[other, protocol, port] = counts
        return found

    def snapshot(self) -> dict[tuple[str, int, str], list[tuple[int, int]]]:
        """Everything, for checks."""
        return {
            (*key, address): counts.items()
            for key, by_address in self._used.items()
            for address, counts in by_address.items()
        }


def ports_conflict(wanted: HostPort, used: HostPort) -> bool:
    """Whether two uses of host ports exclude each other on one node."""
    return wanted[1:] == used[1:] and (wanted[0] == used[0] or ANY_ADDRESS in (wanted[0], used[0]))
