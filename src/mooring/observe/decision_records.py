"""Decision records: why a pod is where it is, or nowhere.

Making one is part of every decision, so a record is a few tuples of names and numbers, put into words only when
somebody asks. What many pods share (the verdicts on the nodes, when a whole workload does not fit) is kept once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

#: Bytes that a record takes by itself, and each candidate, verdict or name in it; measured, on the high side.
_RECORD_BYTES, _CANDIDATE_BYTES, _VERDICT_BYTES, _NAME_BYTES = 520, 260, 300, 70
#: So many different sets of verdicts are kept once for all pods that have them.
_SHARED = 1024


class Candidate(msgspec.Struct, frozen=True, gc=False):
    """A node that would have done, with the plugins' weighted scores in the order of ``Decision.scorers``."""

    node: str
    total: int
    scores: tuple[int, ...]


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What a plugin said of some nodes alike."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    count: int
    #: The first few of them.
    nodes: tuple[str, ...]


class Preemption(msgspec.Struct, frozen=True, gc=False):
    """What came of making room."""

    plugin: str
    code: str
    message: str
    nominated_node: str = ""
    #: namespace/name of the pods that have to go.
    victims: tuple[str, ...] = ()


class Phases(msgspec.Struct, gc=False):
    """Seconds that each part of an attempt took; None for what did not happen."""

    pre_filter: float | None = None
    filter: float | None = None
    post_filter: float | None = None
    score: float | None = None
    reserve: float | None = None
    #: From the decision to the bound pod, Permit waits included.
    bind: float | None = None


class Decision(msgspec.Struct, gc=False, kw_only=True):
    """What one attempt came to."""

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
    # For a pod that got a node:
    node: str = ""
    evaluated: int = 0
    feasible: int = 0
    #: The plugins whose scores the candidates have.
    scorers: tuple[str, ...] = ()
    #: The chosen node, then the next best.
    candidates: tuple[Candidate, ...] = ()
    #: Whether the node was chosen because room had been made on it, without looking at others.
    was_nominated: bool = False
    # For one that did not:
    message: str = ""
    #: Of a pod that got a node, those of extenders only.
    verdicts: tuple[Verdict, ...] = ()
    preemption: Preemption | None = None

    @property
    def waits(self) -> bool:
        """Whether the pod waits for another attempt."""
        return self.outcome in ("unschedulable", "error")


class DecisionRecords:
    """The last decision about each of many pods.

    Those about pods that wait are kept as long as they wait. Of the others the oldest go when there are more than
    ``limit``, or when all records together are estimated to take more than ``max_bytes``.
    """

    def __init__(self, *, limit: int = 10_000, max_bytes: int = 32 << 20) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._settled: OrderedDict[str, Decision] = OrderedDict()
        self._waiting: dict[str, Decision] = {}
        self._shared: OrderedDict[tuple[Verdict, ...], tuple[Verdict, ...]] = OrderedDict()
        #: What all records take, roughly.
        self.bytes = 0

    def put(self, decision: Decision) -> None:
        """Keep a decision instead of the one before."""
        key = decision.pod
        old = self._settled.pop(key, None)
        if old is None and self._waiting:
            old = self._waiting.pop(key, None)
        if old is not None:
            self.bytes -= _size(old)
        if decision.waits:
            self._waiting[key] = decision
        else:
            self._settled[key] = decision
        self.bytes += _size(decision)
        if len(self._settled) > self._limit or self.bytes > self._max_bytes:
            self._evict()

    def share(self, verdicts: tuple[Verdict, ...]) -> tuple[Verdict, ...]:
        """The same verdicts, kept once for all pods that have them."""
        known = self._shared.get(verdicts)
        if known is not None:
            self._shared.move_to_end(verdicts)
            return known
        self._shared[verdicts] = verdicts
        if len(self._shared) > _SHARED:
            self._shared.popitem(last=False)
        return verdicts

    def settle(self, key: str, uid: str) -> None:
        """A pod does not wait any more: it is gone, or somebody else bound it. Its record is now one of many."""
        decision = self._waiting.get(key)
        if decision is not None and decision.uid == uid:
            del self._waiting[key]
            self._settled[key] = decision
            self._evict()

    def get(self, key: str) -> Decision | None:
        """The last decision about a pod (namespace/name)."""
        return self._waiting.get(key) or self._settled.get(key)

    def latest(self, limit: int) -> Iterator[Decision]:
        """The newest decisions first."""
        both = [*self._settled.values(), *self._waiting.values()]
        both.sort(key=lambda decision: decision.time, reverse=True)
        return iter(both[:limit])

    def __len__(self) -> int:
        return len(self._settled) + len(self._waiting)

    def _evict(self) -> None:
        while self._settled and (len(self._settled) > self._limit or self.bytes > self._max_bytes):
            _, oldest = self._settled.popitem(last=False)
            self.bytes -= _size(oldest)


def _size(decision: Decision) -> int:
    if not decision.waits and not decision.verdicts:
        return _RECORD_BYTES + _CANDIDATE_BYTES * len(decision.candidates)
    size = _RECORD_BYTES + _CANDIDATE_BYTES * len(decision.candidates) + len(decision.message)
    for verdict in decision.verdicts:  # counted in full although they may be shared: better too much than too little
        size += _VERDICT_BYTES + _NAME_BYTES * len(verdict.nodes)
    if decision.preemption is not None:
        size += _VERDICT_BYTES + _NAME_BYTES * len(decision.preemption.victims)
    return size
