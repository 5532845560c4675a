"""SchedulingLoop: runs scheduling cycles one after another, and binding cycles concurrently with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from mooring.api.pod import Pod
from mooring.checkpoints import PausableCall
from mooring.logs import lines_together
from mooring.scheduler.attempt_results import AssumedPod, FailedAttempt, PendingAttempt
from mooring.scheduler.engine import Engine
from mooring.unexpected_errors import report_unexpected

#: How long attempts run before the event loop handles other tasks.
_SLICE_SECONDS = 0.005
#: The pause after a failure of the loop itself.
_FAILURE_SECONDS = 1.0
#: The maximum number of writes of binding cycles that wait for the API server. More decisions would only queue theirs.
#: etcd commits the writes that arrive together at once, so that each takes less of the server's CPU time if many wait.
_MAX_IN_FLIGHT = 128
#: After the maximum was reached, decisions continue when this many wait: many decisions in a row take less CPU time
#: than one after every answer of the server.
_RESUME_IN_FLIGHT = 64


class OutcomeReporter(Protocol):
    """A publisher of the outcomes of attempts."""

    def flushed(self, uid: str) -> Awaitable[None] | None:
        """Return what ends when all reports about a pod are written; None if they are."""

    def bound(self, assumed: AssumedPod) -> None:
        """Report a bound pod."""

    async def failed(self, failed: FailedAttempt, pod: Pod) -> None:
        """Report a failed attempt; ``pod`` is the newest version of the pod."""


class SchedulingLoop:
    """A loop that runs the attempts of an engine until cancelled. Belongs to one event loop."""

    def __init__(
        self,
        engine: Engine,
        reporter: OutcomeReporter,
        *,
        evict: Callable[[FailedAttempt], Coroutine[Any, Any, None]],
        latest: Callable[[str], Pod | None],
        in_flight: Callable[[], int],
    ) -> None:
        """``evict`` evicts victims, ``latest`` returns a pod by namespace/name, ``in_flight`` counts pending writes."""
        self._engine = engine
        self._reporter = reporter
        self._evict = evict
        self._latest = latest
        self._in_flight = in_flight
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        #: The tasks that have finished a binding cycle and wait for the next.
        self._idle: list[asyncio.Future[AssumedPod | None]] = []
        self._finishing = False
        #: The bound pods that are reported before the event loop waits again: together, which takes less time.
        self._bound: list[AssumedPod] = []
        #: The outcomes of attempts that have not been handled.
        self._outcomes: list[AssumedPod | FailedAttempt | PendingAttempt | None] = []
        #: How many binding cycles are running.
        self.binding = 0
        #: Whether the maximum number of writes was reached, and decisions have not continued.
        self._full = False
        #: The attempt that awaits extenders or pauses.
        self._pending: asyncio.Task[None] | None = None
        engine.lock.on_release = self.wake

    def wake(self) -> None:
        """Check the queue now."""
        self._wake.set()

    async def run(self) -> None:
        """Schedule until cancelled. A failure is reported, and the loop continues."""
        while True:
            try:
                await self._run()
            except Exception as error:
                report_unexpected("the scheduling loop failed", error)
                await asyncio.sleep(_FAILURE_SECONDS)

    async def _run(self) -> None:
        """Run attempts while pods are ready, and wait for events, until cancelled."""
        while True:
            queue, waiting = self._engine.queue, self._engine.profiles.waiting_pods
            self._wake.clear()
            self._engine.tick()
            if self._pending is not None and self._pending.done():
                self._pending = None
            self._run_slice()
            if self._may_decide():
                await asyncio.sleep(0)
                continue
            next_event = min(queue.next_tick, waiting.next_deadline)
            delay = min(1.0, max(0.01, next_event - time.time()))
            timer = asyncio.get_running_loop().call_later(delay, self.wake)
            try:
                await self._wake.wait()
            finally:
                timer.cancel()

    def _may_decide(self) -> bool:
        """Return whether a pod is ready and the next attempt may start."""
        return not self._engine.lock.held and self._engine.ready and self._has_room()

    def _has_room(self) -> bool:
        self._full = self._in_flight() >= (_RESUME_IN_FLIGHT if self._full else _MAX_IN_FLIGHT)
        return not self._full

    def _run_slice(self) -> None:
        """Run attempts for a few milliseconds, or until one awaits extenders or pauses."""
        if not self._may_decide():
            return
        attempts = self._engine.pausable(self._attempt_some)
        try:
            if attempts is None:
                self._attempt_some()
            elif not attempts.advance():
                self._engine.lock.take()
                self._pending = self.start(self._continue(attempts))
        finally:
            self._handle_outcomes()

    def _attempt_some(self) -> None:
        engine, until = self._engine, time.perf_counter() + _SLICE_SECONDS
        room = _MAX_IN_FLIGHT - self._in_flight()
        while room > 0 and engine.ready:
            outcome = engine.schedule_one()
            room -= isinstance(outcome, AssumedPod)
            self._outcomes.append(outcome)
            if time.perf_counter() > until or engine.lock.held:
                return

    async def _continue(self, attempts: PausableCall) -> None:
        """Finish an attempt that pauses. It holds the lock, so no other attempt starts."""
        try:
            finished = False
            while not finished:
                await asyncio.sleep(0)
                finished = attempts.advance()
        finally:
            attempts.close()
            self._engine.lock.release()
            self._handle_outcomes()

    def _handle_outcomes(self) -> None:
        """Handle the outcomes of a slice: no task starts before it ends, and together they start in less time."""
        outcomes, self._outcomes = self._outcomes, []
        for outcome in outcomes:
            if isinstance(outcome, PendingAttempt):
                self._pending = self.start(self._complete(outcome))
            else:
                self._handle(outcome)

    async def _complete(self, pending: PendingAttempt) -> None:
        """Finish an attempt that awaits extenders or pauses. It holds the lock, so no other attempt starts."""
        self._handle(await self._engine.complete(pending))

    def _handle(self, outcome: AssumedPod | FailedAttempt | None) -> None:
        if isinstance(outcome, AssumedPod):
            self.binding += 1
            if outcome.waits:
                self.start(self._bind_all(outcome), name=outcome.queued.uid)
            elif self._idle:
                self._idle.pop().set_result(outcome)
            else:
                self.start(self._bind_all(outcome))
        elif isinstance(outcome, FailedAttempt):
            self.start(self._fail(outcome))

    def start(self, work: Coroutine[Any, Any, None], *, name: str | None = None) -> asyncio.Task[None]:
        """Start a task that ``finish`` waits for."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            report_unexpected("a task of the scheduler failed", error)

    async def _bind_all(self, assumed: AssumedPod | None) -> None:
        """Run binding cycles, one after another, until None: to start a task takes longer than to wake one.

        The task of a pod that waits at Permit has the name of the pod, and ends with it.
        """
        loop, engine = asyncio.get_running_loop(), self._engine  # once, because it is a system call
        while assumed is not None:
            try:
                if (writing := self._reporter.flushed(assumed.pod.metadata.uid)) is not None:
                    await writing  # an older failure must not be reported after the success
                failed = await engine.bind(assumed)
            except asyncio.CancelledError:
                engine.lock.defer(engine.roll_back, assumed)
                raise
            finally:
                self.binding -= 1
                if not self._full or self._has_room():
                    self._wake.set()
            if failed is not None:
                await self._fail(failed)
            else:
                if not self._bound:
                    loop.call_soon(self._report_bound)
                self._bound.append(assumed)
            if self._finishing or assumed.waits or len(self._idle) >= _MAX_IN_FLIGHT:
                return
            woken: asyncio.Future[AssumedPod | None] = loop.create_future()
            self._idle.append(woken)
            failed = None
            del assumed  # an idle task must not keep the profile of its last pod after a reload
            assumed = await woken

    def _report_bound(self) -> None:
        bound, self._bound = self._bound, []
        with lines_together():
            for assumed in bound:
                try:
                    self._reporter.bound(assumed)
                except Exception as error:
                    report_unexpected("a bound pod cannot be reported", error, pod=assumed.pod.key)

    async def _fail(self, failed: FailedAttempt) -> None:
        if failed.failure.result.victims:
            self.start(self._evict(failed))
        pod = self._latest(failed.queued.pod.key) or failed.queued.pod
        if pod.uid == failed.queued.uid:  # otherwise the pod was deleted, and another pod has its name
            await self._reporter.failed(failed, pod)

    async def finish(self, seconds: float) -> None:
        """Wait for running tasks up to a timeout, then cancel them. Pods that wait at Permit are cancelled at once."""
        self._finishing = True
        while self._idle:
            self._idle.pop().set_result(None)
        waiting = {pod.pod.uid for pod in self._engine.profiles.waiting_pods}
        for task in self._tasks:
            if task.get_name() in waiting:
                task.cancel()
        if self._tasks and seconds:
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
        self._report_bound()
