"""The status of a job: what it becomes, and how it is written."""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.api.meta import format_time, parse_time
from mooring.api.volcano_jobs import JobCondition, JobState, TaskState, VolcanoJob, VolcanoJobStatus
from mooring.config.durations import SECOND, format_duration
from mooring.controllers.jobs import constants
from mooring.controllers.jobs.state import Counts, Place


def next_status(
    job: VolcanoJob, counts: Counts, place: Place, now: float, *, version: int, controlled: dict[str, str]
) -> VolcanoJobStatus:
    """The status of a job with these pods at this place of its life."""
    old = job.status
    state, conditions, duration = old.state, old.conditions, old.running_duration
    if place.phase != state.phase:
        moment = format_time(now)
        state = JobState(phase=place.phase, last_transition_time=moment)
        others = tuple(each for each in conditions if each.status != place.phase)
        conditions = (*others, JobCondition(status=place.phase, last_transition_time=moment))
        if place.phase in constants.FINISHED:
            duration = _lasted(job, now)
    return VolcanoJobStatus(
        state=state,
        min_available=job.spec.min_available,
        task_status_count={task: TaskState(phase=dict(phases)) for task, phases in counts.tasks.items()},
        pending=counts.pending,
        running=counts.running,
        succeeded=counts.succeeded,
        failed=counts.failed,
        terminating=counts.terminating,
        unknown=counts.unknown,
        version=version,
        retry_count=place.retries,
        running_duration=duration,
        controlled_resources=controlled,
        conditions=conditions,
    )


def _lasted(job: VolcanoJob, now: float) -> str | None:
    created = job.metadata.creation_timestamp
    return None if created is None else format_duration(max(int(now - parse_time(created)), 0) * SECOND)


def patch_for(old: VolcanoJobStatus, new: VolcanoJobStatus) -> dict[str, Any]:
    """A merge patch that makes one status of another: what is no longer there is taken away."""
    before, after = _document(old), _document(new)
    return {"status": _difference(before, after)}


def _document(status: VolcanoJobStatus) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(status)
    # Numbers are written out although they are the default: people look for them.
    for key in ("pending", "running", "succeeded", "failed", "terminating", "unknown", "version", "retryCount"):
        found.setdefault(key, 0)
    return found


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        known = before.get(key)
        patch[key] = _difference(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return patch
