"""The decision of a topology manager's policy on the containers of a pod, and the CPUs that they get."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from mooring.batch.cpu_sets import union
from mooring.batch.cpu_topology import CpuTopology

BEST_EFFORT: Final = "best-effort"
RESTRICTED: Final = "restricted"
SINGLE_NODE: Final = "single-numa-node"


class Assignment(NamedTuple):
    """The CPUs for a pod and the number of their NUMA nodes, or the container for which there are none."""

    cpus: int = 0
    numa_count: int = 0
    failed: int | None = None


class _Hint(NamedTuple):
    """The NUMA nodes to take CPUs from (None: any), and whether a container could not get fewer on an empty node."""

    nodes: Sequence[int] | None
    preferred: bool


def assign(topology: CpuTopology, free: int | None, requests: Sequence[int]) -> Assignment:
    """Assign CPUs to the containers of a pod in order, given how many each requests exclusively.

    ``free`` is None if the node does not report its free CPUs. A policy that does not reject a pod gives it no CPUs if
    there are too few.
    """
    assigned = 0
    for number, request in enumerate(requests):
        left = (free or 0) & ~assigned & ~topology.reserved
        hint = _hint(topology, None if free is None and number == 0 else left, request)
        if not hint.preferred and topology.policy in (RESTRICTED, SINGLE_NODE):
            return Assignment(failed=number)
        assigned |= _allocate(topology, left, request, hint.nodes)
    return Assignment(assigned, topology.numa_count(assigned))


def _hint(topology: CpuTopology, free: int | None, request: int) -> _Hint:
    if topology.policy not in (BEST_EFFORT, RESTRICTED, SINGLE_NODE):
        return _Hint(None, preferred=True)
    nodes = list(topology.numa_nodes)
    if request == 0 or free is None:
        return _Hint(nodes, preferred=bool(nodes))
    room = {node: (cpus & free).bit_count() for node, cpus in topology.numa_nodes.items()}
    if topology.unknown_numa is not None:
        room[topology.unknown_numa] += topology.unknown(free).bit_count()
    sizes = [cpus.bit_count() for cpus in topology.numa_nodes.values()]
    least = min(_fewest(sizes, request), len(nodes))
    needed = _fewest(list(room.values()), request)
    if needed <= least and nodes and (least == 1 or topology.policy != SINGLE_NODE):
        return _Hint(_lowest(room, least, request), preferred=True)
    if needed < len(nodes) and topology.policy != SINGLE_NODE:
        return _Hint(_lowest(room, needed, request), preferred=False)
    return _Hint(nodes, preferred=False)


def _fewest(sizes: list[int], request: int) -> int:
    """Return how many NUMA nodes are needed at least; one more than there are if all are too few."""
    total = 0
    for number, size in enumerate(sorted(sizes, reverse=True), 1):
        total += size
        if total >= request:
            return number
    return len(sizes) + 1


def _lowest(room: dict[int, int], count: int, request: int) -> list[int]:
    """Return this many NUMA nodes with room: those whose highest number is the lowest, then the next ones."""
    chosen: list[int] = []
    nodes = sorted(room)
    while count:
        last = nodes.pop()
        others = sorted((room[node] for node in nodes), reverse=True)[:count]
        if len(others) == count and sum(others) >= request:
            continue
        chosen.append(last)
        request -= room[last]
        count -= 1
    return sorted(chosen)


def _allocate(topology: CpuTopology, free: int, request: int, nodes: Sequence[int] | None) -> int:
    """Take CPUs from NUMA nodes first; return none if there are too few in total."""
    taken = 0
    if nodes is not None:
        aligned = free & union(topology.numa_nodes[node] for node in nodes)
        first = topology.take(aligned, min(request, aligned.bit_count()))
        if first is None:
            return 0
        taken = first
    rest = topology.take(free & ~taken, request - taken.bit_count())
    return 0 if rest is None else taken | rest
