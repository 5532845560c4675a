"""A node on which removing some pods makes room, and how such nodes compare."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from mooring.columns.node_info import PodInfo
from mooring.columns.pod_columns import start_of

#: Added to each priority so that sums of negative ones compare as counts do.
PRIORITY_OFFSET = 1 << 31


class Candidate(msgspec.Struct, frozen=True):
    """A node, the pods that have to go (most important first), and how many of them violate a budget."""

    row: int
    victims: tuple[PodInfo, ...]
    violations: int

    def rank(self, now: float) -> tuple[float, ...]:
        """Smaller is better: fewest violations, lowest top priority, smallest sum, fewest pods, latest start."""
        priorities = [victim.priority for victim in self.victims]
        top = max(priorities)
        starts = [start_of(victim.pod) for victim, each in zip(self.victims, priorities, strict=True) if each == top]
        earliest = min(min(start, now) if start == float("inf") else start for start in starts)
        total = sum(priority + PRIORITY_OFFSET for priority in priorities)
        return (self.violations, priorities[0], total, len(priorities), -earliest)


def by_importance(info: PodInfo) -> tuple[float, float]:
    """A key that sorts the most important pod first: higher priority, then earlier start (none counts as now)."""
    return (-info.priority, start_of(info.pod))


def best(candidates: Sequence[Candidate], now: float) -> Candidate:
    """The candidate to take; the first of equals."""
    return min(candidates, key=lambda candidate: candidate.rank(now))
