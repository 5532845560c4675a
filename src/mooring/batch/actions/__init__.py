"""Built-in actions of sessions, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from mooring.batch.actions.allocate import allocate
from mooring.batch.actions.backfill import backfill
from mooring.batch.actions.enqueue import enqueue
from mooring.batch.actions.gang_eviction import gangpreempt, gangreclaim
from mooring.batch.actions.preempt import preempt
from mooring.batch.actions.reclaim import reclaim
from mooring.batch.actions.shuffle import shuffle
from mooring.batch.session import Session

#: A function that changes a session, at once or in steps.
Action = Callable[[Session], Iterator[None] | None]

ACTIONS: Mapping[str, Action] = MappingProxyType(
    {
        "enqueue": enqueue,
        "allocate": allocate,
        "backfill": backfill,
        "preempt": preempt,
        "reclaim": reclaim,
        "shuffle": shuffle,
        "gangpreempt": gangpreempt,
        "gangreclaim": gangreclaim,
    }
)
