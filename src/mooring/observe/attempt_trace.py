"""Trace: the timings and answers that an attempt records for metrics, decision records and reports."""

from __future__ import annotations

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.framework.node_statuses import NodeStatuses
from mooring.framework.status import SUCCESS, Status
from mooring.observe.decision_records import Candidate


class ExtenderCall(msgspec.Struct, frozen=True):
    """One call of an extender in an attempt, and its answer."""

    #: The URL of the extender.
    extender: str
    #: filter, prioritize or preempt.
    verb: str
    #: Node name -> status.
    rejected: dict[str, Status] = {}
    #: Node name -> weighted score.
    scores: dict[str, int] = {}
    error: str = ""


class Trace:
    """Timestamps (``time.perf_counter``) of the current attempt; zero for steps that it did not reach.

    One object is reused for all attempts of an engine.
    """

    __slots__ = (
        "candidates",
        "extender_calls",
        "filtered",
        "post_filter_started",
        "pre_filtered",
        "pre_scored",
        "ranks",
        "scored",
        "scorers",
        "started",
    )

    def __init__(self, *, ranks: int = 0) -> None:
        #: How many of the best nodes are recorded with their scores.
        self.ranks = ranks
        self.begin(0.0)

    def begin(self, now: float) -> None:
        """Start a new attempt."""
        self.started = now
        self.pre_filtered = self.filtered = self.pre_scored = self.scored = self.post_filter_started = 0.0
        self.scorers: tuple[str, ...] = ()
        self.candidates: tuple[Candidate, ...] = ()
        #: The extender calls, in order.
        self.extender_calls: tuple[ExtenderCall, ...] = ()


class Evaluation(msgspec.Struct):
    """The answer of every plugin in one attempt, for reports: all plugins examine and score all nodes."""

    #: Whether PostFilter runs if no node is feasible.
    runs_post_filter: bool = True
    pre_filter: Status = SUCCESS
    #: The nodes that PreFilter left; None for all.
    pre_filter_nodes: frozenset[str] | None = None
    #: The rows that Filter examined, their statuses, and the feasible ones among them.
    examined: list[int] = []
    statuses: NodeStatuses | None = None
    feasible: npt.NDArray[np.intp] = np.zeros(0, dtype=np.intp)
    #: Whether Filter returned an Error for some node, which ends the attempt.
    aborted: bool = False
    #: Plugin -> weighted scores of the feasible rows.
    scores: dict[str, npt.NDArray[np.int64]] = {}
    #: The chosen node, and whether it was chosen because the pod is nominated to it.
    node_name: str = ""
    nominated: bool = False
    reserve: Status | None = None
    permit: Status | None = None

    @property
    def totals(self) -> npt.NDArray[np.int64]:
        """The total score of each feasible row."""
        return sum(self.scores.values(), np.zeros(len(self.feasible), dtype=np.int64))
