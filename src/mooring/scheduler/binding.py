"""From a chosen node to a bound pod: Reserve, Permit, then PreBind, Bind and PostBind.

Reserve and Permit belong to the scheduling cycle and never wait. The rest is the binding cycle: it may await the
outside (a Permit that was asked for, volumes, the API server), and many of them run beside the next decisions.
"""

from __future__ import annotations

import asyncio
import inspect
from time import perf_counter
from typing import Any

from mooring.api.pod import Pod
from mooring.framework.state import CycleState
from mooring.framework.status import SUCCESS, Code, PermitWait, Status
from mooring.framework.waiting_pods import MAX_WAIT_SECONDS, WaitingPod, WaitingPods
from mooring.observe.scheduler_metrics import ProfileMetrics
from mooring.scheduler.answers import as_status, failure, permit_answer
from mooring.scheduler.extenders import Extenders
from mooring.scheduler.pre_binds import PreBinds
from mooring.scheduler.profile import Bound, Profile

_WAITING = "one or more plugins asked to wait and no plugin rejected pod"


def reserve(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> Status:
    """Run Reserve; the first that does not agree decides."""
    for bound in profile.reserve:
        status = _call(bound, "Reserve", state, pod, node_name)
        if not status.is_success:
            return status
    return SUCCESS


def unreserve(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> list[Status]:
    """Run Unreserve of all Reserve plugins, last first; what breaks is told, but stops nobody."""
    statuses = [_call(bound, "Unreserve", state, pod, node_name) for bound in profile.unreserve]
    return [status for status in statuses if not status.is_success]


def permit(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> Status:
    """Run Permit. A Wait puts the pod among the waiting ones, for ``wait_on_permit`` to wait for."""
    waits: dict[str, tuple[float, float]] = {}
    allowed: dict[str, float] = {}
    now = profile.handle.clock()
    for bound in profile.permit:
        try:
            answer = permit_answer(bound.call(state, pod, node_name))
        except Exception as error:
            return failure(f'running Permit plugin "{bound.name}"', bound.name, error).status
        if isinstance(answer, PermitWait):
            seconds = min(answer.seconds, MAX_WAIT_SECONDS)
            waits[bound.name] = (seconds, now + seconds)
            if answer.allow_after is not None:
                allowed[bound.name] = now + answer.allow_after
            continue
        status = _checked(answer, bound, "Permit")
        if not status.is_success:
            return status
    if not waits:
        return SUCCESS
    profile.handle.waiting_pods.add(WaitingPod(pod, node_name, waits, allowed))
    return Status.wait(_WAITING)


async def wait_on_permit(waiting_pods: WaitingPods, pod: Pod) -> Status:
    """Wait until a held pod is allowed, rejected or out of time."""
    waiting = waiting_pods.get(pod.uid)
    if waiting is None:
        return SUCCESS
    settled: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
    waiting.when_settled(lambda status: None if settled.done() else settled.set_result(status))
    try:
        return await settled
    finally:
        waiting_pods.remove(pod.uid)


def pre_flight(
    profile: Profile, state: CycleState, pod: Pod, node_name: str, points: ProfileMetrics | None = None
) -> tuple[Status, tuple[Bound, ...]]:
    """Ask the PreBind plugins whether they will have something to do; those that answer Skip are left out."""
    started = perf_counter()
    status, working = _pre_flight(profile, state, pod, node_name)
    # That nobody has anything to do is told as Skip.
    _note(points, "PreBindPreFlight", status if working or not status.is_success else Status(Code.SKIP), started)
    return status, working


def _pre_flight(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, tuple[Bound, ...]]:
    working = []
    for bound in profile.pre_bind:
        ask = profile.extension(bound.plugin, "pre_bind_pre_flight")
        if ask is None:
            working.append(bound)
            continue
        status = _call(Bound(bound.name, bound.plugin, ask), "PreBindPreFlight", state, pod, node_name, skip=True)
        if status.is_success:
            working.append(bound)
        elif status.code is not Code.SKIP:
            return status, ()
    return SUCCESS, tuple(working)


async def bind(
    profile: Profile,
    state: CycleState,
    pod: Pod,
    node_name: str,
    working: tuple[Bound, ...],
    points: ProfileMetrics | None = None,
    extenders: Extenders | None = None,
    pre_binds: PreBinds | None = None,
) -> Status:
    """Run PreBind (of the plugins that have something to do), Bind (an extender's, if one binds) and PostBind."""
    started = perf_counter()
    status = await _pre_bind(working, state, pod, node_name, pre_binds)
    started = _note(points, "PreBind", status, started)
    if not status.is_success:
        return status
    bound = await extenders.bind(pod, node_name) if extenders is not None else None
    status = bound if bound is not None else await _bind(profile, state, pod, node_name)
    started = _note(points, "Bind", status, started)
    if not status.is_success:
        return status
    for plugin in profile.post_bind:
        await _call_outside(plugin, "PostBind", state, pod, node_name)
    _note(points, "PostBind", SUCCESS, started)
    return SUCCESS


def _note(points: ProfileMetrics | None, point: str, status: Status, started: float) -> float:
    """Tell how long an extension point took; the next one begins now."""
    now = perf_counter()
    if points is not None:
        points.point(point, status.code, now - started)
    return now


async def _pre_bind(
    working: tuple[Bound, ...], state: CycleState, pod: Pod, node_name: str, pre_binds: PreBinds | None
) -> Status:
    for bound in working:
        work = _call_outside(bound, "PreBind", state, pod, node_name)
        status = await (work if pre_binds is None else pre_binds.run(pod.uid, bound.name, work))
        if not status.is_success:
            return status
    return SUCCESS


async def _bind(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> Status:
    """The first Bind plugin that does not pass decides."""
    for bound in profile.bind:
        status = await _call_outside(bound, "Bind", state, pod, node_name)
        if status.code is not Code.SKIP:
            return status
    return Status(Code.SKIP, ("all bind plugins skipped the pod",))


def _call(bound: Bound, point: str, state: CycleState, pod: Pod, node_name: str, *, skip: bool = False) -> Status:
    try:
        answer = bound.call(state, pod, node_name)
    except Exception as error:
        return failure(f'running {point} plugin "{bound.name}"', bound.name, error).status
    return _checked(answer, bound, point, skip=skip)


async def _call_outside(bound: Bound, point: str, state: CycleState, pod: Pod, node_name: str) -> Status:
    try:
        answer = bound.call(state, pod, node_name)
        if inspect.isawaitable(answer):
            answer = await answer
    except Exception as error:
        return failure(f'running {point} plugin "{bound.name}"', bound.name, error).status
    return _checked(answer, bound, point, skip=point == "Bind")


def _checked(answer: Any, bound: Bound, point: str, *, skip: bool = False) -> Status:
    where = f'running {point} plugin "{bound.name}"'
    try:
        status = as_status(answer)
    except TypeError as error:
        return failure(where, bound.name, error).status
    if status.is_success or (skip and status.code is Code.SKIP):
        return status
    if status.is_rejected and point in ("Reserve", "Permit"):
        return status.by(bound.name)
    return Status.error(f"{where}: {status.message}").by(bound.name)
