"""Running a session: plugins open it, actions run, plugins close it, and statuses are computed."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any, NamedTuple

from mooring.api.meta import format_time
from mooring.api.quantity import format_quantity
from mooring.api.volcano import PodGroupCondition, PodGroupStatus
from mooring.batch.actions import ACTIONS, Action
from mooring.batch.arguments import Arguments
from mooring.batch.device_quota import Demands, DeviceDemands, device_counts
from mooring.batch.job import INQUEUE, RUNNING_PHASE, JobInfo
from mooring.batch.pending_reasons import UNAVAILABLE, Reason, job_message, task_reason
from mooring.batch.plugin import FAILED, PluginGuard, SessionGuards, build, guards_for
from mooring.batch.plugins import PLUGINS
from mooring.batch.queue import ROOT
from mooring.batch.resource import CPU, MEMORY, PODS, Resource
from mooring.batch.session import Session
from mooring.batch.task import ALLOCATED, COMPLETED, HOLDING, PENDING, PIPELINED, RUNNING, SCHEDULED, TaskInfo
from mooring.batch.unsupported_requests import NOT_SUPPORTED, ignored_requests
from mooring.framework.plugin_errors import contain, failure_text

#: Measures the call of a plugin's method, given the names of both.
Measure = Callable[[str, str], contextlib.AbstractContextManager[object]]


class PodNote(NamedTuple):
    """The PodScheduled condition of a pending pod."""

    task: TaskInfo
    reason: Reason


class Outcome(NamedTuple):
    """The statuses to write after a session: of groups, pods and queues."""

    groups: dict[str, PodGroupStatus]
    pods: list[PodNote]
    queues: dict[str, dict[str, str]]


def open_session(
    session: Session,
    plugins: Mapping[str, type[Any]] = PLUGINS,
    guards: SessionGuards | None = None,
    measure: Measure | None = None,
) -> list[Any]:
    """Create the plugins and register their callbacks; plugins that do not exist or raise are skipped."""
    measure = measure or _unmeasured
    guards = guards or guards_for(session)
    opened: list[tuple[Any, PluginGuard | None]] = []
    for option in session.conf.options():
        cls = plugins.get(option.name)
        if cls is None:
            continue
        arguments = Arguments(option.arguments, owner=option.name)
        builtin = PLUGINS.get(option.name) is cls
        guard = None if builtin else guards.opening(option.name, cls, option.arguments)
        session.opening = option.name
        session.wrap = None if guard is None else guard.wrap
        start = functools.partial(_start, cls, arguments, session)
        with measure(option.name, "OnSessionOpen"):
            plugin = start() if guard is None else guard.call("on_session_open", start)
        if plugin is FAILED:
            session.unregister(option.name)
        session.warnings += arguments.warnings
        opened.append((plugin, guard))
    session.opening, session.wrap = "", None
    return opened


def _unmeasured(_plugin: str, _method: str) -> contextlib.AbstractContextManager[object]:
    return contextlib.nullcontext()


def _start(cls: type[Any], arguments: Arguments, session: Session) -> Any:
    plugin = build(cls, arguments)
    if hasattr(plugin, "on_session_open"):
        plugin.on_session_open(session)
    return plugin


def run_actions(session: Session, actions: Mapping[str, Action] = ACTIONS) -> None:
    """Run the actions of the configuration in order."""
    for _ in action_steps(session, actions):
        pass


def action_steps(session: Session, actions: Mapping[str, Action] = ACTIONS) -> Generator[str, None, None]:
    """Run the actions in steps and yield the action's name; between two steps no gang is partly committed."""
    for name in session.conf.actions:
        session.note(f"# {name}")
        action = actions[name]
        if action is ACTIONS.get(name):
            yield from _steps(name, action, session)
        else:
            yield from _guarded_steps(name, action, session)
        yield name


def _steps(name: str, action: Action, session: Session) -> Iterator[str]:
    for _ in action(session) or ():
        yield name


