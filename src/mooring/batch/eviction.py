"""Helpers that the eviction actions share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from mooring.batch.job import JobInfo
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNode
from mooring.batch.task import TaskInfo

Mask = npt.NDArray[np.bool_]


class EvictionContext(NamedTuple):
    """The gang for which tasks would be evicted, and the kind of action.

    Attributes:
        kind: ``preempt`` for tasks of the same queue, ``reclaim`` for tasks of other queues.
        job: The gang.
    """

    kind: Literal["preempt", "reclaim"]
    job: JobInfo


def curable_nodes(session: Session, task: TaskInfo) -> Mask | None:
    """Return the nodes that no earlier search of the session found unresolvable for a task; None for all."""
    job = session.jobs.get(task.job)
    errors = job.fit_errors.get(task.uid) if job is not None else None
    unresolvable = errors.unresolvable() if errors is not None else None
    return None if unresolvable is None else ~unresolvable


def suffices(task: TaskInfo, node: SessionNode, victims: Iterable[TaskInfo]) -> bool:
    """Return whether a task fits on a node after all victims are evicted."""
    room = node.future_idle
    for victim in victims:
        room.add(victim.request)
    return task.request.fits(room)
