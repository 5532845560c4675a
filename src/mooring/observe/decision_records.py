"""Decision records: why a pod was placed on its node, or why it is pending.

Every attempt creates a record, so a record is a few tuples of names and numbers that are formatted on request. Verdicts
that many pods have in common, such as the pods of a workload that does not fit, are stored once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from mooring.columns.block_maxima import LOWEST
from mooring.framework.device_allocations import DeviceRejection

#: The estimated size in bytes of a record and of each candidate, verdict and name in it; measured and rounded up.
_RECORD_BYTES, _CANDIDATE_BYTES, _VERDICT_BYTES, _NAME_BYTES = 520, 260, 300, 70
#: The maximum number of shared sets of verdicts.
_MAX_SHARED = 1024
#: The number of nodes that are recorded in addition to the chosen one.
RUNNERS_UP = 3


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A feasible node, with the plugins' weighted scores in the order of ``Decision.scorers``.

    Scores are integers; those of batch sessions may be fractions.
    """

    node: str
    total: int | float
    scores: tuple[int | float, ...]


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """The nodes that a plugin rejected for the same reasons."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    count: int
    #: The names of the first few nodes.
    nodes: tuple[str, ...]


class Preemption(msgspec.Struct, frozen=True, gc=False):
    """The result of preemption."""

    plugin: str
    code: str
    message: str
    nominated_node: str = ""
    #: namespace/name of the victims.
    victims: tuple[str, ...] = ()


class Hold(msgspec.Struct, frozen=True, gc=False):
    """A plugin that makes a pod wait at Permit."""

    plugin: str
    #: The timeout in seconds.
    seconds: float
    #: When the timeout ends and the pod is rejected, in seconds since the epoch.
    until: float
    #: When the plugin allows the pod automatically; None if it does not.
    allowed_at: float | None = None


class Preempted(msgspec.Struct, frozen=True, gc=False):
    """The preemption of a pod."""

    #: namespace/name of the preemptor.
    by: str
    plugin: str
    #: The node that the pod was evicted from.
    node: str
    #: Seconds since the epoch.
    time: float


class Move(msgspec.Struct, frozen=True, gc=False):
    """A move of a waiting pod in the queue."""

    #: Seconds since the epoch.
    time: float
    #: The part of the queue that it moved to.
    place: str
    #: The event that caused it, as in the metric ``queue_incoming_pods_total``.
    event: str
    #: The plugins that had rejected the pod.
    plugins: tuple[str, ...] = ()


class Phases(msgspec.Struct, gc=False):
    """The duration of each phase of an attempt in seconds; None if the phase did not run."""

    pre_filter: float | None = None
    filter: float | None = None
    post_filter: float | None = None
    score: float | None = None
    reserve: float | None = None
    #: From the decision to the completed bind, including the wait at Permit.
    bind: float | None = None


class Decision(msgspec.Struct, gc=False, kw_only=True):
    """The result of one scheduling attempt."""

    #: namespace/name.
    pod: str
    uid: str
    profile: str
    #: Seconds since the epoch.
    time: float
    attempt: int
    #: ``placed`` (being bound), ``bound``, ``unschedulable`` or ``error``; later ``preempted``; or ``gated`` if a
    #: PreEnqueue plugin gated the pod until it was deleted.
    outcome: str
    phases: Phases
    # If the pod was placed
    node: str = ""
    evaluated: int = 0
    feasible: int = 0
    #: The plugins whose scores the candidates contain.
    scorers: tuple[str, ...] = ()
    #: The chosen node, then the next best nodes.
    candidates: tuple[Candidate, ...] = ()
    #: Whether the nominated node was chosen without evaluating other nodes.
    was_nominated: bool = False
    # If the pod was not placed
    message: str = ""
    #: If the pod was placed, only the verdicts of extenders.
    verdicts: tuple[Verdict, ...] = ()
    preemption: Preemption | None = None
    #: Why some devices were not allocated.
    devices: tuple[DeviceRejection, ...] = ()
    # In both cases
    #: The plugins that made the pod wait at Permit in this attempt.
    permit: tuple[Hold, ...] = ()
    #: namespace/name of the pods that were selected as victims for this pod, in all its attempts.
    victims: tuple[str, ...] = ()
    #: The preemption of the pod, if it has had no other node since.
    preempted: Preempted | None = None
    #: The suggestions after this attempt, as users see them; None until someone asked for them.
    suggestions: tuple[Any, ...] | None = None
    #: When the pod was first ready; None if that is unknown.
    queued: float | None = None
    #: The last moves of the pod in the queue before this attempt.
    moves: tuple[Move, ...] = ()

    @property
    def waits(self) -> bool:
        """Whether the pod is waiting for another attempt."""
        return self.outcome in ("unschedulable", "error")


class DecisionRecords:
    """The last decision for each pod.

    Records of pending pods are kept while the pods are pending. Of the others, the oldest are evicted if there are more
    than ``limit``, or if the estimated size of all records exceeds ``max_bytes``.
    """

    def __init__(self, *, limit: int = 10_000, max_bytes: int = 32 << 20) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._finished: OrderedDict[str, Decision] = OrderedDict()
        self._waiting: dict[str, Decision] = {}
        self._shared: OrderedDict[tuple[Verdict, ...], tuple[Verdict, ...]] = OrderedDict()
        #: The estimated size of all records.
        self.bytes = 0

    def put(self, decision: Decision) -> None:
        """Store a decision, replacing the previous one for the pod."""
        key = decision.pod
        old = self._finished.pop(key, None)
        if old is None and self._waiting:
            old = self._waiting.pop(key, None)
        if old is not None:
            self.bytes -= _size(old)
            if old.uid == decision.uid:
                _inherit(decision, old)
        if decision.waits:
            self._waiting[key] = decision
        else:
            self._finished[key] = decision
        self.bytes += _size(decision)
        if len(self._finished) > self._limit or self.bytes > self._max_bytes:
            self._evict()

    def share(self, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
        """Return equal verdicts that are already stored, or store these."""
        shared = self._shared.get(verdicts)
        if shared is not None:
            self._shared.move_to_end(verdicts)
            return shared
        self._shared[verdicts] = verdicts
        if len(self._shared) > _MAX_SHARED:
            self._shared.popitem(last=False)
        return verdicts

    def finish(self, key: str, uid: str) -> None:
        """Allow eviction of the record of a pod that was deleted, or bound by another scheduler."""
        decision = self._waiting.get(key)
        if decision is not None and decision.uid == uid:
            del self._waiting[key]
            self._finished[key] = decision
            self._evict()

    def preempt(self, key: str, uid: str, preempted: Preempted, *, profile: str) -> None:
        """Record that a pod was preempted, also if no decision for it is stored."""
        decision = self.get(key)
        if decision is not None and decision.uid == uid:
            decision.preempted = preempted
            if not decision.waits:
                decision.outcome = "preempted"
            return
        self.put(
            Decision(
                pod=key,
                uid=uid,
                profile=profile,
                time=preempted.time,
                attempt=0,
                outcome="preempted",
                phases=Phases(),
                node=preempted.node,
                preempted=preempted,
            )
        )

    def get(self, key: str) -> Decision | None:
        """Return the last decision for a pod (namespace/name)."""
        return self._waiting.get(key) or self._finished.get(key)

    def latest(self, limit: int) -> Iterator[Decision]:
        """Return the latest decisions, newest first."""
        both = [*self._finished.values(), *self._waiting.values()]
        both.sort(key=lambda decision: decision.time, reverse=True)
        return iter(both[:limit])

    def __len__(self) -> int:
        return len(self._finished) + len(self._waiting)

    def _evict(self) -> None:
        while self._finished and (len(self._finished) > self._limit or self.bytes > self._max_bytes):
            _, oldest = self._finished.popitem(last=False)
            self.bytes -= _size(oldest)


def _inherit(decision: Decision, old: Decision) -> None:
    """Copy from the previous record what still applies to the pod."""
    if old.victims:
        decision.victims = tuple(dict.fromkeys((*old.victims, *decision.victims)))
    if not decision.node:
        decision.preempted = old.preempted
        if old.attempt == decision.attempt:
            decision.permit = old.permit


def _size(decision: Decision) -> int:
    size = _RECORD_BYTES + _CANDIDATE_BYTES * len(decision.candidates) + _NAME_BYTES * len(decision.victims)
    if not decision.waits and not decision.verdicts:
        return size
    size += len(decision.message)
    for verdict in decision.verdicts:  # an overestimate if they are shared
        size += _VERDICT_BYTES + _NAME_BYTES * len(verdict.nodes)
    for device in decision.devices:
        size += _VERDICT_BYTES + _NAME_BYTES * len(device.devices) + len(device.reason)
    if decision.preemption is not None:
        size += _VERDICT_BYTES + _NAME_BYTES * len(decision.preemption.victims)
    return size


def best_places(totals: npt.NDArray[Any], chosen: int, count: int, guess: Sequence[int] = ()) -> list[int]:
    """Return the chosen place, then the places with the next highest totals.

    Places in ``guess`` (the last result) that are as good as the chosen one are used without a search. The vector is
    modified temporarily and restored: repeated searches for the maximum are cheaper than sorting.
    """
    best, size = totals[chosen], len(totals)
    places = [chosen]
    for place in guess:
        if len(places) < count and place < size and place != chosen and totals[place] == best:
            places.append(place)
    missing = min(count, size) - len(places)
    return places if missing <= 0 else places + _next_best(totals, places, missing)


def _next_best(totals: npt.NDArray[Any], taken: list[int], count: int) -> list[int]:
    """Return the places with the highest totals, except those in ``taken``; the first of equals first."""
    if not totals.flags.writeable:
        totals = totals.copy()
    lowest = -np.inf if totals.dtype.kind == "f" else LOWEST
    places = list(taken)
    values = [totals.item(place) for place in places]
    try:
        for place in places:
            totals[place] = lowest
        for _ in range(count):
            place = int(totals.argmax())
            value = totals.item(place)
            if value == lowest:
                break  # the others are not feasible
            places.append(place)
            values.append(value)
            totals[place] = lowest
    finally:
        for place, value in zip(places, values, strict=True):
            totals[place] = value
    return places[len(taken) :]
