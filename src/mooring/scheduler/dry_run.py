"""A dry run of a plugin: scheduling attempts on a small made-up cluster, up to Permit, that find the plugin's faults.

PostFilter and the binding cycle are not run: they have effects outside the scheduler.
"""

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
from mooring.columns.table import NodeTable
from mooring.config import ConfigError, SchedulerConfiguration, load_config
from mooring.framework.plugin import ArgsError, Plugin, decode_args
from mooring.framework.state import CycleState
from mooring.framework.status import Code, Status
from mooring.loading import POD, Fault, FoundPlugin, plugin_spec
from mooring.loading.circuit_breaker import Check, Fallback, Guard, Guards
from mooring.loading.deadline import HangsError, within
from mooring.loading.plugin_options import PluginOptions
from mooring.loading.static_checks import class_source
from mooring.observe.attempt_trace import Evaluation
from mooring.scheduler import binding
from mooring.scheduler.answer_cache import ask_single
from mooring.scheduler.answers import BadAnswerError, PluginFailure, as_status
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt
from mooring.scheduler.binding import PreBinds
from mooring.scheduler.cache import Cache
from mooring.scheduler.decision_lock import DecisionLock
from mooring.scheduler.profile import FilterPlugin, ProfileError
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.queue import QueuedPod, SchedulingQueue
from mooring.scheduler.schedule_one import ScheduleOne, run_without_extenders

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


class DryFault(msgspec.Struct, frozen=True):
    """A fault that a dry run found."""

    #: The file and line in the plugin's own code, if the fault was there.
    path: str
    line: int
    message: str


def dry_run(cls: type[Plugin], args: Any = None) -> list[DryFault]:
    """Return the faults of a plugin on a small cluster. A plugin whose arguments are missing is not called."""
    try:
        decode_args(cls, args)
    except ArgsError:
        return []
    try:
        run = _DryRun(cls, args)
    except ProfileError as error:
        return [_fault(str(error).partition(": ")[2], error.__cause__, cls, "setup")]
    except ConfigError as error:
        return [DryFault("", 0, error.errors[0].describe())]
    for pod in _pods():
        run.check(pod)
    return list(run.faults.values())


def dry_run_fault(found: FoundPlugin, args: Any, seconds: float) -> list[Fault]:
    """Return the faults of a plugin that was found. A call that exceeds the timeout is a fault."""
    if found.kind is not POD:
        return []
    place = str(found.path or "")
    try:
        problems = within(seconds, lambda: dry_run(found.cls, args))
    except HangsError as hangs:
        path, line = hangs.place_in(found.cls)
        return [Fault(path or place, line, f"{found.name}: {hangs}")]
    return [Fault(each.path or place, each.line, f"{found.name}: {each.message}") for each in problems]


class _FaultRecorder(Guard):
    """Records the call that fails, so that an attempt can be repeated past it.

    A method whose fault is reported is still called, but a neutral answer replaces a further fault. With ``accept``, a
    neutral answer also replaces rejections, so that an attempt reaches Score, Reserve and Permit.
    """

    def __init__(self, name: str, guards: Guards) -> None:
        super().__init__(name, PluginOptions(failure_policy="Ignore"), guards)
        self.reported: set[str] = set()
        self.accept = False
        #: The first method that failed in the attempt, and the exception that it raised.
        self.method = ""
        self.cause: Exception | None = None

    def wrap(
        self, call: Callable[..., Any], method: str, *, check: Check | None = None, fallback: Fallback | None = None
    ) -> Callable[..., Any]:
        """Return the same call, recorded."""

        @functools.wraps(call)
        def recorded(*args: Any) -> Any:
            try:
                answer = call(*args)
                wrong = check(answer, args) if check is not None else None
            except Exception as error:
                if method in self.reported:
                    return self._neutral(method, args)
                if not self.method:
                    self.method, self.cause = method, error
                raise
            if wrong is not None:
                if method in self.reported:
                    return self._neutral(method, args)
                self.method = self.method or method
                return answer
            if self.accept and method in _REJECTING and not _is_skip(answer):
                return self._neutral(method, args)
            return answer

        return recorded

    def _neutral(self, method: str, args: tuple[Any, ...]) -> Any:
        """Return an answer that lets the attempt continue."""
        if method == "normalize_scores":
            return np.zeros(len(args[2]), dtype=np.int64)  # the raw scores may be out of range
        return self._skip(method, args, None)


class _FaultRecorders(Guards):
    """The recorder of the one plugin that is under test."""

    def __init__(self, name: str) -> None:
        super().__init__(clock=lambda: _NOW)
        self.recorder = _FaultRecorder(name, self)

    def of(self, name: str, callback: str = "") -> Guard:
        """Return the recorder: no other plugin is guarded."""
        return self.recorder


