"""The state machine of a job: phase and action determine the operation on the pods, and then the next phase.

Without I/O: `step` returns the operation. When it is done, `Step.advance` returns the next phase from the pod counts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

from mooring.api.volcano_jobs import VolcanoJobSpec
from mooring.controllers import constants
from mooring.controllers.jobs.job_status import Counts, JobProgress, replicas

#: Pods in these phases are kept when a job is stopped, so that their logs can be read.
FINISHED_PODS: Final = frozenset({constants.SUCCEEDED, constants.FAILED})


#: Returns the next phase from the spec, the current phase and the pod counts; None to stay.
Advance = Callable[[VolcanoJobSpec, JobProgress, Counts], JobProgress | None]


class Step(NamedTuple):
    """An operation on the pods: reconcile them with the spec, delete all but those in `keep`, or delete some."""

    verb: Literal["sync", "kill", "kill part"]
    keep: frozenset[str]
    advance: Advance


def step(phase: str, action: str) -> Step:
    """Return the step for an action in a phase."""
    if phase in {"", constants.PENDING, constants.RUNNING}:
        return _step_of_active(phase, action)
    if phase == constants.RESTARTING:
        if action == constants.SYNC:
            return Step("sync", FINISHED_PODS, _restarting)
        if action in constants.PARTIAL:
            return Step("kill part", FINISHED_PODS, _restarting)
        return Step("kill", frozenset(), _restarting)
    if phase in {constants.ABORTING, constants.ABORTED} and action == constants.RESUME:
        return Step("kill", FINISHED_PODS, _restart)
    return Step("kill", FINISHED_PODS, _STOPPED.get(phase, _stay))


def _step_of_active(phase: str, action: str) -> Step:
    if action == constants.RESTART:
        return Step("kill", frozenset(), _restart)
    if action in constants.PARTIAL:
        return Step("kill part", FINISHED_PODS, _restart)
    if action in _STOPPING:
        return Step("kill", FINISHED_PODS, _to(_STOPPING[action]))
    return Step("sync", FINISHED_PODS, _running if phase == constants.RUNNING else _pending)


def _to(phase: str) -> Advance:
    return lambda _spec, progress, _counts: JobProgress(phase, progress.retries)


def _stay(_spec: VolcanoJobSpec, _progress: JobProgress, _counts: Counts) -> JobProgress | None:
    return None


def _restart(_spec: VolcanoJobSpec, progress: JobProgress, _counts: Counts) -> JobProgress:
    return JobProgress(constants.RESTARTING, progress.retries + 1)


def _when_stopped(phase: str) -> Advance:
    """Advance to a phase when no pod is alive."""
    return lambda _spec, progress, counts: None if counts.alive else JobProgress(phase, progress.retries)


#: Action -> the phase in which it stops the job.
_STOPPING: Final = {
    constants.ABORT: constants.ABORTING,
    constants.COMPLETE: constants.COMPLETING,
    constants.TERMINATE: constants.TERMINATING,
}
#: Phase -> the function that returns the phase after it.
_STOPPED: Final[dict[str, Advance]] = {
    constants.ABORTING: _when_stopped(constants.ABORTED),
    constants.COMPLETING: _when_stopped(constants.COMPLETED),
    constants.TERMINATING: _when_stopped(constants.TERMINATED),
}


def _pending(spec: VolcanoJobSpec, progress: JobProgress, counts: Counts) -> JobProgress | None:
    if spec.min_available <= counts.running + counts.succeeded + counts.failed:
        return JobProgress(constants.RUNNING, progress.retries)
    return None


def _restarting(spec: VolcanoJobSpec, progress: JobProgress, counts: Counts) -> JobProgress | None:
    if progress.retries >= spec.max_retry:
        return JobProgress(constants.FAILED, progress.retries)
    if replicas(spec) - counts.terminating >= spec.min_available:
        return JobProgress(constants.PENDING, progress.retries)
    return None


def _running(spec: VolcanoJobSpec, progress: JobProgress, counts: Counts) -> JobProgress | None:
    total = replicas(spec)
    if not total:
        return None  # scaled down to zero: the phase does not change
    if spec.min_success is not None and counts.succeeded >= spec.min_success:
        return JobProgress(constants.COMPLETED, progress.retries)
    if counts.succeeded + counts.failed == total:
        return JobProgress(constants.COMPLETED if _is_success(spec, counts) else constants.FAILED, progress.retries)
    if counts.pending > total - spec.min_available:
        return JobProgress(constants.PENDING, progress.retries)
    return None


def _is_success(spec: VolcanoJobSpec, counts: Counts) -> bool:
    """Return whether enough pods of a finished job succeeded, in each task and in total."""
    least = sum(task.replicas if task.min_available is None else task.min_available for task in spec.tasks)
    if spec.min_available >= least:
        for task in spec.tasks:
            phases = counts.tasks.get(task.name, {constants.SUCCEEDED: task.replicas})
            if phases.get(constants.SUCCEEDED, 0) < (task.min_available or 0):
                return False
    if spec.min_success is not None:
        return counts.succeeded >= spec.min_success
    return counts.succeeded >= spec.min_available
