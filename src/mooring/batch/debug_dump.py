"""A dump of a session's initial state for debugging: orders, shares and first scores."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from mooring.batch.job import JobInfo
from mooring.batch.plugins.drf import DominantShare
from mooring.batch.plugins.nodeorder import NodeOrder
from mooring.batch.search import ErrorCache, find_nodes, pre_predicate, score_nodes
from mooring.batch.session import Session
from mooring.batch.session_nodes import SessionNodes
from mooring.batch.task import PENDING

T = TypeVar("T")


def at_open(session: Session, opened: list[Any]) -> dict[str, Any]:
    """Return orders, shares, invalid jobs, and the verdicts on the first task of each job."""
    found: dict[str, Any] = {}
    plugins = [plugin for plugin, _ in opened]
    with_jobs = {job.queue for job in session.jobs.values()}
    queues = [session.queues[name] for name in with_jobs]
    found["queueOrder"] = [queue.name for queue in _sorted(queues, session.queue_less)]
    jobs = _sorted(session.jobs.values(), session.job_less)
    found["jobOrder"] = {name: [job.uid for job in jobs if job.queue == name] for name in sorted(with_jobs)}
    invalid = {job.uid: session.job_valid(job) for job in jobs}
    found["invalidJobs"] = {uid: problem.reason for uid, problem in invalid.items() if problem is not None}
    drf = next((plugin for plugin in plugins if isinstance(plugin, DominantShare)), None)
    if drf is not None:
        found["jobShare"] = {uid: round(own.share, 4) for uid, own in sorted(drf.shares.items())}
    found["firstTasks"] = {}
    for job in jobs:
        found["firstTasks"] |= _first_task(session, plugins, job)
    return found


def _sorted(items: Iterable[T], less: Callable[[T, T], bool]) -> list[T]:
    def compare(left: T, right: T) -> int:
        return -1 if less(left, right) else 1

    return sorted(items, key=functools.cmp_to_key(compare))


def _first_task(session: Session, plugins: list[Any], job: JobInfo) -> dict[str, Any]:
    waiting = session.task_heap(job.of_status(PENDING))
    if not waiting:
        return {}
    task = waiting.pop()
    if pre_predicate(session, task):
        return {}
    found = find_nodes(session, task, "allocate", ErrorCache(enabled=False))
    names = [node.name for node in session.node_list]
    dump: dict[str, Any] = {}
    unfit = {names[row]: [status.message for status in verdict] for row, verdict in found.errors.verdicts()}
    if unfit:
        dump["unfit"] = unfit
    scores = score_nodes(session, task, found.rows) if len(found.rows) else None
    if scores is not None:
        rows = found.rows.tolist()
        dump["scores"] = {names[row]: round(float(score), 4) for row, score in zip(rows, scores, strict=True)}
        nodes = SessionNodes(session, found.rows)
        for plugin in plugins:
            if isinstance(plugin, NodeOrder):
                for part, values in plugin.parts(task, nodes).items():
                    vector = np.broadcast_to(values, (len(rows),))
                    dump.setdefault("parts", {})[f"nodeorder.{part}"] = {
                        names[row]: float(value) for row, value in zip(rows, vector, strict=True)
                    }
    return {task.key: dump}
