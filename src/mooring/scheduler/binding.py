"""The extension points after a node is chosen: Reserve, Permit, PreBind, Bind and PostBind.

Reserve and Permit belong to the scheduling cycle and never wait. The others belong to the binding cycle and may await
I/O (volumes, the API server).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from time import perf_counter
from types import CoroutineType
from typing import Any, Protocol

from mooring.api.pod import Pod
from mooring.framework.plugin_errors import contain
from mooring.framework.state import CycleState
from mooring.framework.status import SKIP, SUCCESS, Code, PermitWait, Status
from mooring.framework.waiting_pods import MAX_WAIT_SECONDS, WaitingPod, WaitingPods
from mooring.scheduler.answers import as_status, failure, permit_answer
from mooring.scheduler.profile import Bound, Profile


class PointTimes(Protocol):
    """What records how long extension points take."""

    def point(self, point: str, code: Code, seconds: float) -> None:
        """Record an extension point that ends now."""
        ...


_WAITING = "one or more plugins asked to wait and no plugin rejected pod"


def reserve(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> Status:
    """Run the Reserve plugins until one fails."""
    for bound in profile.reserve:
        status = _call(bound, "Reserve", state, pod, node_name)
        if status is not SUCCESS and not status.is_success:
            return status
    return SUCCESS


def unreserve(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> list[Status]:
    """Run Unreserve of all Reserve plugins in reverse order; return the failures."""
    statuses = [_call(bound, "Unreserve", state, pod, node_name) for bound in profile.unreserve]
    return [status for status in statuses if not status.is_success]


def permit(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> Status:
    """Run the Permit plugins. If one returns Wait, the pod becomes a waiting pod."""
    if not profile.permit:
        return SUCCESS
    waits: dict[str, tuple[float, float]] = {}
    allowed: dict[str, float] = {}
    now = profile.handle.clock()
    for bound in profile.permit:
        try:
            answer = permit_answer(bound.call(state, pod, node_name))
        except BaseException as error:
            contain(error)
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
    """Wait until a waiting pod is allowed, rejected or timed out."""
    waiting = waiting_pods.get(pod.uid)
    if waiting is None:
        return SUCCESS
    decided: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
    waiting.when_settled(lambda status: None if decided.done() else decided.set_result(status))
    try:
        return await decided
    finally:
        waiting_pods.remove(pod.uid)


def pre_flight(
    profile: Profile, state: CycleState, pod: Pod, node_name: str, points: PointTimes | None = None
) -> tuple[Status, tuple[Bound, ...]]:
    """Run PreBindPreFlight; return the PreBind plugins that do not skip the pod."""
    started = perf_counter()
    status, pre_binders = _pre_flight(profile, state, pod, node_name)
    # As in kube-scheduler, the metric is Skip if all plugins skip.
    observe(points, "PreBindPreFlight", status if pre_binders or status is not SUCCESS else SKIP, started)
    return status, pre_binders


def _pre_flight(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, tuple[Bound, ...]]:
    pre_binders = []
    for bound, pre_flight in profile.pre_flights:
        status = SUCCESS
        if pre_flight is not None:
            status = _call(pre_flight, "PreBindPreFlight", state, pod, node_name, skip=True)
        if status.code is Code.SKIP:
            continue
        if status is not SUCCESS and not status.is_success:
            return status, ()
        pre_binders.append(bound)
    return SUCCESS, tuple(pre_binders)


def observe(points: PointTimes | None, point: str, status: Status, started: float) -> float:
    """Record how long an extension point took; return the time at which the next one starts."""
    now = perf_counter()
    if points is not None:
        points.point(point, status.code, now - started)
    return now


async def pre_bind(
    pre_binders: tuple[Bound, ...], state: CycleState, pod: Pod, node_name: str, pre_binds: PreBinds
) -> Status:
    """Run PreBind plugins until one fails."""
    for bound in pre_binders:
        status = await pre_binds.run(pod.uid, bound.name, _call_async(bound, "PreBind", state, pod, node_name))
        if not status.is_success:
            return status
    return SUCCESS


async def bind(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> Status:
    """Run the Bind plugins until one does not skip the pod."""
    for bound in profile.bind:
        try:
            # As ``_call_async``, without a coroutine of its own for each pod.
            answer = bound.call(state, pod, node_name)
            if type(answer) is CoroutineType or (answer is not None and inspect.isawaitable(answer)):
                answer = await answer
        except BaseException as error:
            contain(error)
            return failure(f'running Bind plugin "{bound.name}"', bound.name, error).status
        status = SUCCESS if answer is None else _checked(answer, bound, "Bind", skip=True)
        if status is SUCCESS or status.code is not Code.SKIP:
            return status
    return Status(Code.SKIP, ("all bind plugins skipped the pod",))


async def post_bind(profile: Profile, state: CycleState, pod: Pod, node_name: str) -> None:
    """Run the PostBind plugins. Errors are ignored, as upstream does."""
    for plugin in profile.post_bind:
        await _call_async(plugin, "PostBind", state, pod, node_name)


class PreBinds:
    """The running PreBind plugins by the uid of the pod. Belongs to one event loop."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Task[Status]] = {}
        #: Why the binding of pods was cancelled, by uid.
        self._causes: dict[str, str] = {}

    def cancel(self, uid: str, cause: str) -> bool:
        """Cancel the binding of a pod. Return False if no PreBind plugin runs for it: it is bound, or soon will be."""
        task = self._running.get(uid)
        if task is None:
            return False
        self._causes.setdefault(uid, cause)
        task.cancel()
        return True

    async def run(self, uid: str, plugin: str, work: Coroutine[Any, Any, Status]) -> Status:
        """Run one plugin until it returns or the pod is cancelled."""
        task = asyncio.ensure_future(work)
        self._running[uid] = task
        try:
            status = await task
        except asyncio.CancelledError:
            if uid not in self._causes:
                raise
            status = SUCCESS
        finally:
            del self._running[uid]
            cause = self._causes.pop(uid, "")
        # A plugin may return just when it is cancelled, and ``cancel`` has already returned True.
        return Status.error(f'running PreBind plugin "{plugin}": {cause}').by(plugin) if cause else status


def _call(bound: Bound, point: str, state: CycleState, pod: Pod, node_name: str, *, skip: bool = False) -> Status:
    try:
        answer = bound.call(state, pod, node_name)
    except BaseException as error:
        contain(error)
        return failure(f'running {point} plugin "{bound.name}"', bound.name, error).status
    if answer is None:
        return SUCCESS
    return SKIP if skip and answer is SKIP else _checked(answer, bound, point, skip=skip)


async def _call_async(bound: Bound, point: str, state: CycleState, pod: Pod, node_name: str) -> Status:
    try:
        answer = bound.call(state, pod, node_name)
        if type(answer) is CoroutineType or (answer is not None and inspect.isawaitable(answer)):
            answer = await answer
    except BaseException as error:
        contain(error)
        return failure(f'running {point} plugin "{bound.name}"', bound.name, error).status
    return SUCCESS if answer is None else _checked(answer, bound, point)


def _checked(answer: Any, bound: Bound, point: str, *, skip: bool = False) -> Status:
    try:
        status = as_status(answer)
    except TypeError as error:
        return failure(f'running {point} plugin "{bound.name}"', bound.name, error).status
    if status.is_success or (skip and status.code is Code.SKIP):
        return status
    if status.is_rejected and point in ("Reserve", "Permit"):
        return status.by(bound.name)
    return Status.error(f'running {point} plugin "{bound.name}": {status.message}').by(bound.name)
