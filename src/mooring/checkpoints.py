"""Checkpoints: places in a decision where it may pause, so that the event loop can run other tasks.

A pod may have thousands of terms, and a decision about it may take long. Decisions are plain function calls, several
levels deep, so they cannot await. ``PausableSteps`` therefore runs them in a greenlet, a separate stack of the same
thread: a checkpoint that is reached after the end of the time slice switches back to the caller, which continues the
decision later from the same place. Generators would do the same only if every function between the scheduling loop and
the checkpoint, plugins included, were one.

A pause never changes a decision. The caller holds the decision lock meanwhile, so nothing that decisions read changes.
Outside ``PausableSteps``, for example in a simulation, a checkpoint does nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from time import perf_counter, thread_time
from typing import Any, Generic, TypeVar

from greenlet import getcurrent, greenlet

Y = TypeVar("Y")
S = TypeVar("S")
T = TypeVar("T")


class AbortedError(BaseException):
    """A decision was stopped at a checkpoint. It does not derive from Exception, because no plugin failed."""


class _Slice:
    """The time slice that runs now. Only one decision runs at a time."""

    __slots__ = ("deadline", "excluded", "passed", "steps")

    def __init__(self) -> None:
        self.deadline = math.inf
        self.steps: PausableSteps[Any, Any, Any] | None = None
        #: Seconds that do not count for the decision.
        self.excluded = 0.0
        #: How many checkpoints were passed.
        self.passed = 0


_slice = _Slice()


def checkpoint() -> None:
    """Pause the decision if its time slice has ended. Raises AbortedError if it may not continue.

    Call it in every loop whose length a tenant chooses, where an exception leaves no shared state half changed.
    """
    _slice.passed += 1
    if perf_counter() > _slice.deadline:
        steps = _slice.steps
        if steps is not None:
            steps.reached()


def checkpoints_passed() -> int:
    """Return how many checkpoints this process has passed: if the number grows, it works and does not hang."""
    return _slice.passed


def exclude(seconds: float) -> None:
    """Do not count some seconds for the running decision: a custom plugin, which has limits of its own, used them."""
    _slice.excluded += seconds


class _Worker:
    """A greenlet that runs one decision after another: starting a greenlet takes longer than switching to it."""

    __slots__ = ("_caller", "_greenlet", "busy", "switch")

    def __init__(self) -> None:
        self._greenlet = greenlet(self._run)
        self._caller: greenlet = getcurrent()
        #: Whether a decision is paused in it.
        self.busy = False
        self.switch: Callable[[Any], Any] = self._greenlet.switch

    def run(self, task: Any) -> Any:
        """Send a generator and a value for it, or after a pause an exception or None.

        Return how the run ended, and what the generator yielded or returned or raised.
        """
        self._caller = getcurrent()
        return self.switch(task)

    # In the greenlet

    @property
    def is_current(self) -> bool:
        """Whether this greenlet is running."""
        return getcurrent() is self._greenlet

    def pause(self) -> None:
        """Return to the caller, and wait until it continues."""
        self.busy = True
        error: BaseException | None = self._caller.switch((_PAUSED, None))
        self.busy = False
        if error is not None:
            raise error

    def _run(self, task: tuple[Generator[Any, Any, Any], Any]) -> None:
        answer: tuple[int, Any]
        while True:
            try:
                answer = (_YIELDED, task[0].send(task[1]))
            except StopIteration as done:
                answer = (_RETURNED, done.value)
            except BaseException as error:
                answer = (_RAISED, error)
            task = _NO_TASK  # do not keep the pod until the next decision
            task = self._caller.switch(answer)
            answer = (_RETURNED, None)


_PAUSED, _YIELDED, _RETURNED, _RAISED = range(4)
_NO_TASK: Any = None


class PausableSteps(Generic[Y, S, T]):
    """The steps of a decision, a generator, that also pause at checkpoints."""

    __slots__ = ("_cpu_before", "_generator", "_pauses", "_refuse", "_worker", "result", "seconds", "yielded")

    #: What the generator returned.
    result: T

    def __init__(
        self, generator: Generator[Y, S, T], pauses: Pauses, refuse: Callable[[float], str] | None = None
    ) -> None:
        """``refuse`` gets the CPU seconds so far and returns why the decision may not continue, or an empty text."""
        self._generator = generator
        self._pauses = pauses
        self._refuse = refuse
        self._worker = pauses.worker()
        #: What the generator yielded; None if it pauses.
        self.yielded: Y | None = None
        #: The CPU seconds of the slices that ended.
        self.seconds = 0.0
        #: The CPU time at the start of the slice.
        self._cpu_before = 0.0

    def advance(self, value: S | None = None) -> bool:
        """Run until the generator yields, pauses, or returns. Return whether it has returned, with ``result``.

        ``value`` is sent to the generator, unless it pauses.
        """
        worker, current = self._worker, _slice
        task: Any = (self._generator, value)
        if worker.busy:
            task = None
        self._cpu_before = thread_time()
        current.steps, current.excluded = self, 0.0
        current.deadline = perf_counter() + self._pauses.slice_seconds
        how, answer = worker.run(task)
        current.deadline, current.steps = math.inf, None
        if how == _RETURNED:
            self.result = answer
            return True
        if how == _RAISED:
            raise answer
        self.yielded = answer
        return False

    def close(self) -> None:
        """Stop a decision that has not ended."""
        worker = self._worker
        while worker.busy:
            worker.run(AbortedError("cancelled"))
        self._generator.close()

    def reached(self) -> None:
        """Handle a checkpoint after the end of the slice."""
        if not self._worker.is_current:
            return  # of another thread
        self.seconds += max(0.0, thread_time() - self._cpu_before - _slice.excluded)
        if self._refuse is not None and (reason := self._refuse(self.seconds)):
            raise AbortedError(reason)
        self._worker.pause()


class Pauses:
    """The settings of pauses, and the greenlet that the decisions of one thread run in."""

    def __init__(self, slice_seconds: float) -> None:
        self.slice_seconds = slice_seconds
        self._worker: _Worker | None = None

    def worker(self) -> _Worker:
        """Return the greenlet for the next decision. Call it in the thread that runs the decision."""
        worker = self._worker
        if worker is None or worker.busy:  # the second: by a decision that was dropped without ``close``
            worker = self._worker = _Worker()
        return worker
