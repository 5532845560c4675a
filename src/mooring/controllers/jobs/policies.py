"""Lifecycle policies: the action for an event of a job or of one of its pods. Without I/O."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from mooring.api.volcano_jobs import LifecyclePolicy, VolcanoJob
from mooring.config.durations import DurationError, parse_duration
from mooring.controllers import constants

#: Events that only sync the job.
_INTERNAL: Final = frozenset({"", constants.OUT_OF_SYNC, constants.COMMAND_ISSUED, constants.POD_RUNNING})


class Request(msgspec.Struct, frozen=True):
    """An event of a pod or of the PodGroup, or a command to execute an action."""

    event: str = constants.OUT_OF_SYNC
    action: str = ""
    task: str = ""
    pod: str = ""
    pod_uid: str = ""
    partition: str = ""
    exit_code: int = 0
    #: The version of the job for which the pod was created.
    version: int = 0


class Decision(NamedTuple):
    """An action, and the delay in seconds."""

    action: str
    delay: float = 0.0


_SYNC: Final = Decision(constants.SYNC)


def decide(job: VolcanoJob, request: Request) -> Decision:
    """Return the action for a request. The policies of the pod's task take precedence over those of the job."""
    if request.action:
        return Decision(request.action)
    if request.event in _INTERNAL or request.version < job.status.version:
        return _SYNC  # events of pods of an earlier job version are ignored
    task = next((each for each in job.spec.tasks if each.name == request.task), None)
    if task is not None and request.task and (found := _first(task.policies, request)) is not None:
        return found
    return _first(job.spec.policies, request) or _SYNC


def _first(policies: Iterable[LifecyclePolicy], request: Request) -> Decision | None:
    for policy in policies:
        events = events_of(policy)
        if request.event in events or constants.ANY in events:
            # Every pod is pending at first, so PodPending counts only with a timeout.
            if request.event != constants.POD_PENDING or policy.timeout is not None:
                return Decision(policy.action, _seconds(policy))
        elif policy.exit_code is not None and policy.exit_code == request.exit_code:
            return Decision(policy.action, _seconds(policy))
    return None


def events_of(policy: LifecyclePolicy) -> tuple[str, ...]:
    """Return all events of a policy."""
    return (*policy.events, policy.event) if policy.event else policy.events


def _seconds(policy: LifecyclePolicy) -> float:
    try:
        return parse_duration(policy.timeout) / 1e9 if policy.timeout else 0.0
    except DurationError:
        return 0.0


class Delayed(msgspec.Struct):
    """An action that is due later, unless another event cancels it."""

    request: Request
    action: str
    due: float


def cancels(request: Request, delayed: Delayed) -> bool:
    """Return whether a request cancels a delayed action of the same pod."""
    event = delayed.request.event
    if event == constants.POD_PENDING:
        # A recreated pod of the same name has a delayed action of its own.
        is_pod_event = request.event in {constants.POD_RUNNING, constants.POD_FAILED, constants.POD_EVICTED}
        return is_pod_event and request.pod_uid == delayed.request.pod_uid
    return event in {constants.POD_FAILED, constants.POD_EVICTED} and request.event == constants.POD_RUNNING


def supersedes(action: str, request: Request, delayed: Delayed) -> bool:
    """Return whether an action that was executed replaces a delayed one."""
    if action == constants.RESTART_TASK:
        return delayed.action == action and delayed.request.task == request.task
    if action == constants.RESTART_POD:
        return delayed.action == action and delayed.request.pod == request.pod
    if action == constants.RESTART_PARTITION:
        return delayed.action == action and delayed.request.partition == request.partition
    return action != constants.SYNC and delayed.action not in constants.PARTIAL
