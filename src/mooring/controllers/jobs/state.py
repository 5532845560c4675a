"""The life of a job: from its phase and what is asked of it follows what to do with its pods, and the next phase.

No I/O here: `step` says what to do, and once it is done and the pods are counted, `Step.advance` says where that leads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple

import msgspec

from mooring.api.volcano_jobs import VolcanoJobSpec
from mooring.controllers.jobs import constants

#: Pods in these phases stay when a job is stopped: people want to read their logs.
SOFT: Final = frozenset({constants.SUCCEEDED, constants.FAILED})


class Counts(msgspec.Struct):
    """How many pods of a job are in which phase; by task, too."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    unknown: int = 0
    tasks: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)

    @property
    def alive(self) -> int:
        """Pods that are not done."""
        return self.terminating + self.pending + self.running


class Place(NamedTuple):
    """Where a job is: its phase, and how often it was restarted."""

    phase: str
    retries: int


#: From the spec, the place and the counts: the next place, or None to stay.
Advance = Callable[[VolcanoJobSpec, Place, Counts], Place | None]


class Step(NamedTuple):
    """What to do with the pods: bring them up to the spec, stop all but those in `keep`, or stop a part of them."""

    verb: Literal["sync", "kill", "kill part"]
    keep: frozenset[str]
    advance: Advance


def step(phase: str, action: str) -> Step:
    """What to do in a phase when an action is due."""
    if phase in {"", constants.PENDING, constants.RUNNING}:
        return _step_of_active(phase, action)
    if phase == constants.RESTARTING:
        if action == constants.SYNC:
            return Step("sync", SOFT, _restarting)
        if action in constants.PARTIAL:
            return Step("kill part", SOFT, _restarting)
        return Step("kill", frozenset(), _restarting)
    if phase in {constants.ABORTING, constants.ABORTED} and action == constants.RESUME:
        return Step("kill", SOFT, _restart)
    return Step("kill", SOFT, _ENDS.get(phase, _stay))


def _step_of_active(phase: str, action: str) -> Step:
    if action == constants.RESTART:
        return Step("kill", frozenset(), _restart)
    if action in constants.PARTIAL:
        return Step("kill part", SOFT, _restart)
    if action in _BEGINS:
        return Step("kill", SOFT, _to(_BEGINS[action]))
    return Step("sync", SOFT, _running if phase == constants.RUNNING else _pending)


def _to(phase: str) -> Advance:
    return lambda _spec, place, _counts: Place(phase, place.retries)


def _stay(_spec: VolcanoJobSpec, _place: Place, _counts: Counts) -> Place | None:
    return None


def _restart(_spec: VolcanoJobSpec, place: Place, _counts: Counts) -> Place:
    return Place(constants.RESTARTING, place.retries + 1)


def _when_quiet(phase: str) -> Advance:
    """On to a phase as soon as no pod is alive."""
    return lambda _spec, place, counts: None if counts.alive else Place(phase, place.retries)


#: What stops a job for good, or until it is resumed.
_BEGINS: Final = {
    constants.ABORT: constants.ABORTING,
    constants.COMPLETE: constants.COMPLETING,
    constants.TERMINATE: constants.TERMINATING,
}
_ENDS: Final[dict[str, Advance]] = {
    constants.ABORTING: _when_quiet(constants.ABORTED),
    constants.COMPLETING: _when_quiet(constants.COMPLETED),
    constants.TERMINATING: _when_quiet(constants.TERMINATED),
}


def _pending(spec: VolcanoJobSpec, place: Place, counts: Counts) -> Place | None:
    if spec.min_available <= counts.running + counts.succeeded + counts.failed:
        return Place(constants.RUNNING, place.retries)
    return None


def _restarting(spec: VolcanoJobSpec, place: Place, counts: Counts) -> Place | None:
    if place.retries >= spec.max_retry:
        return Place(constants.FAILED, place.retries)
    if replicas(spec) - counts.terminating >= spec.min_available:
        return Place(constants.PENDING, place.retries)
    return None


def _running(spec: VolcanoJobSpec, place: Place, counts: Counts) -> Place | None:
    total = replicas(spec)
    if not total:
        return None  # scaled down to nothing: it goes on as it is
    if spec.min_success is not None and counts.succeeded >= spec.min_success:
        return Place(constants.COMPLETED, place.retries)
    if counts.succeeded + counts.failed == total:
        return Place(constants.COMPLETED if _is_success(spec, counts) else constants.FAILED, place.retries)
    if counts.pending > total - spec.min_available:
        return Place(constants.PENDING, place.retries)
    return None


def _is_success(spec: VolcanoJobSpec, counts: Counts) -> bool:
    """Whether enough pods succeeded, now that all are done: of every task, and altogether."""
    least = sum(task.replicas if task.min_available is None else task.min_available for task in spec.tasks)
    if spec.min_available >= least:
        for task in spec.tasks:
            phases = counts.tasks.get(task.name, {constants.SUCCEEDED: task.replicas})
            if phases.get(constants.SUCCEEDED, 0) < (task.min_available or 0):
                return False
    if spec.min_success is not None:
        return counts.succeeded >= spec.min_success
    return counts.succeeded >= spec.min_available


def replicas(spec: VolcanoJobSpec) -> int:
    """How many pods a job has when all are there."""
    return sum(task.replicas for task in spec.tasks)
