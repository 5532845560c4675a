"""The reconcile loop: a work queue of objects, workers, and retries with backoff."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final

from mooring.controllers.controller_metrics import ControllerMetrics
from mooring.controllers.reconciler import ObjectCache, Reconciler, key_of
from mooring.kube import Backoff, Change, KubeError, NotLeading
from mooring.logs import get_logger
from mooring.unexpected_errors import report_unexpected

log = get_logger("mooring.controller")

#: The number of objects that are reconciled concurrently.
_WORKERS: Final = 8
_FIRST_RETRY, _LAST_RETRY = 0.1, 60.0
#: Consecutive failures that are logged at debug level only. Most resolve on retry (conflicts, a stale cache).
_QUIET_FAILURES: Final = 3

_Work = tuple[Reconciler, str]


class ReconcileLoop:
    """Queues objects at any time, and reconciles them while `run` runs and the loop is not paused.

    An object is never reconciled by two workers at once.
    """

    def __init__(self, cache: ObjectCache, reconcilers: Iterable[Reconciler], metrics: ControllerMetrics) -> None:
        self._cache = cache
        self._reconcilers = tuple(reconcilers)
        self._metrics = metrics
        self._work_queue = metrics.work_queue
        self._work_queue.depth = self._depth
        self._work_queue.running = self._running
        metrics.add_controllers(each.name for each in self._reconcilers)
        #: Object -> when it was queued, and object -> when its reconciliation started.
        self._queue: dict[_Work, float] = {}
        self._in_progress: dict[_Work, float] = {}
        #: Objects that are in progress and were queued again.
        self._dirty: set[_Work] = set()
        self._timers: dict[_Work, asyncio.TimerHandle] = {}
        self._backoffs: dict[_Work, Backoff] = {}
        self._queued = asyncio.Event()
        self._resumed = asyncio.Event()
        #: Reconcilers whose objects stay queued.
        self._paused: frozenset[Reconciler] = frozenset()

    def apply(self, changes: list[Change[Any]]) -> None:
        """Apply changes to the cache and queue the objects that they affect."""
        for change in changes:
            self._cache.apply(change)
            for reconciler in self._reconcilers:
                try:
                    for key in reconciler.affected_keys(change):
                        self.put(reconciler, key)
                except Exception as error:
                    report_unexpected(
                        "a controller cannot read an object and ignores it",
                        error,
                        controller=reconciler.name,
                        kind=type(change.object).__name__,
                        object=key_of(change.object),
                    )

    def put(self, reconciler: Reconciler, key: str) -> None:
        """Queue an object."""
        work = (reconciler, key)
        if work in self._dirty or work in self._queue:
            return
        self._work_queue.adds[reconciler.name] += 1
        if work in self._in_progress:
            self._dirty.add(work)
        else:
            self._enqueue(work)

    def _enqueue(self, work: _Work) -> None:
        self._queue[work] = time.perf_counter()
        self._queued.set()

    def resume(self, *, without: Iterable[Reconciler] = ()) -> None:
        """Reconcile queued objects, except those of the given reconcilers, which stay queued."""
        self._paused = frozenset(without)
        self._resumed.set()
        self._queued.set()

    def pause(self) -> None:
        """Finish the objects that are in progress, then wait for `resume`."""
        self._resumed.clear()

    async def run(self) -> None:
        """Run the workers until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(_WORKERS):
                    tasks.create_task(self._worker(), name=f"reconcile {number}")
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _worker(self) -> None:
        while True:
            await self._resumed.wait()
            work = next((each for each in self._queue if each[0] not in self._paused), None)
            if work is None:
                self._queued.clear()
                await self._queued.wait()
                continue
            name, queued, started = work[0].name, self._queue.pop(work), time.perf_counter()
            self._work_queue.waited.child(name).observe(started - queued)
            self._in_progress[work] = started
            try:
                await self._reconcile(work)
            finally:
                del self._in_progress[work]
                self._work_queue.worked.child(name).observe(time.perf_counter() - started)
                if work in self._dirty:
                    self._dirty.discard(work)
                    self._enqueue(work)

    def _depth(self) -> dict[str, int]:
        found = {each.name: 0 for each in self._reconcilers}
        for reconciler, _ in self._queue:
            found[reconciler.name] += 1
        return found

    def _running(self) -> dict[str, list[float]]:
        found: dict[str, list[float]] = {each.name: [] for each in self._reconcilers}
        now = time.perf_counter()
        for (reconciler, _), started in self._in_progress.items():
            found[reconciler.name].append(now - started)
        return found

    async def _reconcile(self, work: _Work) -> None:
        reconciler, key = work
        if (timer := self._timers.pop(work, None)) is not None:
            timer.cancel()
        started = time.perf_counter()
        failed = True
        try:
            delay = await reconciler.reconcile(key)
        except NotLeading:
            return
        except KubeError as error:
            delay = self._retry(work, str(error))
        except Exception as error:
            # An object that cannot be reconciled must not stop the reconciliation of all others.
            report_unexpected("reconcile failed", error, controller=reconciler.name, object=key)
            delay = self._retry(work, "")
        else:
            self._backoffs.pop(work, None)
            failed = False
        self._metrics.observe_reconcile(reconciler.name, time.perf_counter() - started, failed=failed)
        if delay is not None:
            self._work_queue.retries[reconciler.name] += 1
            loop = asyncio.get_running_loop()
            self._timers[work] = loop.call_later(max(delay, 0.001), self._due, work)

    def _retry(self, work: _Work, error: str) -> float:
        backoff = self._backoffs.setdefault(work, Backoff(first=_FIRST_RETRY, cap=_LAST_RETRY))
        delay = backoff.next()
        emit = log.warning if backoff.tries > _QUIET_FAILURES else log.debug
        if error:
            emit("reconcile failed; retrying", controller=work[0].name, object=work[1], error=error, seconds=delay)
        return delay

    def _due(self, work: _Work) -> None:
        self._timers.pop(work, None)
        self.put(*work)
