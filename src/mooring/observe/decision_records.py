"""Decision records: why a pod was placed on its node, or why it is pending.

Every attempt creates a record, so a record is a few tuples of names and numbers that are formatted on request. Verdicts
that many pods have in common, such as the pods of a workload that does not fit, are stored once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

#: Estimated bytes of a record and of each candidate, verdict and name in it; measured and rounded up.
_RECORD_BYTES, _CANDIDATE_BYTES, _VERDICT_BYTES, _NAME_BYTES = 520, 260, 300, 70
#: Maximum number of shared sets of verdicts.
_MAX_SHARED = 1024


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A feasible node, with the plugins' weighted scores in the order of ``Decision.scorers``."""

    node: str
    total: int
    scores: tuple[int, ...]


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """Nodes that a plugin rejected for the same reasons."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    count: int
    #: Names of the first few nodes.
    nodes: tuple[str, ...]


class Preemption(msgspec.Struct, frozen=True, gc=False):
    """The result of preemption."""

    plugin: str
    code: str
    message: str
    nominated_node: str = ""
    #: namespace/name of the victims.
    victims: tuple[str, ...] = ()


class Phases(msgspec.Struct, gc=False):
    """Duration of each phase of an attempt in seconds; None if the phase did not run."""

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
    #: ``placed`` (being bound), ``bound``, ``unschedulable`` or ``error``.
    outcome: str
    phases: Phases
    # If the pod was placed:
    node: str = ""
    evaluated: int = 0
    feasible: int = 0
    #: The plugins whose scores the candidates have.
    scorers: tuple[str, ...] = ()
    #: The chosen node, then the next best nodes.
    candidates: tuple[Candidate, ...] = ()
    #: Whether the nominated node was chosen without evaluating other nodes.
    was_nominated: bool = False
    # If it was not:
    message: str = ""
    #: If the pod was placed, only the verdicts of extenders.
    verdicts: tuple[Verdict, ...] = ()
    preemption: Preemption | None = None

    @property
    def waits(self) -> bool:
        """Whether the pod is waiting for another attempt."""
        return self.outcome in ("unschedulable", "error")


class DecisionRecords:
    """The last decision for each pod.

    Records of pending pods are kept while the pods are pending. Of the others, the oldest are evicted if there are more
    than ``limit``, or if all records together exceed ``max_bytes`` by estimate.
    """

    def __init__(self, *, limit: int = 10_000, max_bytes: int = 32 << 20) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._finished: OrderedDict[str, Decision] = OrderedDict()
        self._waiting: dict[str, Decision] = {}
        self._shared: OrderedDict[tuple[Verdict, ...], tuple[Verdict, ...]] = OrderedDict()
        #: Estimated size of all records.
        self.bytes = 0

    def put(self, decision: Decision) -> None:
        """Store a decision, replacing the previous one for the pod."""
        key = decision.pod
        old = self._finished.pop(key, None)
        if old is None and self._waiting:
            old = self._waiting.pop(key, None)
        if old is not None:
            self.bytes -= _size(old)
        if decision.waits:
            self._waiting[key] = decision
        else:
            self._finished[key] = decision
        self.bytes += _size(decision)
        if len(self._finished) > self._limit or self.bytes > self._max_bytes:
            self._evict()

    def share(self, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
        """Return equal verdicts that are stored already, or store these."""
        shared = self._shared.get(verdicts)
        if shared is not None:
            self._shared.move_to_end(verdicts)
            return shared
        self._shared[verdicts] = verdicts
        if len(self._shared) > _MAX_SHARED:
            self._shared.popitem(last=False)
        return verdicts

    def settle(self, key: str, uid: str) -> None:
        """Allow eviction of the record of a pod that was deleted, or bound by another scheduler."""
        decision = self._waiting.get(key)
        if decision is not None and decision.uid == uid:
            del self._waiting[key]
            self._finished[key] = decision
            self._evict()

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


def _size(decision: Decision) -> int:
    if not decision.waits and not decision.verdicts:
        return _RECORD_BYTES + _CANDIDATE_BYTES * len(decision.candidates)
    size = _RECORD_BYTES + _CANDIDATE_BYTES * len(decision.candidates) + len(decision.message)
    for verdict in decision.verdicts:  # an overestimate if they are shared
        size += _VERDICT_BYTES + _NAME_BYTES * len(verdict.nodes)
    if decision.preemption is not None:
        size += _VERDICT_BYTES + _NAME_BYTES * len(decision.preemption.victims)
    return size
