"""Trace: what a scheduling cycle leaves behind for metrics and records. One object, written over by every attempt."""

from __future__ import annotations

import msgspec

from mooring.framework.status import Status
from mooring.observe.decision_records import Candidate


class Said(msgspec.Struct, frozen=True):
    """What an extender said in an attempt."""

    #: Its URL.
    extender: str
    #: filter, prioritize or preempt.
    verb: str
    #: Node -> verdict.
    rejected: dict[str, Status] = {}
    #: Node -> weighted score.
    scores: dict[str, int] = {}
    error: str = ""


class Trace:
    """Moments (``time.perf_counter``) of the present attempt; zero for what it did not come to."""

    __slots__ = (
        "candidates",
        "filtered",
        "post_filter_started",
        "pre_filtered",
        "pre_scored",
        "ranks",
        "said",
        "scored",
        "scorers",
        "started",
    )

    def __init__(self, *, ranks: int = 0) -> None:
        #: How many of the best nodes are to be kept with their scores.
        self.ranks = ranks
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """An attempt begins."""
        self.started = now
        self.pre_filtered = self.filtered = self.pre_scored = self.scored = self.post_filter_started = 0.0
        self.scorers: tuple[str, ...] = ()
        self.candidates: tuple[Candidate, ...] = ()
        #: By extenders, in order.
        self.said: tuple[Said, ...] = ()
