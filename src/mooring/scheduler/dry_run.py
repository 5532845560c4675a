"""Dry run of a plugin: scheduling attempts on a small example cluster that find the plugin's faults.

The plugin is called as in real attempts whose binding then fails: PreEnqueue, PreFilter to Permit, and Unreserve; then
for a group of pods. A rejection or a Skip has its usual effect. PostFilter and the binding cycle do not run, because
they may have effects outside the scheduler.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from mooring.api.codec import decode_object
from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.pod import Pod
from mooring.api.scheduling import NativePodGroup
from mooring.columns.nodes import Nodes
from mooring.config import ConfigError, SchedulerConfiguration, load_config
from mooring.framework.placements import PlacementProgress, Placements, ProposedPlacements
from mooring.framework.plugin import Plugin
from mooring.framework.plugin_args import ArgsError, decode_args
from mooring.framework.plugin_errors import PluginSaysError, contain, describe
from mooring.framework.points import CONFIG_POINTS, POINTS, points_of
from mooring.framework.status import Code, Status
from mooring.loading import Fault, FoundPlugin, plugin_spec
from mooring.loading.circuit_breaker import Check, Fallback, Guard, Guards
from mooring.loading.dry_run import DryRun, Recorder, missing_arguments, plugin_fault, run_in_time
from mooring.scheduler import binding
from mooring.scheduler.answers import BadAnswerError, PluginFailure, as_status
from mooring.scheduler.attempt_results import AssumedPod
from mooring.scheduler.binding import PreBinds
from mooring.scheduler.cache import Cache
from mooring.scheduler.decision_lock import DecisionLock
from mooring.scheduler.profile import ProfileError
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.queue import QueuedPod, SchedulingQueue
from mooring.scheduler.schedule_one import ScheduleOne
from mooring.scheduler.schedule_pod import run_without_extenders

_CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    queueSort: {{enabled: [{{name: {sorter}}}], disabled: [{{name: "*"}}]}}
    multiPoint: {{enabled: [{{name: {name}}}]}}
"""
#: The time of all attempts.
_NOW = 1_700_000_000.0


def dry_run(cls: type[Plugin], args: Any = None) -> DryRun:
    """Run a plugin on a small cluster. A plugin whose required arguments are missing is not called."""
    try:
        decode_args(cls, args)
    except ArgsError as error:
        return DryRun(not_called=_points(cls), reason=missing_arguments(error))
    try:
        run = _DryRun(cls, args)
    except ProfileError as error:
        cause = error.__cause__
        text = describe(cause) if cause is not None else str(error).partition(": ")[2]
        return DryRun((plugin_fault(cls.name, cls, "setup", text, cause),), not_called=_points(cls))
    except ConfigError as error:
        return DryRun((Fault("", 0, f"{cls.name}: {error.errors[0].describe()}"),), not_called=_points(cls))
    pods = list(_pods())
    for pod in pods:
        run.check(pod)
    run.check_group(pods)
    run.close()
    return run.result()


def dry_run_found(found: FoundPlugin, args: Any, seconds: float) -> DryRun:
    """Run a discovered plugin on a small cluster. A call that exceeds the timeout is a fault."""
    return run_in_time(found, seconds, lambda: dry_run(found.cls, args))


class _Recorder(Recorder):
    """A recorder of the plugin's calls that does not call PostFilter."""

    def wrap(
        self, call: Callable[..., Any], method: str, *, check: Check | None = None, fallback: Fallback | None = None
    ) -> Callable[..., Any]:
        """Return the same call, recorded."""
        if method == "post_filter":
            return lambda *_: Status.unschedulable()
        return super().wrap(call, method, check=check, fallback=fallback)


class _Recorders(Guards):
    """Guards that return the recorder of the plugin under test."""

    def __init__(self, cls: type[Plugin]) -> None:
        super().__init__(clock=lambda: _NOW)
        self.recorder = _Recorder(cls.name, cls, self)

    def of(self, name: str, callback: str = "") -> Guard:
        """Return the recorder. Other plugins are not guarded."""
        return self.recorder


