"""The CPUs of a node by NUMA node, socket and core, and which ones Volcano assigns to a number of requested CPUs.

Volcano takes whole sockets, then whole cores, then single CPUs, as the kubelet did in earlier releases. Its peculiar
steps are kept, because they decide which CPUs a later pod finds: a socket or core counts as free if the CPU with the
same number is free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from mooring.api.numa_topology import NumatopologySpec
from mooring.api.quantity import parse_quantity
from mooring.batch.cpu_sets import members, parse_cpu, union
from mooring.batch.go_sort import go_sort

_RESERVABLE: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
#: A core: CPUs on its socket that are taken already, free ones there and on the core, its socket, its number.
_Core = tuple[int, int, int, int, int]


class CpuTopology:
    """The CPUs of a node and the policies of its kubelet. Equal nodes share one.

    Attributes:
        policy: The policy of the topology manager.
        is_static: Whether the CPU manager assigns CPUs exclusively.
        numa_nodes: NUMA node -> its CPUs, in order.
        reserved: The CPUs that no pod gets.
        unknown_numa: The NUMA node that CPUs without an entry belong to; None if it does not exist.
    """

    def __init__(self, spec: NumatopologySpec) -> None:
        self.policy = spec.policies.get("TopologyManagerPolicy", "")
        self.is_static = spec.policies.get("CPUManagerPolicy", "") == "static"
        numa: dict[int, int] = {}
        sockets: dict[int, int] = {}
        cores: dict[int, int] = {}
        places: set[tuple[int, int]] = set()
        socket_of: dict[int, int] = {}
        for text, info in spec.cpu_detail.items():
            cpu = parse_cpu(text) or 0  # as in Volcano, an invalid number is CPU 0
            bit = 1 << cpu
            numa[info.numa] = numa.get(info.numa, 0) | bit
            sockets[info.socket] = sockets.get(info.socket, 0) | bit
            cores[info.core] = cores.get(info.core, 0) | bit
            places.add((info.socket, info.core))
            socket_of[cpu] = info.socket
        self.numa_nodes: Mapping[int, int] = dict(sorted(numa.items()))
        self._sockets = dict(sorted(sockets.items()))
        self._cores = dict(sorted(cores.items()))
        self._socket_of_core = {core: socket_of[next(members(cpus))] for core, cpus in self._cores.items()}
        self._cpus = union(numa.values())
        self._per_socket = self._cpus.bit_count() // len(sockets) if sockets else 0
        self._per_core = self._cpus.bit_count() // len(places) if places else 0
        self.unknown_numa = 0 if 0 in numa else None
        self.reserved = self.take(self._cpus, _reserved_count(spec.res_reserved)) or 0

    def unknown(self, cpus: int) -> int:
        """Return the CPUs of a set that the topology does not have."""
        return cpus & ~self._cpus

    def numa_count(self, cpus: int) -> int:
        """Return the number of NUMA nodes to which CPUs belong."""
        return sum(1 for own in self.numa_nodes.values() if own & cpus)

    def take(self, free: int, count: int) -> int | None:
        """Choose CPUs among the free ones; None if there are too few. Unequal sockets or cores may give more."""
        free &= self._cpus
        if count < 1:
            return 0
        if count > free.bit_count():
            return None
        taken = 0
        for size, groups in ((self._per_socket, self._free_sockets), (self._per_core, self._free_cores)):
            if count - taken.bit_count() < size:
                continue
            for own in groups(free & ~taken):
                taken |= own & free
                if taken.bit_count() >= count:
                    return taken
                if count - taken.bit_count() < size:
                    break
        return self._take_single(free & ~taken, taken, count)

    def _free_sockets(self, free: int) -> list[int]:
        return [own for socket, own in self._sockets.items() if own & free and _has(free, socket)]

    def _free_cores(self, free: int) -> list[int]:
        """Return the free cores. Volcano's order of the sockets varies; here that with the fewest cores comes first."""
        found: list[tuple[int, int, list[int]]] = []
        for socket, own in self._sockets.items():
            on_socket = own & free
            cores = [cpus for core, cpus in self._cores.items() if cpus & on_socket and _has(free, core)]
            found.append((len(cores), socket, cores))
        return [cpus for _, _, cores in sorted(found, key=lambda each: each[:2]) for cpus in cores]

    def _take_single(self, free: int, taken: int, count: int) -> int | None:
        cores: list[_Core] = []
        for core, cpus in self._cores.items():
            if cpus & free:
                socket = self._socket_of_core[core]
                whole = self._sockets[socket]
                scores = (whole & taken).bit_count(), (whole & free).bit_count(), (cpus & free).bit_count()
                cores.append((*scores, socket, core))
        go_sort(cores, _precedes)
        for each in cores:
            for cpu in members(self._cores[each[4]] & free):
                taken |= 1 << cpu
                if taken.bit_count() >= count:
                    return taken
        return None


def _has(cpus: int, number: int) -> bool:
    return number >= 0 and bool(cpus >> number & 1)


def _precedes(left: _Core, right: _Core) -> bool:
    """Volcano's order of cores. It contradicts itself: any advantage suffices, even if the other core has one too."""
    return (
        left[0] > right[0]
        or left[1] < right[1]
        or left[2] < right[2]
        or left[3] < right[3]
        or left[4] < right[4]
    )  # fmt: skip


def _reserved_count(reserved: Mapping[str, str]) -> int:
    """Return how many whole CPUs are reserved; 0 if any amount is invalid."""
    count = 0
    for name, text in reserved.items():
        try:
            milli = parse_quantity(text).scaled(-3)
        except ValueError:
            return 0
        if name not in _RESERVABLE or milli < 0:
            return 0
        if name == "cpu":
            count = -(-milli // 1000)
    return count


class TopologyCache:
    """The topologies in use; equal ones are one object."""

    def __init__(self) -> None:
        self._known: dict[bytes, CpuTopology] = {}

    def of(self, spec: NumatopologySpec) -> CpuTopology:
        """Return the topology of a node."""
        key = msgspec.json.encode((spec.policies, spec.res_reserved, spec.cpu_detail))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_TOPOLOGIES:
                self._known.clear()
            found = self._known[key] = CpuTopology(spec)
        return found


_MOST_TOPOLOGIES: Final = 1000
