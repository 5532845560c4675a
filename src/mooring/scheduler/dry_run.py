"""A dry run: every point of a plugin that touches nothing outside, called once on a small made-up cluster."""

from __future__ import annotations

import functools
import random
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np

from mooring.api.codec import decode_object
from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.columns.nodes import Nodes
from mooring.columns.table import NodeTable
from mooring.config import ConfigError, load_config
from mooring.framework.plugin import ArgsError, Plugin, decode_args
from mooring.framework.state import CycleState
from mooring.framework.status import Code, Status
from mooring.loading import POD, Fault, FoundPlugin, plugin_spec
from mooring.loading.deadline import HangsError, within
from mooring.loading.static_checks import class_source
from mooring.scheduler import binding
from mooring.scheduler.answer_cache import ask_filter, ask_single
from mooring.scheduler.answers import BadAnswerError, PluginFailure, as_status
from mooring.scheduler.cache import Cache
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.profile import FilterPlugin, ProfileError
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.queue.queued_pod import QueuedPod

_CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    queueSort: {{enabled: [{{name: {sorter}}}], disabled: [{{name: "*"}}]}}
    multiPoint: {{enabled: [{{name: {name}}}]}}
"""
#: The clock of a dry run stands still.
_NOW = 1_700_000_000.0


class DryFault(msgspec.Struct, frozen=True):
    """What went wrong in a dry run."""

    #: The file and line in the plugin's own code, if the fault was there.
    path: str
    line: int
    message: str


def dry_run(cls: type[Plugin], args: Any = None) -> list[DryFault]:
    """Call a plugin's points on a small cluster: what went wrong. Without arguments it needs, nothing is called."""
    try:
        decode_args(cls, args)
    except ArgsError:
        return []
    try:
        runner = _runner(cls, args)
    except ProfileError as error:
        return [_fault(str(error).partition(": ")[2], error.__cause__, cls, ("setup",))]
    except ConfigError as error:
        return [DryFault("", 0, error.errors[0].describe())]
    found: dict[str, DryFault] = {}
    for pod in _pods():
        for methods, call in _calls(runner, cls.name, pod):
            fault = _attempt(call, cls, methods)
            if fault is not None:
                found.setdefault(fault.message, fault)
    return list(found.values())


def dry_run_fault(found: FoundPlugin, args: Any, seconds: float) -> list[Fault]:
    """A dry run of a plugin that was found: its faults; a call that does not come back in time is one."""
    if found.kind is not POD:
        return []
    place = str(found.path or "")
    try:
        problems = within(seconds, lambda: dry_run(found.cls, args))
    except HangsError as hangs:
        path, line = hangs.place_in(found.cls)
        return [Fault(path or place, line, f"{found.name}: {hangs}")]
    return [Fault(each.path or place, each.line, f"{found.name}: {each.message}") for each in problems]


def _runner(cls: type[Plugin], args: Any) -> PluginRunner:
    spec = plugin_spec(cls)
    sorter = cls.name if "queueSort" in spec.points else "PrioritySort"
    spec = msgspec.structs.replace(spec, replaces_builtin=True)
    config = load_config(_CONFIG.format(name=cls.name, sorter=sorter), source="", plugins={cls.name: spec})
    if args is not None:
        config.profiles[0].plugin_config[cls.name] = args
    cache = Cache()
    for item in _cluster():
        cache.put(item)
    return Profiles(config, cache, plugins={cls.name: cls}, clock=lambda: _NOW, rng=random.Random(0)).first