def _guarded_steps(name: str, action: Action, session: Session) -> Iterator[str]:
    """Run a user's action; if it fails, the session continues with the next one."""
    try:
        yield from _steps(name, action, session)
    except BaseException as error:
        contain(error)
        session.warnings.append(f'action "{name}" failed: {failure_text(error)}')


def close_plugins(session: Session, plugins: list[Any], measure: Measure | None = None) -> None:
    """Call on_session_close of the plugins."""
    measure = measure or _unmeasured
    for plugin, guard in plugins:
        if not hasattr(plugin, "on_session_close"):
            continue
        stop = functools.partial(plugin.on_session_close, session)
        with measure(getattr(plugin, "name", type(plugin).__name__), "OnSessionClose"):
            if guard is None:
                stop()
            else:
                guard.call("on_session_close", stop)
    for _, guard in plugins:
        if guard is not None:
            guard.end_session()


def close_session(session: Session, plugins: list[Any], measure: Measure | None = None) -> Outcome:
    """Call on_session_close, and compute all statuses."""
    close_plugins(session, plugins, measure)
    groups, pods = {}, []
    for job in session.jobs.values():
        if job.held and (PENDING in job.by_status or not job.tasks):
            job.set_condition(_held_condition(job, session))
        ignored = ignored_requests(job, session.conf, removes_queue_gates=session.removes_queue_gates)
        session.job_warnings += [(job, NOT_SUPPORTED, text) for text in ignored]
        status = job.status(phase_of(job, session.uid))
        groups[job.uid] = status
        base = job.held or job_message(job) or UNAVAILABLE
        for kind in (ALLOCATED, PENDING, PIPELINED):
            for task in job.of_status(kind):
                if not task.gated:
                    reason = task_reason(job, task)
                    pods.append(PodNote(task, reason if reason.message else reason._replace(message=base)))
    return Outcome(groups, pods, _queue_amounts(session))


def _held_condition(job: JobInfo, session: Session) -> PodGroupCondition:
    return PodGroupCondition(
        type="Unschedulable",
        status="True",
        transition_id=session.uid,
        last_transition_time=format_time(session.now),
        reason=NOT_SUPPORTED,
        message=job.held,
    )


def phase_of(job: JobInfo, session: str) -> str:
    """Return a PodGroup's phase at the end of a session."""
    stuck = any(
        each.type == "Unschedulable" and each.status == "True" and each.transition_id == session
        for each in job.conditions
    )
    if stuck and RUNNING in job.by_status:
        return "Unknown"
    scheduled = job.count(*SCHEDULED)
    if scheduled >= job.group.spec.min_member:
        return "Completed" if scheduled == job.count(*COMPLETED) else RUNNING_PHASE
    return INQUEUE if job.phase == INQUEUE else "Pending"


def _queue_amounts(session: Session) -> dict[str, dict[str, str]]:
    """Return what each queue has allocated, including its child queues."""
    totals = {name: Resource() for name in session.queues}
    demands = DeviceDemands(session.handle)
    devices: dict[str, list[Demands]] = {}
    for job in session.jobs.values():
        held = [task for status in HOLDING for task in job.by_status.get(status, {}).values()]
        if not held:
            continue
        claimed = [found for task in held if (found := demands.of(task))]
        name, seen = job.queue, set()
        while name in totals and name not in seen:
            seen.add(name)
            for task in held:
                totals[name].add(task.request)
            if claimed:
                devices.setdefault(name, []).extend(claimed)
            if name == ROOT or ROOT not in session.queues:
                break
            name = session.queues[name].parent
    return {name: {**amounts(total), **device_counts(devices.get(name, ()))} for name, total in totals.items()}


def amounts(total: Resource) -> dict[str, str]:
    """Return amounts as Kubernetes quantities."""
    found = {CPU: format_quantity(int(total.cpu), milli=True), MEMORY: format_quantity(int(total.memory), binary=True)}
    for name, amount in (total.scalars or {}).items():
        found[name] = format_quantity(int(amount)) if name == PODS else format_quantity(int(amount), milli=True)
    return found
