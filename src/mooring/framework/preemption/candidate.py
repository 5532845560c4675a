"""Preemption candidates: nodes on which evicting some pods makes room, and the request to extenders about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from mooring.api.pod import Pod
from mooring.columns.node_info import PodInfo
from mooring.columns.pod_columns import start_of
from mooring.framework.status import PostFilterResult, Status

#: Added to each priority, so that sums grow with the number of pods even for negative priorities.
PRIORITY_OFFSET = 1 << 31


class Candidate(msgspec.Struct, frozen=True):
    """A node and the pods to evict from it.

    Attributes:
        row: The row of the node in the node table: ``node.row``.
        victims: The pods to evict, most important first.
        violations: How many of the evictions violate a PodDisruptionBudget.
        groups: How many of the victims are groups, or pods of groups.
    """

    row: int
    victims: tuple[PodInfo, ...]
    violations: int
    groups: int = 0

    def rank(self, now: float) -> tuple[float, ...]:
        """Return a key; smaller is better: violations, highest priority, sum of priorities, pods, latest start."""
        priorities = [victim.priority for victim in self.victims]
        top = max(priorities)
        starts = [start_of(victim.pod) for victim, each in zip(self.victims, priorities, strict=True) if each == top]
        earliest = min(min(start, now) if start == float("inf") else start for start in starts)
        total = sum(priority + PRIORITY_OFFSET for priority in priorities)
        return (self.violations, priorities[0], total, len(priorities), -earliest)


def by_importance(info: PodInfo) -> tuple[float, float]:
    """Return a key that sorts the most important pod first: higher priority, then earlier start (none: now)."""
    return (-info.priority, start_of(info.pod))


def best(candidates: Sequence[Candidate], now: float) -> Candidate:
    """Return the best candidate; the first of equals."""
    return min(candidates, key=lambda candidate: candidate.rank(now))


Outcome = tuple[PostFilterResult, Status]


class PreemptionExtenders(Protocol):
    """The extenders that support preemption."""

    def weigh_victims(self, pod: Pod) -> bool:
        """Whether an extender must be called before pods are evicted for this pod."""


class AskExtenders(msgspec.Struct, frozen=True):
    """An incomplete PostFilter result: extenders must process the candidates first.

    PostFilter cannot wait for an extender's response, so it returns the candidates and the continuation.

    Attributes:
        candidates: The candidates, for the extenders.
        then: Called with the candidates that the extenders returned, or with an error status.
    """

    candidates: tuple[Candidate, ...]
    then: Callable[[Sequence[Candidate] | Status], Outcome]

    def and_then(self, change: Callable[[Outcome], Outcome]) -> AskExtenders:
        """Return the same request with a function applied to the outcome."""
        return AskExtenders(self.candidates, lambda left: change(self.then(left)))
