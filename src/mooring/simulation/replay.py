"""Replay: repeats the decisions of a recorded scheduler, one by one, and compares them with the recorded ones.

The engine gets the recorded inputs in the recorded order, with the recorded times and the same random numbers.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict, deque
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.api.devices import ResourceClaim
from mooring.api.meta import KubeObject, ObjectMeta
from mooring.api.pod import Pod
from mooring.api.yaml_writer import yaml_text
from mooring.apiserver.documents import deep_copy
from mooring.config import SchedulerConfiguration, load_config
from mooring.framework.api_clients import Binding, ObjectPatch
from mooring.framework.plugin import Plugin
from mooring.framework.plugin_errors import run_loop
from mooring.framework.state import CycleState
from mooring.framework.status import Code, Status
from mooring.loading.catalog import plugin_spec
from mooring.recording.recording_file import RecordingReader
from mooring.recording.records import (
    Attempt,
    Header,
    Kind,
    ObjectDecoder,
    PluginFile,
    RecordingError,
    attempt_in,
    header_in,
)
from mooring.releases import RELEASES, Release
from mooring.scheduler.attempt_results import (
    AssumedPod,
    FailedAttempt,
    PendingAttempt,
    ScheduleFailure,
    budget_exceeded,
)
from mooring.scheduler.engine import Engine
from mooring.scheduler.extenders import Extenders
from mooring.scheduler.extenders.request import Reply, Request
from mooring.scheduler.profiles import known_kinds, swap
from mooring.scheduler.queue import QueuedPod
from mooring.simulation.device_cases import run_at_once

#: The number of differences that are kept.
_KEPT: Final = 100
#: After this many pauses without an event, a PreBind plugin waits for something that is not recorded.
_MAX_PAUSES: Final = 1000


class Difference(msgspec.Struct, frozen=True):
    """A decision that differs from the recorded one."""

    #: The number of the decision, from 1, and its time.
    number: int
    time: float
    pod: str
    recorded: str
    replayed: str


class ReplayResult(msgspec.Struct, kw_only=True):
    """The result of a replay."""

    events: int = 0
    #: The numbers of decisions, of pods that were placed, and of failed attempts.
    decisions: int = 0
    placed: int = 0
    failed: int = 0
    #: The number of decisions that differ, and the first of them.
    different: int = 0
    differences: list[Difference] = []
    first: float = 0.0
    last: float = 0.0
    notes: list[str] = []

    @property
    def identical(self) -> bool:
        """Whether every decision was repeated."""
        return not self.different


def release_of(header: Header) -> Release:
    """Return the release of kube-scheduler that a recording emulates. Raises RecordingError."""
    found = next((each for each in RELEASES if each.version == header.release), None)
    if found is None:
        known = " and ".join(each.version for each in RELEASES)
        raise RecordingError(f"the recording emulates kube-scheduler {header.release!r}; this version emulates {known}")
    return msgspec.structs.replace(found, gate_changes=header.gates) if header.gates else found


def config_of(header: Header, plugins: Mapping[str, type[Plugin]]) -> SchedulerConfiguration:
    """Return the recorded configuration. Raises RecordingError or ConfigError."""
    if not header.config:
        raise RecordingError("the recording has no configuration; give one with --config")
    specs = {name: plugin_spec(cls) for name, cls in plugins.items()}
    text = yaml_text(header.config)
    config = load_config(text, source="the recording", plugins=specs, release=release_of(header))
    return msgspec.structs.replace(config, tie_break=header.tie_break)


def replay(
    path: str | Path, *, plugins: Mapping[str, type[Plugin]] | None = None, files: tuple[PluginFile, ...] = ()
) -> ReplayResult:
    """Repeat the decisions of a recording. ``plugins`` are those that are not built in, and ``files`` their hashes.

    Raises RecordingError, ConfigError or ProfileError.
    """
    return run_loop(Replay(path, plugins=plugins or {}, files=files).run())


class Replay:
    """One replay."""

    def __init__(self, path: str | Path, *, plugins: Mapping[str, type[Plugin]], files: tuple[PluginFile, ...]) -> None:
        self._reader = RecordingReader(path)
        started, header = self._reader.start()
        if header.source != "mooring run":
            raise RecordingError(
                f"{path}: recorded by `{header.source}`, so it has no decisions of Mooring to repeat; "
                "--compare decides the recorded pods and shows the differences"
            )
        self._plugins = plugins
        self._files = {each.name: each.sha256 for each in files}
        self._clock = _Clock(started)
        self._binder = _Binder()
        self._replies: defaultdict[str, deque[Reply]] = defaultdict(deque)
        self._assumed: dict[str, AssumedPod] = {}
        self._decode = ObjectDecoder(kind for kinds in known_kinds(plugins).values() for kind in kinds)
        self._result = ReplayResult(differences=[], notes=[])
        self._check(header)
        config = config_of(header, plugins)
        volumes, claims = _Volumes(), _Claims()
        self._engine = engine = _ReplayEngine(
            config,
            times=self._clock,
            plugins=plugins,
            rng=random.Random(header.seed),
            binder=self._binder,
            volumes=volumes,
            claims=claims,
            extenders=Extenders(config.extenders, self._reply),
            evicts_later=True,
        )
        volumes.engine = claims.engine = engine
        engine.queue.max_in_unschedulable = header.max_in_unschedulable

    def _check(self, header: Header) -> None:
        """Note what cannot be repeated."""
        if header.anonymized:
            self._note("the recording is anonymized: decisions that depend on names, messages or extenders may differ")
        for plugin in header.plugins:
            given = self._files.get(plugin.name)
            if plugin.name in self._plugins and given is not None and given != plugin.sha256:
                self._note(f"plugin {plugin.name} is another version than the recorded one, so decisions may differ")

    def _note(self, note: str) -> None:
        if note not in self._result.notes:
            self._result.notes.append(note)

    async def run(self) -> ReplayResult:
        """Repeat all decisions."""
        result = self._result
        for record in self._reader:
            kind, time = record[0], record[1]
            if kind == Kind.START:
                if result.events:
                    self._note("the recording continues after a restart; the replay ends there")
                    break
                result.first = time
                continue
            result.events += 1
            result.last = self._clock.now = time
            if kind in (Kind.PUT, Kind.REMOVE):
                item = self._decode(record[2], record[3])
                if item is not None:
                    self._change(kind, item)
            elif kind == Kind.ATTEMPT:
                await self._attempt(attempt_in(record), time)
            else:
                await self._repeat(kind, record[2:])
        for kind_name in sorted(self._decode.unknown):
            self._note(f"objects of the kind {kind_name} were left out: the plugin that reads them is not given")
        if self._reader.problem:
            self._note(self._reader.problem)
        return result

    def _change(self, kind: int, item: KubeObject) -> None:
        try:
            if kind == Kind.PUT:
                self._engine.put(item)
            else:
                self._engine.remove(item)
        except Exception as error:  # the recorded scheduler reported it and ignored the object, too
            self._note(f"an object could not be applied: {error}")

    async def _attempt(self, recorded: Attempt, time: float) -> None:
        engine, result = self._engine, self._result
        self._clock.ended = recorded.ended
        outcome: AssumedPod | FailedAttempt | PendingAttempt | None
        if recorded.outcome == "stopped":
            outcome = self._stop(recorded)
        else:
            outcome = engine.schedule_one()
            if isinstance(outcome, PendingAttempt):
                outcome = await engine.complete(outcome)
        if isinstance(outcome, AssumedPod):
            self._assumed[outcome.queued.uid] = outcome
            result.placed += 1
        elif outcome is not None:
            result.failed += 1
        result.decisions += 1
        before, now = _told(recorded), _outcome(outcome)
        if before != now:
            result.different += 1
            if len(result.differences) < _KEPT:
                result.differences.append(Difference(result.decisions, time, recorded.pod, _text(before), _text(now)))

    def _stop(self, recorded: Attempt) -> FailedAttempt | None:
        """Repeat an attempt that was stopped because it took too much CPU time, which a replay cannot repeat."""
        queued = self._engine.queue.pop()
        if queued is None:
            return None
        failure = budget_exceeded(recorded.message, CycleState(), recorded.backoff or 0.0)
        return self._engine.handle_failure(queued, failure, 0.0, in_cycle=True)

    async def _repeat(self, kind: int, fields: list[Any]) -> None:
        try:
            await self._other(kind, fields)
        except (IndexError, TypeError, ValueError, AttributeError) as error:
            raise RecordingError(f"the recording has an invalid record of the kind {kind}: {error}") from None

    async def _other(self, kind: int, fields: list[Any]) -> None:
        engine = self._engine
        match kind:
            case Kind.BOUND:
                await self._bind(fields[0], None)
            case Kind.BIND_FAILED:
                await self._bind(fields[0], Status(Code(fields[1]), tuple(fields[2]), fields[3]))
            case Kind.TICK:
                engine.tick()
            case Kind.EXTENDER_REPLY:
                self._replies[fields[0]].append(Reply(fields[1], fields[2]))
            case Kind.PREEMPTING if fields[1] is None:
                engine.preempting.pop(fields[0], None)
            case Kind.PREEMPTING:
                engine.evicts_last(fields[0], fields[1])
            case Kind.NOMINATION_CLEARED:
                engine.clear_nomination(fields[0])
            case Kind.BINDING_CANCELLED:
                engine.cancel_binding(fields[0], fields[1])
            case Kind.EVICTION_FAILED:
                engine.eviction_failed(self._pod(*fields))
            case Kind.PREEMPTION_FAILED:
                engine.preemption_failed(self._pod(*fields), ())
            case Kind.ACTIVATE:
                engine.queue.activate(fields[0])
            case Kind.RETRY:
                engine.queue.retry(fields[0], fields[1])
            case Kind.RELOAD:
                header = header_in([kind, 0.0, *fields])
                self._check(header)
                swap(engine, config_of(header, self._plugins), self._plugins, {})
            case _:
                pass

    def _pod(self, uid: str, key: str) -> Pod:
        placed = self._engine.cache.table.pods.get(uid)
        if placed is not None:
            return placed.pod
        namespace, _, name = key.rpartition("/")
        found = self._engine.cache.objects.lister(Pod).get(name, namespace)
        if found is not None and found.uid == uid:
            return found
        return Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid))

    async def _bind(self, uid: str, failure: Status | None) -> None:
        """End the binding cycle of a pod as it ended in the recording."""
        assumed = self._assumed.pop(uid, None)
        if assumed is None:
            return  # the attempt has already differed
        waiting = self._engine.profiles.waiting_pods.get(uid)
        if waiting is not None and waiting.verdict is None:
            # A plugin decided it in the background, or the decisions have already differed.
            if failure is None:
                for plugin in waiting.pending_plugins:
                    waiting.allow(plugin)
            else:
                waiting.reject(failure.plugin, failure.message)
        self._binder.failures = {} if failure is None else {uid: failure}
        await self._engine.bind(assumed)

    async def _reply(self, request: Request) -> Reply:
        replies = self._replies[request.url]
        return replies.popleft() if replies else Reply(error="the recording has no reply of this extender")


def _told(recorded: Attempt) -> tuple[Any, ...]:
    if recorded.outcome == "skipped":
        return ("skipped",)
    outcome = "error" if recorded.outcome == "stopped" else recorded.outcome
    return outcome, recorded.uid, recorded.node, recorded.number, recorded.victims, recorded.nominated


def _outcome(outcome: AssumedPod | FailedAttempt | None) -> tuple[Any, ...]:
    if outcome is None:
        return ("skipped",)
    queued = outcome.queued
    if isinstance(outcome, AssumedPod):
        return "placed", queued.uid, outcome.node_name, queued.attempts, (), None
    told = "unschedulable" if outcome.failure.status.is_rejected else "error"
    return told, queued.uid, "", queued.attempts, tuple(outcome.victims), outcome.nominated_node


def _text(told: tuple[Any, ...]) -> str:
    if told[0] == "skipped":
        return "no pod was ready"
    outcome, uid, node, number, victims, nominated = told
    text = f"pod {uid}, attempt {number}: {outcome}{f' on {node}' if node else ''}"
    return text + (f", evicts {len(victims)} for {nominated}" if victims else "")


# What the engine uses instead of a clock and an API server


class _Clock:
    def __init__(self, now: float) -> None:
        self.now = now
        #: When the current attempt ended, if it took a while.
        self.ended = 0.0

    def __call__(self) -> float:
        return self.now

    def end(self) -> None:
        if self.ended:
            self.now = self.ended


class _ReplayEngine(Engine):
    """An engine whose attempts end at the recorded times."""

    def __init__(self, config: SchedulerConfiguration, *, times: _Clock, **settings: Any) -> None:
        self._times = times
        super().__init__(config, clock=times, **settings)

    def node_chosen(self) -> None:
        """Continue at the recorded end of the search."""
        self._times.end()

    def handle_failure(
        self, queued: QueuedPod, failure: ScheduleFailure, started: float, *, in_cycle: bool = False
    ) -> FailedAttempt:
        if in_cycle:
            self._times.end()
        return super().handle_failure(queued, failure, started, in_cycle=in_cycle)


class _Binder:
    def __init__(self) -> None:
        self.failures: dict[str, Status] = {}

    def bind(self, binding: Binding) -> Status | None:
        return self.failures.get(binding.uid)


class _Volumes:
    """A volume writer whose patches succeed. The recorded events contain the results."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self._pauses = 0

    async def patch(self, patch: ObjectPatch) -> KubeObject:
        assert self.engine is not None
        found = self.engine.cache.objects.lister(patch.kind).get(patch.name, patch.namespace)
        if found is None:
            raise LookupError(f"{patch.kind.__name__} {patch.namespace}/{patch.name} does not exist")
        document = msgspec.to_builtins(found)
        _merge(document, deep_copy(patch.body))
        return msgspec.convert(document, patch.kind)

    async def pause(self, seconds: float) -> None:
        self._pauses += 1
        if self._pauses % _MAX_PAUSES == 0:
            raise TimeoutError("a volume was not bound in the recording")

    def exists(self, pod: Pod) -> bool:
        assert self.engine is not None
        found = self.engine.cache.objects.lister(Pod).get(pod.name, pod.namespace)
        return found is not None and found.uid == pod.uid


