"""Making room on a node: what eviction actions share."""

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
    """For which gang tasks would be evicted, and how."""

    kind: Literal["preempt", "reclaim"]
    job: JobInfo


def curable_nodes(session: Session, task: TaskInfo) -> Mask | None:
    """The nodes that no earlier search of this session found hopeless for a task; None for all."""
    job = session.jobs.get(task.job)
    errors = job.fit_errors.get(task.uid) if job is not None else None
    hopeless = errors.unresolvable() if errors is not None else None
    return None if hopeless is None else ~hopeless


def suffices(task: TaskInfo, node: SessionNode, victims: Iterable[TaskInfo]) -> bool:
    """Whether a task fits a node once all victims are gone."""
    room = node.future_idle
    for victim in victims:
        room.add(victim.request)
    return task.request.fits(room)
