"""RecordedEngine: an engine that records its inputs and its decisions, so that a replay repeats them.

An engine does no I/O and has no clock or random source of its own, so its decisions follow from its inputs, in their
order: cluster events, the passing of time, the ends of binding cycles, and what preemption reports. All of them pass
through the methods below. During one input the clock stands still, so that one time for each input is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.config import SchedulerConfiguration
from mooring.framework.custom_resources import event_name
from mooring.framework.state import CycleState
from mooring.recording.records import LAST_APPLIED, Attempt, Header, Kind, redacted
from mooring.scheduler.attempt_results import (
    AssumedPod,
    FailedAttempt,
    PendingAttempt,
    ScheduleFailure,
)
from mooring.scheduler.engine import Engine
from mooring.scheduler.event_handlers import EventHandlers
from mooring.scheduler.extenders.request import Reply, Request, Send
from mooring.scheduler.plugin_runner import PluginRunner
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.queue import QueuedPod
from mooring.scheduler.queue.scheduling_queue import FLUSH_INTERVAL

#: Appends a record: its kind, its time, and its fields.
Add = Callable[[tuple[Any, ...]], None]
#: The kinds of the records of every pod as plain integers, which are read and encoded faster than members of an enum.
_PUT: Final = int(Kind.PUT)
_REMOVE: Final = int(Kind.REMOVE)
_ATTEMPT: Final = int(Kind.ATTEMPT)
_BOUND: Final = int(Kind.BOUND)


class Recorder:
    """The clock of a recorded engine, and what its records are added to."""

    __slots__ = ("_names", "_wall", "add", "applying", "deciding", "now")

    def __init__(self, add: Add, wall: Callable[[], float], *, started: float) -> None:
        self.add = add
        self._wall = wall
        #: The time of the current input.
        self.now = started
        #: Whether an attempt runs. What it does follows from the input.
        self.deciding = False
        #: Whether another input is being applied. What plugins do meanwhile follows from it.
        self.applying = False
        self._names: dict[type[KubeObject], str] = {}

    def clock(self) -> float:
        """Return the time of the current input."""
        return self.now

    def step(self) -> float:
        """Begin the next input."""
        self.now = now = self._wall()
        return now

    def object(self, kind: int, item: KubeObject) -> None:
        """Record a changed object."""
        cls = item.__class__
        name = self._names.get(cls)
        if name is None:
            name = self._names[cls] = event_name(cls)
        if LAST_APPLIED in item.metadata.annotations:
            item = redacted(item)
        self.now = now = self._wall()
        self.add((kind, now, name, item))

    def send(self, send: Send) -> Send:
        """Return a function that sends requests to extenders and records the replies."""

        async def recorded(request: Request) -> Reply:
            reply = await send(request)
            self.add((Kind.EXTENDER_REPLY, self._wall(), request.url, reply.body, reply.error))
            return reply

        return recorded


class _Handlers(EventHandlers):
    """Event handlers that record each event when it is applied, which may be later than it was observed."""

    recorder: Recorder

    def put(self, item: KubeObject) -> None:
        recorder = self.recorder
        recorder.object(_PUT, item)
        recorder.applying = True
        try:
            super().put(item)
        finally:
            recorder.applying = False

    def put_new_pods(self, pods: Iterable[Pod]) -> list[Pod]:
        return list(pods)  # each event is recorded

    def put_new_nodes(self, nodes: Iterable[Node]) -> list[Node]:
        return list(nodes)

    def remove(self, item: KubeObject) -> None:
        recorder = self.recorder
        recorder.object(_REMOVE, item)
        recorder.applying = True
        try:
            super().remove(item)
        finally:
            recorder.applying = False


class RecordedEngine(Engine):
    """An engine that records its inputs and decisions."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        *,
        inputs: Recorder,
        describe: Callable[[SchedulerConfiguration], Header],
        **settings: Any,
    ) -> None:
        """``describe`` returns the header of a configuration. The other arguments are those of an engine."""
        self.inputs: Final = inputs
        self._describe = describe
        #: When the current attempt started.
        self._started = inputs.now
        self._flush_at = inputs.now + FLUSH_INTERVAL
        super().__init__(config, clock=inputs.clock, **settings)
        handlers = _Handlers(self.cache, self.queue, self.profiles, self.observer)
        handlers.recorder = inputs
        self._handlers = handlers

    # Attempts

    def schedule_one(self) -> AssumedPod | FailedAttempt | PendingAttempt | None:
        """Run the scheduling cycle of the next pod, and record it."""
        inputs = self.inputs
        now = self._started = inputs.step()
        inputs.deciding = True
        outcome = super().schedule_one()
        if not isinstance(outcome, PendingAttempt):
            inputs.deciding = False
            inputs.add((_ATTEMPT, now, _attempt(outcome)))
        return outcome

    async def _complete(self, pending: PendingAttempt) -> AssumedPod | FailedAttempt | None:
        started = self._started
        try:
            outcome = await super()._complete(pending)
        except Exception as error:
            outcome = self.attempt_failed(pending.queued, error)
        self.inputs.deciding = False
        self.inputs.add((_ATTEMPT, started, _attempt(outcome, ended=self.inputs.now)))
        return outcome

    def node_chosen(self) -> None:
        """Record that the search has ended."""
        if self.lock.held:
            self.inputs.step()

    # Binding cycles

    async def bind(self, assumed: AssumedPod) -> FailedAttempt | None:
        """Run the binding cycle, and record its end."""
        failed = await super().bind(assumed)
        if failed is None:
            self.inputs.add((_BOUND, self.inputs.step(), assumed.queued.uid))
        return failed

    def roll_back(self, assumed: AssumedPod) -> None:
        """Undo an assumed pod. If that has happened, only its binding cycle ends now."""
        if not self.inputs.deciding:
            self.inputs.step()
        super().roll_back(assumed)

    def undo(self, runner: PluginRunner, state: CycleState, pod: Pod, node_name: str) -> None:
        """Roll back an assumed pod."""
        if not self.inputs.deciding or self.lock.held:
            self.inputs.step()
        super().undo(runner, state, pod, node_name)

    def handle_failure(
        self, queued: QueuedPod, failure: ScheduleFailure, started: float, *, in_cycle: bool = False
    ) -> FailedAttempt:
        """Record a failed attempt or binding cycle."""
        inputs = self.inputs
        if not inputs.deciding:
            status = failure.status
            fields = (queued.uid, int(status.code), status.reasons, status.plugin)
            inputs.add((Kind.BIND_FAILED, inputs.now, *fields))
        elif self.lock.held:
            inputs.step()
        return super().handle_failure(queued, failure, started, in_cycle=in_cycle)

    # Time

    def tick(self) -> None:
        """Let time pass, and record it if that has an effect."""
        now = self.inputs.step()
        waiting = self.profiles.waiting_pods
        if now < self._flush_at and now < self.queue.next_tick and (not waiting or now < waiting.next_deadline):
            return  # without an effect
        if now >= self._flush_at:
            self._flush_at = now + FLUSH_INTERVAL
        self.inputs.add((Kind.TICK, now))
        super().tick()

    # Preemption

    def _eviction_failed(self, victim: Pod) -> None:
        self.inputs.add((Kind.EVICTION_FAILED, self.inputs.step(), victim.uid, victim.key))
        super()._eviction_failed(victim)

    def _preemption_failed(self, preemptor: Pod) -> None:
        self.inputs.add((Kind.PREEMPTION_FAILED, self.inputs.step(), preemptor.uid, preemptor.key))
        super()._preemption_failed(preemptor)

    def evicts_last(self, preemptor: str, victim: str) -> None:
        """Record it."""
        self.inputs.add((Kind.PREEMPTING, self.inputs.step(), preemptor, victim))
        super().evicts_last(preemptor, victim)

    def end_preemption(self, preemptor: str) -> None:
        """Record it."""
        self.inputs.add((Kind.PREEMPTING, self.inputs.step(), preemptor, None))
        super().end_preemption(preemptor)

    def clear_nomination(self, uid: str) -> None:
        """Record it."""
        self.inputs.add((Kind.NOMINATION_CLEARED, self.inputs.step(), uid))
        super().clear_nomination(uid)

    def cancel_binding(self, uid: str, plugin: str) -> bool:
        """Record it."""
        self.inputs.add((Kind.BINDING_CANCELLED, self.inputs.step(), uid, plugin))
        return super().cancel_binding(uid, plugin)

    # Plugins

    def _activate(self, keys: Iterable[str]) -> None:
        keys = tuple(keys)
        if not (self.inputs.deciding or self.inputs.applying):
            self.inputs.add((Kind.ACTIVATE, self.inputs.step(), keys))
        super()._activate(keys)

    def _retry(self, profile: str, plugin: str) -> None:
        if not (self.inputs.deciding or self.inputs.applying):
            self.inputs.add((Kind.RETRY, self.inputs.step(), profile, plugin))
        super()._retry(profile, plugin)

    def adopt(self, profiles: Profiles, queue: dict[str, Any]) -> None:
        """Record the configuration, and activate it."""
        self.inputs.add((Kind.RELOAD, self.inputs.step(), self._describe(profiles.config)))
        super().adopt(profiles, queue)


def _attempt(outcome: AssumedPod | FailedAttempt | None, *, ended: float = 0.0) -> Attempt:
    """Return the record of an attempt."""
    if outcome is None:
        return Attempt("", "", "skipped")
    queued = outcome.queued
    if isinstance(outcome, AssumedPod):
        return Attempt(
            queued.uid,
            queued.key,
            "placed",
            outcome.node_name,
            queued.attempts,
            outcome.evaluated,
            outcome.feasible,
            waits=outcome.waits,
            ended=ended,
        )
    failure = outcome.failure
    told = "unschedulable" if failure.status.is_rejected else "error" if failure.backoff is None else "stopped"
    return Attempt(
        queued.uid,
        queued.key,
        told,
        "",
        queued.attempts,
        message=failure.message,
        victims=tuple(outcome.victims),
        nominated=outcome.nominated_node,
        rejectors=tuple(sorted(failure.rejectors | failure.pending)),
        ended=ended,
        backoff=failure.backoff,
    )