def _calls(runner: PluginRunner, name: str, pod: Pod) -> Iterator[tuple[tuple[str, ...], Callable[[], object]]]:
    """The calls to make, one after the other, each with the methods that it is about."""
    profile, table, state = runner.profile, runner.table, CycleState()
    rows, first = np.arange(len(table)), table.nodes[0].name
    for bound in profile.pre_enqueue:
        if bound.name == name:
            yield ("pre_enqueue",), functools.partial(_status, bound.call, pod)
    yield ("pre_filter",), lambda: runner.pre_filter(state, pod)
    for each in profile.filters:
        if each.name == name:
            yield ("filter_nodes", "filter"), functools.partial(ask_filter, each, state, pod, Nodes(table))
            if each.filter is not None:
                yield ("filter",), functools.partial(_one_by_one, each, state, pod, table)
    if any(plugin.name == name for plugin in profile.scorers):
        yield ("pre_score",), lambda: runner.scoring.pre_score(state, pod, Nodes(table))
        yield ("normalize_scores", "score_nodes", "score"), lambda: runner.scoring.by_plugin(state, pod, rows)
    if any(bound.name == name for bound in (*profile.reserve, *profile.permit)):
        yield ("reserve",), lambda: _checked(binding.reserve(profile, state, pod, first))
        yield ("permit",), lambda: _checked(binding.permit(profile, state, pod, first))
        yield ("unreserve",), lambda: _checked(*binding.unreserve(profile, state, pod, first))
    yield ("events_to_register",), profile.events
    for bound in profile.queue_sort:
        yield ("less",), functools.partial(_less, bound.call, pod)


def _status(call: Callable[..., Any], pod: Pod) -> Status:
    return as_status(call(pod))


def _one_by_one(plugin: FilterPlugin, state: CycleState, pod: Pod, table: NodeTable) -> None:
    for node in table.nodes:
        ask_single(plugin, state, pod, node)


def _checked(*statuses: Status) -> None:
    for status in statuses:
        if status.code is Code.ERROR:
            raise PluginFailure(status)


def _less(call: Callable[..., Any], pod: Pod) -> None:
    a, b = (QueuedPod.new(pod, _NOW + age) for age in (0, 1))
    for answer in (call(a, b), call(b, a)):
        if not isinstance(answer, bool):
            raise BadAnswerError(f"less returned {type(answer).__name__}; return True or False")


def _attempt(call: Callable[[], object], cls: type[Plugin], methods: tuple[str, ...]) -> DryFault | None:
    try:
        call()
    except PluginFailure as failure:
        if failure.status.plugin != cls.name:
            return None
        return _fault(failure.status.message, failure.__cause__, cls, methods)
    except Exception as error:
        return _fault(f"{type(error).__name__}: {error}", error, cls, methods)
    return None


def _fault(message: str, cause: BaseException | None, cls: type[Plugin], methods: tuple[str, ...]) -> DryFault:
    """The message, with the last line of the plugin's own code that was running, or that of its method."""
    source = class_source(cls)
    path = source.path if source is not None else ""
    for frame in reversed(traceback.extract_tb(cause.__traceback__ if cause is not None else None)):
        if frame.filename == path:
            return DryFault(path, frame.lineno or 0, message)
    method = next((each for each in methods if each in vars(cls)), "")
    return DryFault(path, source.line_of(method) if source is not None else 0, message)


# The cluster


def _cluster() -> Iterator[KubeObject]:
    for number, zone in enumerate(("a", "a", "b")):
        name = f"node-{number}"
        yield _object(
            {
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": {
                    "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "kubernetes.io/os": "linux"}},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "50Gi", "pods": "110"}},
            }
        )  # fmt: skip
    placed = _pod("placed", {"cpu": "1", "memory": "1Gi"}, node="node-1")
    yield _object(placed)


def _pods() -> Iterator[Pod]:
    for raw in (_pod("plain", {}), _pod("asking-7", {"cpu": "500m", "memory": "256Mi"})):
        pod = _object(raw)
        assert isinstance(pod, Pod)
        yield pod


def _pod(name: str, requests: dict[str, str], node: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": name}}
    container = {"name": "c", "image": "registry.example/app:1", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"nodeName": node, "containers": [container]},
    }


def _object(raw: dict[str, Any]) -> KubeObject:
    item = decode_object(raw)
    assert isinstance(item, KubeObject)
    return item
