"""Kinds of plugins: pod plugins (the extension points of kube-scheduler), session plugins and actions, job plugins.

A kind defines which classes belong to it and how they are checked.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable
from typing import Any

import msgspec

from mooring.config.builtin_plugins import served
from mooring.framework.job_plugin import JobPlugin
from mooring.framework.plugin import Plugin
from mooring.framework.points import SignatureError, check_methods, points_of
from mooring.releases import NEWEST

_SESSION_METHODS = {
    "on_session_open": "def on_session_open(self, session)",
    "on_session_close": "def on_session_close(self, session)",
}
_ACTION_METHODS = {"execute": "def execute(self, session)"}
_JOB_METHODS = {
    "on_pod_create": "def on_pod_create(self, job, task, index, pod)",
    "objects": "def objects(self, job)",
    "updated_objects": "def updated_objects(self, job)",
}


class Kind(msgspec.Struct, frozen=True):
    """A kind of plugin."""

    name: str
    #: Whether a class in a plugin file is a plugin of this kind.
    claims: Callable[[type], bool]
    #: Returns the errors of a class without running it.
    check: Callable[[type], list[SignatureError]]
    #: Returns the extension points of a class, as named in the configuration.
    points: Callable[[type], frozenset[str]]
    #: The names of the built-in plugins of this kind.
    builtin: frozenset[str] = frozenset()


def _is_session(cls: type) -> bool:
    return any(callable(getattr(cls, method, None)) for method in _SESSION_METHODS)


def _is_action(cls: type) -> bool:
    execute = getattr(cls, "execute", None)
    return callable(execute) and not issubclass(cls, Plugin) and not _is_session(cls) and _takes_session(execute)


def _is_job(cls: type) -> bool:
    return issubclass(cls, JobPlugin) and cls is not JobPlugin


def _takes_session(function: Any) -> bool:
    """Return whether a method has a parameter ``session``. Unrelated classes may have an ``execute`` method too."""
    return "session" in getattr(getattr(function, "__code__", None), "co_varnames", ())


def _is_pod(cls: type) -> bool:
    return issubclass(cls, Plugin) and cls is not Plugin and not _is_session(cls)


def _check_session(cls: type) -> list[SignatureError]:
    return _check_methods(cls, _SESSION_METHODS)


def _check_action(cls: type) -> list[SignatureError]:
    return _check_methods(cls, _ACTION_METHODS)


def _check_job(cls: type) -> list[SignatureError]:
    problems = _check_methods(cls, _JOB_METHODS)
    if not problems and not _job_points(cls):
        problems = [SignatureError(0, f"has no method that is called; define {' or '.join(_JOB_METHODS)}")]
    return problems


def _job_points(cls: type) -> frozenset[str]:
    return frozenset(method for method in _JOB_METHODS if callable(getattr(cls, method, None)))


def _check_methods(cls: type, methods: dict[str, str]) -> list[SignatureError]:
    problems = []
    for name, member in vars(cls).items():
        if not inspect.isfunction(member):
            continue
        right = methods.get(name)
        if right is not None:
            problems += _signature(member, right)
        elif not name.startswith("_"):
            near = difflib.get_close_matches(name, methods, n=1, cutoff=0.8)
            if near and not callable(getattr(cls, near[0], None)):
                hint = f"'{name}' is never called; did you mean '{methods[near[0]]}'?"
                problems.append(SignatureError(member.__code__.co_firstlineno, hint))
    return problems


def _signature(function: Any, right: str) -> list[SignatureError]:
    line = function.__code__.co_firstlineno
    if inspect.iscoroutinefunction(function):
        return [SignatureError(line, f"'{function.__name__}' must not be async; write '{right}'")]
    try:
        inspect.signature(function).bind(*right.partition("(")[2].split(","))
    except TypeError:
        given = ", ".join(inspect.signature(function).parameters)
        return [SignatureError(line, f"'{function.__name__}' takes ({given}); write '{right}'")]
    return []


def _check_pod(cls: type) -> list[SignatureError]:
    problems = check_methods(cls)
    if not problems and not points_of(cls):
        problems = [
            SignatureError(0, "implements no extension point; define filter, score or another of their methods")
        ]
    return problems


#: Volcano's names. `loading` must not import `batch`; a test compares the names.
_SESSION_PLUGINS = frozenset(
    [
        "binpack",
        "capacity",
        "cdp",
        "conformance",
        "deviceshare",
        "drf",
        "extender",
        "gang",
        "network-topology-aware",
        "nodegroup",
        "nodeorder",
        "numa-aware",
        "overcommit",
        "pdb",
        "predicates",
        "priority",
        "proportion",
        "rescheduling",
        "resource-strategy-fit",
        "resourcequota",
        "sla",
        "task-topology",
        "tdm",
        "usage",
    ]
)
#: The methods with which a session plugin registers callbacks.
REGISTRATIONS = (
    "add_allocatable",
    "add_batch_node_order",
    "add_best_node",
    "add_event_handler",
    "add_hyper_node_gradient",
    "add_hyper_node_order",
    "add_job_enqueueable",
    "add_job_enqueued",
    "add_job_order",
    "add_job_pipelined",
    "add_job_ready",
    "add_job_starving",
    "add_job_valid",
    "add_may_evict",
    "add_node_order",
    "add_overused",
    "add_pre_predicate",
    "add_predicate",
    "add_preemptable",
    "add_preemptive",
    "add_queue_order",
    "add_reclaimable",
    "add_reservation",
    "add_simulation",
    "add_sub_job_order",
    "add_sub_job_pipelined",
    "add_sub_job_ready",
    "add_task_order",
    "add_unified_evictable",
    "add_victim_queue_order",
    "add_victim_tasks",
)
_JOB_PLUGINS = frozenset(["env", "hcclrank", "mpi", "pytorch", "ray", "ssh", "svc", "tensorflow"])
_ACTIONS = frozenset(["enqueue", "allocate", "backfill", "preempt", "reclaim", "shuffle", "gangpreempt", "gangreclaim"])

#: Plugins of the scheduling cycle.
POD = Kind("pod", _is_pod, _check_pod, points_of, frozenset(served("v1", NEWEST)))
#: Plugins of batch sessions.
SESSION = Kind("session", _is_session, _check_session, lambda _: frozenset(), _SESSION_PLUGINS)
#: Actions of batch sessions.
ACTION = Kind("action", _is_action, _check_action, lambda _: frozenset(), _ACTIONS)

#: Plugins of Volcano jobs, which the controller runs.
JOB = Kind("job", _is_job, _check_job, _job_points, _JOB_PLUGINS)

KINDS = (POD, SESSION, ACTION, JOB)


def plugin_name(cls: type) -> str:
    """Return the name of a plugin class in the configuration."""
    name = getattr(cls, "name", "")
    if isinstance(name, str) and name:
        return name
    # As in Volcano's configuration: task-topology.
    return _dashed(cls.__name__) if _is_session(cls) or _is_action(cls) or _is_job(cls) else cls.__name__


def _dashed(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