class _DryRun(ScheduleOne):
    """Scheduling attempts on a small cluster, repeated until the plugin under test has no further faults."""

    def __init__(self, cls: type[Plugin], args: Any) -> None:
        self._cls = cls
        self.faults: dict[str, DryFault] = {}
        guards = _FaultRecorders(cls.name)
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
        self.observer = self._extenders = self._expect = None
        self._evicts_later = False
        self.pre_binds, self.lock, self.preempting = PreBinds(), DecisionLock(), set()

    def check(self, pod: Pod) -> None:
        """Call the plugin for one pod: at PreEnqueue, in attempts, and at QueueSort."""
        name, profile = self._cls.name, self._profile
        self._recorder.reported.clear()
        self._recorder.accept = False
        for bound in profile.pre_enqueue:
            if bound.name == name:
                self._call("pre_enqueue", lambda call=bound.call: as_status(call(pod)))  # type: ignore[misc]
        while self._attempt(pod):
            pass
        for plugin in profile.filters:
            if plugin.name == name and plugin.filter_nodes is not None and plugin.filter is not None:
                # An attempt uses this form only for nodes that have changed since the last one.
                self._call("filter", functools.partial(_filter_each, plugin, pod, self.cache.table))
        self._call("events_to_register", profile.events)
        for bound in profile.queue_sort:
            self._call("less", functools.partial(_less, bound.call, pod))

    def _attempt(self, pod: Pod) -> bool:
        """Run one attempt and record its fault. Return whether another attempt may reach more of the plugin."""
        runner, recorder = self.profiles.first, self._recorder
        recorder.method, recorder.cause = "", None
        evaluation = Evaluation(runs_post_filter=False)
        try:
            outcome = run_without_extenders(self.scheduling_cycle(QueuedPod.new(pod, _NOW), runner, evaluation))
        except Exception as error:
            self._record(f"{type(error).__name__}: {error}", error, recorder.method)
            return False
        if isinstance(outcome, AssumedPod):
            self.profiles.waiting_pods.remove(pod.uid)
            statuses = binding.unreserve(self._profile, outcome.state, outcome.pod, outcome.node_name)
            self.cache.forget(outcome.pod)
        else:
            statuses = [outcome.failure.status]
        for status in statuses:
            if status.code is Code.ERROR and status.plugin == self._cls.name:
                self._record(status.message, recorder.cause, recorder.method)
                again = recorder.method not in recorder.reported
                recorder.reported.add(recorder.method)
                return again
        again = isinstance(outcome, FailedAttempt) and not recorder.accept
        recorder.accept = True
        return again

    def _call(self, method: str, call: Callable[[], object]) -> None:
        """Call a method that is not part of an attempt."""
        try:
            call()
        except PluginFailure as failure:
            self._record(failure.status.message, failure.__cause__, method)
        except Exception as error:
            self._record(f"{type(error).__name__}: {error}", error, method)

    def _record(self, message: str, cause: BaseException | None, method: str) -> None:
        self.faults.setdefault(message, _fault(message, cause, self._cls, method))


#: The methods whose answer can reject a pod or a node in an attempt.
_REJECTING = frozenset(("pre_filter", "filter", "filter_nodes", "reserve", "permit"))


def _is_skip(answer: object) -> bool:
    return isinstance(answer, Status) and answer.code is Code.SKIP


def _config(cls: type[Plugin], args: Any) -> SchedulerConfiguration:
    spec = plugin_spec(cls)
    sorter = cls.name if "queueSort" in spec.points else "PrioritySort"
    spec = msgspec.structs.replace(spec, replaces_builtin=True)
    config = load_config(_CONFIG.format(name=cls.name, sorter=sorter), source="", plugins={cls.name: spec})
    if args is not None:
        config.profiles[0].plugin_config[cls.name] = args
    return config


def _filter_each(plugin: FilterPlugin, pod: Pod, table: NodeTable) -> None:
    for node in table.nodes:
        ask_single(plugin, CycleState(), pod, node)


def _less(call: Callable[..., Any], pod: Pod) -> None:
    a, b = (QueuedPod.new(pod, _NOW + age) for age in (0, 1))
    for answer in (call(a, b), call(b, a)):
        if not isinstance(answer, bool):
            raise BadAnswerError(f"less returned {type(answer).__name__}; return True or False")


def _fault(message: str, cause: BaseException | None, cls: type[Plugin], method: str) -> DryFault:
    """Return the fault at the last line of the plugin's code in the traceback, or at its method."""
    source = class_source(cls)
    path = source.path if source is not None else ""
    for frame in reversed(traceback.extract_tb(cause.__traceback__ if cause is not None else None)):
        if frame.filename == path:
            return DryFault(path, frame.lineno or 0, message)
    line = source.line_of(method if method in vars(cls) else "") if source is not None else 0
    return DryFault(path, line, message)


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
    for raw in (_pod("plain", {}), _pod("requests-7", {"cpu": "500m", "memory": "256Mi"})):
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
