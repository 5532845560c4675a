"""The status of a job: pod counts, phase, and the patch that writes it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from mooring.api.meta import format_time, parse_time
from mooring.api.volcano_jobs import JobCondition, JobState, TaskState, VolcanoJob, VolcanoJobSpec, VolcanoJobStatus
from mooring.config.durations import SECOND, format_duration
from mooring.controllers import constants
from mooring.controllers.jobs.job_pods import JobPod


class Counts(msgspec.Struct):
    """The number of pods of a job by phase, in total and by task."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    tasks: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)

    @property
    def alive(self) -> int:
        """The number of pods that have not finished."""
        return self.terminating + self.pending + self.running


class JobProgress(NamedTuple):
    """The phase of a job and how often it was restarted."""

    phase: str
    retries: int


def replicas(spec: VolcanoJobSpec) -> int:
    """Return the number of pods that a job specifies."""
    return sum(task.replicas for task in spec.tasks)


def count_pods(pods: Iterable[JobPod], deleted: Iterable[str]) -> Counts:
    """Count pods by phase. Pods that are terminating, or whose UID is in ``deleted``, count as terminating."""
    found, deleted = Counts(), set(deleted)
    for pod in pods:
        if pod.is_terminating or pod.uid in deleted:
            found.terminating += 1
            continue
        phase = pod.status.phase or constants.PENDING
        match phase:
            case constants.PENDING:
                found.pending += 1
            case constants.RUNNING:
                found.running += 1
            case constants.SUCCEEDED:
                found.succeeded += 1
            case constants.FAILED:
                found.failed += 1
            case _:
                phase = constants.UNKNOWN
                found.unknown += 1
        phases = found.tasks.setdefault(pod.task, {})
        phases[phase] = phases.get(phase, 0) + 1
    return found


def next_status(
    job: VolcanoJob, counts: Counts, progress: JobProgress, now: float, *, version: int, controlled: dict[str, str]
) -> VolcanoJobStatus:
    """Return the status of a job in a phase, with the given pod counts."""
    old = job.status
    state, conditions, duration = old.state, old.conditions, old.running_duration
    if progress.phase != state.phase:
        moment = format_time(now)
        state = JobState(phase=progress.phase, last_transition_time=moment)
        others = tuple(each for each in conditions if each.status != progress.phase)
        conditions = (*others, JobCondition(status=progress.phase, last_transition_time=moment))
        if progress.phase in constants.FINISHED:
            duration = _duration(job, now)
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
        retry_count=progress.retries,
        running_duration=duration,
        controlled_resources=controlled,
        conditions=conditions,
    )


def _duration(job: VolcanoJob, now: float) -> str | None:
    created = job.metadata.creation_timestamp
    return None if created is None else format_duration(max(int(now - parse_time(created)), 0) * SECOND)


def patch_for(old: VolcanoJobStatus, new: VolcanoJobStatus) -> dict[str, Any]:
    """Return a merge patch from one status to another. Removed fields are set to null."""
    before, after = _document(old), _document(new)
    return {"status": _difference(before, after)}


def _document(status: VolcanoJobStatus) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(status)
    # Counts are written even if they are zero, as Volcano does.
    for key in ("pending", "running", "succeeded", "failed", "terminating", "unknown", "version", "retryCount"):
        found.setdefault(key, 0)
    return found


def _difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        patch[key] = _difference(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return patch
