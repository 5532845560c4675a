"""The loop that runs reconcilers: each object at one place at a time, failures again and later each time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any, Final

import structlog

from mooring.controllers.metrics import ControllerMetrics
from mooring.controllers.reconciler import Reconciler, View
from mooring.kube import Backoff, Change, KubeError, NotLeading

log = structlog.get_logger("mooring.controller")

#: Objects that are being looked at, at a time.
_WORKERS: Final = 8
_FIRST_RETRY, _LAST_RETRY = 0.1, 60.0
#: Failures in a row before people hear of it: the first ones mend themselves (conflicts, a view that lags).
_QUIET_TRIES: Final = 3

_Work = tuple[Reconciler, str]


class Loop:
    """Takes changes at any time, and works while `run` runs and it is not paused."""

    def __init__(self, view: View, reconcilers: Iterable[Reconciler], metrics: ControllerMetrics) -> None:
        self._view = view
        self._reconcilers = tuple(reconcilers)
        self._metrics = metrics
        self._waiting: dict[_Work, None] = {}
        self._busy: set[_Work] = set()
        #: Looked at right now, and concerned by another change meanwhile.
        self._again: set[_Work] = set()
        self._timers: dict[_Work, asyncio.TimerHandle] = {}
        self._backoffs: dict[_Work, Backoff] = {}
        self._more = asyncio.Event()
        self._acting = asyncio.Event()
        #: Reconcilers that somebody else does the work of.
        self._resting: frozenset[Reconciler] = frozenset()

    def apply(self, changes: list[Change[Any]]) -> None:
        """Take changes over; what they concern is looked at when there is time."""
        for change in changes:
            self._view.apply(change)
            for reconciler in self._reconcilers:
                for key in reconciler.concerns(change):
                    self.put(reconciler, key)

    def put(self, reconciler: Reconciler, key: str) -> None:
        """Have an object looked at."""
        work = (reconciler, key)
        if work in self._busy:
            self._again.add(work)
        else:
            self._waiting[work] = None
            self._more.set()

    def act(self, *, without: Iterable[Reconciler] = ()) -> None:
        """Work on what waits, from now on, but for what some reconcilers would do; that goes on waiting."""
        self._resting = frozenset(without)
        self._acting.set()
        self._more.set()

    def pause(self) -> None:
        """Finish what is under way and then leave everything alone, until `act`."""
        self._acting.clear()

    @property
    def pending(self) -> int:
        """How much waits or is under way."""
        return len(self._waiting) + len(self._busy)

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(_WORKERS):
                    tasks.create_task(self._work(), name=f"reconcile {number}")
        finally:
            for timer in self._timers.values():
                timer.cancel()

    async def _work(self) -> None:
        while True:
            await self._acting.wait()
            work = next((each for each in self._waiting if each[0] not in self._resting), None)
            if work is None:
                self._more.clear()
                await self._more.wait()
                continue
            del self._waiting[work]
            self._busy.add(work)
            try:
                await self._look(work)
            finally:
                self._busy.discard(work)
                if work in self._again:
                    self._again.discard(work)
                    self.put(*work)

    async def _look(self, work: _Work) -> None:
        reconciler, key = work
        if (timer := self._timers.pop(work, None)) is not None:
            timer.cancel()
        begun = time.perf_counter()
        problem = ""
        try:
            later = await reconciler.reconcile(key)
        except NotLeading:
            return
        except KubeError as error:
            problem, later = str(error), self._retry(work, str(error))
        except Exception:
            # One object that cannot be dealt with must not end the work on all others.
            log.exception("a controller failed", controller=reconciler.name, object=key)
            problem, later = "failed", self._retry(work, "")
        else:
            self._backoffs.pop(work, None)
        self._metrics.looked(reconciler.name, time.perf_counter() - begun, failed=bool(problem))
        if later is not None:
            loop = asyncio.get_running_loop()
            self._timers[work] = loop.call_later(max(later, 0.001), self._due, work)

    def _retry(self, work: _Work, problem: str) -> float:
        backoff = self._backoffs.setdefault(work, Backoff(first=_FIRST_RETRY, cap=_LAST_RETRY))
        delay = backoff.next()
        tell = log.warning if backoff.tries > _QUIET_TRIES else log.debug
        if problem:
            tell("a controller tries again", controller=work[0].name, object=work[1], error=problem, seconds=delay)
        return delay

    def _due(self, work: _Work) -> None:
        self._timers.pop(work, None)
        self.put(*work)
