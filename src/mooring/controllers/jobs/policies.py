"""Which action follows from what happened to a job or one of its pods. No I/O here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from mooring.api.volcano_jobs import LifecyclePolicy, VolcanoJob
from mooring.config.durations import DurationError, parse_duration
from mooring.controllers.jobs import constants

#: Never the reason for anything but a look at the job.
_INTERNAL: Final = frozenset({"", constants.OUT_OF_SYNC, constants.COMMAND_ISSUED, constants.POD_RUNNING})


class Request(msgspec.Struct, frozen=True):
    """Something happened: to a pod of a job, to its group, or somebody asked for an action."""

    event: str = constants.OUT_OF_SYNC
    action: str = ""
    task: str = ""
    pod: str = ""
    pod_uid: str = ""
    partition: str = ""
    exit_code: int = 0
    #: The version of the job that the pod belongs to.
    version: int = 0


class Decision(NamedTuple):
    """What to do, and after how many seconds."""

    action: str
    delay: float = 0.0


_LOOK: Final = Decision(constants.SYNC)


def decide(job: VolcanoJob, request: Request) -> Decision:
    """What is to be done; the policies of the pod's task go before those of the job."""
    if request.action:
        return Decision(request.action)
    if request.event in _INTERNAL or request.version < job.status.version:
        return _LOOK  # what happens to pods of an earlier version of the job does not count any more
    task = next((each for each in job.spec.tasks if each.name == request.task), None)
    if task is not None and request.task and (found := _first(task.policies, request)) is not None:
        return found
    return _first(job.spec.policies, request) or _LOOK


def _first(policies: Iterable[LifecyclePolicy], request: Request) -> Decision | None:
    for policy in policies:
        events = events_of(policy)
        if request.event in events or constants.ANY in events:
            # Every pod is pending at first: that alone means nothing, only for how long.
            if request.event != constants.POD_PENDING or policy.timeout is not None:
                return Decision(policy.action, _seconds(policy))
        elif policy.exit_code is not None and policy.exit_code == request.exit_code:
            return Decision(policy.action, _seconds(policy))
    return None


def events_of(policy: LifecyclePolicy) -> tuple[str, ...]:
    """All events that a policy is about."""
    return (*policy.events, policy.event) if policy.event else policy.events


def _seconds(policy: LifecyclePolicy) -> float:
    try:
        return parse_duration(policy.timeout) / 1e9 if policy.timeout else 0.0
    except DurationError:
        return 0.0


class Delayed(msgspec.Struct):
    """An action that is due later, unless something happens before."""

    request: Request
    action: str
    due: float


def cancels(request: Request, delayed: Delayed) -> bool:
    """Whether what happened to a pod makes an action on its account pointless."""
    waited_for = delayed.request.event
    if waited_for == constants.POD_PENDING:
        # A pod that was made anew under its name is waited for anew.
        is_pod_event = request.event in {constants.POD_RUNNING, constants.POD_FAILED, constants.POD_EVICTED}
        return is_pod_event and request.pod_uid == delayed.request.pod_uid
    return waited_for in {constants.POD_FAILED, constants.POD_EVICTED} and request.event == constants.POD_RUNNING


def supersedes(action: str, request: Request, delayed: Delayed) -> bool:
    """Whether an action that was just carried out makes a later one of its kind pointless."""
    if action == constants.RESTART_TASK:
        return delayed.action == action and delayed.request.task == request.task
    if action == constants.RESTART_POD:
        return delayed.action == action and delayed.request.pod == request.pod
    if action == constants.RESTART_PARTITION:
        return delayed.action == action and delayed.request.partition == request.partition
    return action != constants.SYNC and delayed.action not in constants.PARTIAL