class _Claims:
    """A claim writer whose writes succeed. The recorded events contain the results."""

    shares_allocations = True
    patient = False

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self._pauses = 0

    async def until_written(
        self, claim: ResourceClaim, outcome: asyncio.Future[ResourceClaim | None]
    ) -> ResourceClaim | None:
        outcome.cancel()
        return claim

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        assert self.engine is not None
        return self.engine.cache.objects.lister(ResourceClaim).get(claim.name, claim.namespace) or claim

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        assert self.engine is not None
        owners = {owner.uid for owner in claim.metadata.owner_references}
        for each in self.engine.cache.objects.lister(ResourceClaim).list(claim.namespace):
            if owners & {owner.uid for owner in each.metadata.owner_references}:
                return each
        return claim

    async def update(self, claim: ResourceClaim) -> ResourceClaim:
        return claim

    async def update_status(self, claim: ResourceClaim, before: ResourceClaim) -> ResourceClaim:
        return claim

    async def unreserve(self, claim: ResourceClaim, uid: str) -> ResourceClaim:
        return claim

    async def delete(self, claim: ResourceClaim) -> None:
        return

    async def patch_pod_status(self, pod: Pod, patch: dict[str, Any], *, merge: bool = False) -> None:
        return

    async def pause(self, seconds: float) -> None:
        self._pauses += 1
        if self._pauses % _MAX_PAUSES == 0:
            raise TimeoutError("a device was not prepared in the recording")

    def start(self, work: Coroutine[Any, Any, None], what: str) -> None:
        run_at_once(work)


def _merge(document: dict[str, Any], patch: Mapping[str, Any]) -> None:
    """Apply a JSON merge patch."""
    for key, value in patch.items():
        if value is None:
            document.pop(key, None)
        elif isinstance(value, dict) and isinstance(document.get(key), dict):
            _merge(document[key], value)
        else:
            document[key] = value
