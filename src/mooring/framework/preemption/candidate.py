"""Preemption candidates: nodes on which evicting some pods makes room, and the request to extenders about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from mooring.api.pod import Pod
from mooring.columns.node_info import PodInfo
from mooring.columns.pod_columns import start_of
from mooring.framework.status import PostFilterResult, Status

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


Outcome = tuple[PostFilterResult, Status]


class PreemptionExtenders(Protocol):
    """Who has a say in preemption besides the plugins."""

    def weigh_victims(self, pod: Pod) -> bool:
        """Whether somebody wants to be asked before room is made for this pod."""


class AskExtenders(msgspec.Struct, frozen=True):
    """A PostFilter answer that is not complete: extenders are to be asked about candidates first."""

    candidates: tuple[Candidate, ...]
    #: Called with the candidates that extenders left, or with what went wrong.
    then: Callable[[Sequence[Candidate] | Status], Outcome]

    def and_then(self, change: Callable[[Outcome], Outcome]) -> AskExtenders:
        """The same question, with something done to what comes of it."""
        return AskExtenders(self.candidates, lambda left: change(self.then(left)))