class _DryRun(ScheduleOne):
    """Scheduling attempts on a small cluster."""

    def __init__(self, cls: type[Plugin], args: Any) -> None:
        self._cls = cls
        guards = _Recorders(cls)
        self.guards, self._recorder = guards, guards.recorder
        self.cache = Cache()
        for item in _cluster():
            self.cache.put(item)
        plugins = {cls.name: cls}
        self.profiles = Profiles(
            _config(cls, args), self.cache, plugins=plugins, clock=lambda: _NOW, rng=random.Random(0), guards=guards
        )
        self._profile = self.profiles.first.profile
        self.queue = SchedulingQueue(clock=lambda: _NOW)
        self.observer = self._extenders = self._expect = self._budget = None
        self._evicts_later = False
        self.pre_binds, self.lock, self.preempting, self.rejected = PreBinds(), DecisionLock(), {}, []
        self._call("events_to_register", self._profile.events)

    def check(self, pod: Pod) -> None:
        """Call the plugin for one pod: at QueueSort, at PreEnqueue, and in an attempt if the pod is not gated."""
        for bound in self._profile.queue_sort:
            if bound.name == self._cls.name:
                self._call("less", functools.partial(_less, bound.call, pod))
        for bound in self._profile.pre_enqueue:
            if bound.name == self._cls.name and not self._passes(bound.call, pod):
                return
        self._call("", functools.partial(self._attempt, pod))

    def check_group(self, pods: Sequence[Pod]) -> None:
        """Call the plugin for a group of pods, if it defines methods for groups."""
        table, plugin = self.cache.table, self._profile.plugins[self._cls.name]
        extension = functools.partial(self._profile.extension, plugin)
        group = NativePodGroup(metadata=ObjectMeta(name="group", namespace="default", uid="uid-group"))
        placements: object = None
        if (generate := extension("generate_placements")) is not None:
            placements = self._guarded(functools.partial(generate, group, (), Nodes(table)))
        if (feasible := extension("placement_feasible")) is not None:
            self._guarded(functools.partial(feasible, group, PlacementProgress(0, len(pods))))
        if (score := extension("score_placements")) is not None:
            if not isinstance(placements, Placements) or not len(placements):
                placements = Placements.by_label(Nodes(table), "topology.kubernetes.io/zone")
            counts = {table.template(pods[0]): np.full(len(placements), len(pods), dtype=np.int64)}
            self._guarded(functools.partial(score, ProposedPlacements(group, (), placements, counts)))

    @staticmethod
    def _guarded(call: Callable[[], object], failed: object = None) -> object:
        """Call a guarded method; return ``failed`` if it raises."""
        try:
            return call()
        except BaseException as error:
            contain(error)  # the recorder has recorded it
            return failed

    def result(self) -> DryRun:
        """Return the result."""
        recorder, points = self._recorder, _points(self._cls)
        called = {point.config for point in POINTS if point.method in recorder.called}
        warnings = [recorder.fault(method, text, None) for method, text in recorder.warnings.items()]
        return DryRun(
            tuple(recorder.faults.values()),
            tuple(warnings),
            tuple(point for point in points if point in called),
            tuple(point for point in points if point not in called),
        )

    def close(self) -> None:
        """Close the plugin."""
        self._profile.close()

    def _passes(self, pre_enqueue: Callable[..., Any], pod: Pod) -> bool:
        failed = Status.unresolvable()
        return as_status(self._guarded(functools.partial(pre_enqueue, pod), failed)).is_success

    def _attempt(self, pod: Pod) -> None:
        """Run one attempt, and roll it back."""
        before = self._recorder.counted
        outcome = run_without_extenders(self.scheduling_cycle(QueuedPod.new(pod, _NOW), self.profiles.first))
        if isinstance(outcome, AssumedPod):
            self.profiles.waiting_pods.remove(pod.uid)
            binding.unreserve(self._profile, outcome.state, outcome.pod, outcome.node_name)
            self.cache.forget(outcome.pod)
            return
        status = outcome.failure.status
        if status.code is Code.ERROR and status.plugin == self._cls.name and self._recorder.counted == before:
            self._recorder.count("", PluginSaysError(status.message))  # a method without guard returned it

    def _call(self, method: str, call: Callable[[], object]) -> None:
        """Call a method that is not guarded."""
        try:
            call()
        except BaseException as error:
            contain(error)
            self._recorder.count(method, error.__cause__ or error if isinstance(error, PluginFailure) else error)


def _points(cls: type[Plugin]) -> tuple[str, ...]:
    return tuple(point for point in CONFIG_POINTS if point in points_of(cls))


def _config(cls: type[Plugin], args: Any) -> SchedulerConfiguration:
    spec = plugin_spec(cls)
    sorter = cls.name if "queueSort" in spec.points else "PrioritySort"
    spec = msgspec.structs.replace(spec, replaces_builtin=True)
    config = load_config(_CONFIG.format(name=cls.name, sorter=sorter), source="", plugins={cls.name: spec})
    if args is not None:
        config.profiles[0].plugin_config[cls.name] = args
    return config


def _less(call: Callable[..., Any], pod: Pod) -> None:
    a, b = (QueuedPod.new(pod, _NOW + age) for age in (0, 1))
    for answer in (call(a, b), call(b, a)):
        if not isinstance(answer, bool):
            raise BadAnswerError(f"less returned {type(answer).__name__}; return True or False")


# The cluster


def _cluster() -> Iterator[KubeObject]:
    for number, zone in enumerate("aaaabbbb"):
        name = f"node-{number}"
        yield _object(
            {
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "labels": {
                    "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone, "kubernetes.io/os": "linux"}},
                "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "ephemeral-storage": "50Gi", "pods": "110"}},
            }
        )  # fmt: skip
    placed = _pod("placed", "placed-1", {"cpu": "1", "memory": "1Gi"}, node="node-1")
    yield _object(placed)


def _pods() -> Iterator[Pod]:
    """Yield two pods of each template: for the second, cached results are updated only for nodes that changed."""
    for app, requests in (("plain", {}), ("requests", {"cpu": "500m", "memory": "256Mi"})):
        for number in (1, 2):
            pod = _object(_pod(app, f"{app}-{number}", requests))
            assert isinstance(pod, Pod)
            yield pod


def _pod(app: str, name: str, requests: dict[str, str], node: str = "") -> dict[str, Any]:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": app}}
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
