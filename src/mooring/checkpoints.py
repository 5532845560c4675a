"""Checkpoints: places in a decision where it may pause, so that the event loop can run other tasks.

A pod may have thousands of terms, and a decision about it may take long. Decisions are plain function calls, several
levels deep, so they cannot await. They therefore run in a greenlet, a separate stack of the same thread: a checkpoint
that is reached after the end of the time slice switches back to the caller, which continues the decision later from the
same place. Generators would do the same only if every function between the scheduling loop and the checkpoint, plugins
included, were one.

``PausableSteps`` runs one decision, a generator. ``PausableCall`` runs a function that makes many short decisions one
after another, because switching to a greenlet and back takes time that many of them do not need.

A pause never changes a decision. The caller holds the decision lock meanwhile, so nothing that decisions read changes.
Elsewhere, for example in a simulation, a checkpoint does nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from functools import partial
from time import perf_counter, thread_time
from typing import Any, Generic, TypeVar

from greenlet import getcurrent, greenlet

Y = TypeVar("Y")
S = TypeVar("S")
T = TypeVar("T")


class AbortedError(BaseException):
    """A decision may not continue after a checkpoint. It does not derive from Exception, because no plugin failed."""


class ClosedError(BaseException):
    """A paused decision was closed: its result is not needed."""


class _Slice:
    """The time slice that runs now. Only one decision runs at a time."""

    __slots__ = ("deadline", "excluded", "passed", "running")

    def __init__(self) -> None:
        self.deadline = math.inf
        self.running: _Pausable | None = None
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
        running = _slice.running
        if running is not None:
            running.reached()


def checkpoints_passed() -> int:
    """Return how many checkpoints this process has passed: if the number grows, it works and does not hang."""
    return _slice.passed


def exclude(seconds: float) -> None:
    """Do not count some seconds for the running decision: a custom plugin, which has limits of its own, used them."""
    _slice.excluded += seconds


class _Worker:
    """A greenlet that makes one call after another: starting a greenlet takes longer than switching to it."""

    __slots__ = ("_caller", "_greenlet", "busy", "switch")

    def __init__(self) -> None:
        self._greenlet = greenlet(self._run)
        self._caller: greenlet = getcurrent()
        #: Whether a call is paused in it.
        self.busy = False
        self.switch: Callable[[Any], Any] = self._greenlet.switch

    def run(self, call: Any) -> Any:
        """Make a call; after a pause, continue it: send an exception or None.

        Return how the run ended, and what the call returned or raised.
        """
        self._caller = getcurrent()
        return self.switch(call)

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

    def _run(self, call: Callable[[], Any]) -> None:
        answer: tuple[int, Any]
        while True:
            try:
                answer = (_RETURNED, call())
            except BaseException as error:
                answer = (_RAISED, error)
            call = _NO_CALL  # do not keep the pod until the next decision
            call = self._caller.switch(answer)
            answer = (_RETURNED, None)


_PAUSED, _RETURNED, _RAISED = range(3)
_NO_CALL: Any = None


class _Pausable:
    """What runs in a greenlet and pauses at checkpoints."""

    __slots__ = ("_cpu_before", "_refuse", "_slice_seconds", "_worker", "seconds")

    def __init__(self, pauses: Pauses, refuse: Callable[[float], str] | None = None) -> None:
        """``refuse`` gets the CPU seconds so far and returns why the decision may not continue, or an empty text."""
        self._slice_seconds = pauses.slice_seconds
        self._refuse = refuse
        self._worker = pauses.worker()
        #: The CPU seconds of the decision's slices that ended.
        self.seconds = 0.0
        #: The CPU time when counting started.
        self._cpu_before = 0.0

    def _start_counting(self) -> None:
        """Count the CPU time from now on."""
        self._cpu_before = thread_time()
        _slice.excluded = 0.0

    def _start_slice(self) -> None:
        _slice.deadline = perf_counter() + self._slice_seconds

    def _run(self, call: Callable[[], Any] | None) -> tuple[int, Any]:
        """Make a call, or continue the one that pauses."""
        worker, caller = self._worker, _slice.running
        _slice.running = self
        how, answer = worker.run(None if worker.busy else call)
        _slice.deadline, _slice.running = math.inf, caller
        return how, answer

    def reached(self) -> None:
        """Handle a checkpoint after the end of the slice."""
        if not self._worker.is_current:
            return  # of another thread
        self.seconds += max(0.0, thread_time() - self._cpu_before - _slice.excluded)
        if self._refuse is not None and (reason := self._refuse(self.seconds)):
            raise AbortedError(reason)
        self._worker.pause()

    def close(self) -> None:
        """Stop what pauses. A decision that catches this, and then pauses again, is stopped again."""
        while self._worker.busy:
            how, answer = self._worker.run(ClosedError())
            if how == _RAISED and not isinstance(answer, ClosedError):
                raise answer


class PausableSteps(_Pausable, Generic[Y, S, T]):
    """The steps of a decision, a generator, that also pause at checkpoints."""

    __slots__ = ("_generator", "result", "yielded")

    #: What the generator returned.
    result: T

    def __init__(
        self, generator: Generator[Y, S, T], pauses: Pauses, refuse: Callable[[float], str] | None = None
    ) -> None:
        """``refuse`` gets the CPU seconds so far and returns why the decision may not continue, or an empty text."""
        super().__init__(pauses, refuse)
        self._generator = generator
        #: What the generator yielded; None if it pauses.
        self.yielded: Y | None = None

    def advance(self, value: S | None = None) -> bool:
        """Run until the generator yields, pauses, or returns. Return whether it has returned, with ``result``.

        ``value`` is sent to the generator, unless it pauses.
        """
        self._start_counting()
        self._start_slice()
        how, answer = self._run(partial(self._generator.send, value))  # type: ignore[arg-type]  # None starts it
        if how == _RAISED:
            if not isinstance(answer, StopIteration):
                raise answer
            self.result = answer.value
            return True
        self.yielded = answer
        return False

    def close(self) -> None:
        """Stop a decision that has not ended."""
        super().close()
        self._generator.close()


class PausableCall(_Pausable):
    """A call of a function that makes decisions. Each has a slice of its own, and pauses at checkpoints after it.

    Steps that run within the call need other ``Pauses``, because the greenlet of these is in use.
    """

    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], None], pauses: Pauses) -> None:
        super().__init__(pauses)
        self._call = call

    def advance(self) -> bool:
        """Run until a decision pauses or the function returns. Return whether it has returned."""
        self._start_counting()
        if self._worker.busy:
            self._start_slice()
        how, answer = self._run(self._call)
        if how == _RAISED:
            raise answer
        return how == _RETURNED

    # In the function

    @property
    def is_current(self) -> bool:
        """Whether the caller runs in this call, so that a decision can pause here."""
        return _slice.running is self and self._worker.is_current

    def start_decision(self, refuse: Callable[[float], str]) -> None:
        """Start a decision; ``refuse`` is as in PausableSteps.

        The time of the decisions before it in this ``advance`` counts too, because asking for the CPU time takes longer
        than much of a decision. Let the function return after a few milliseconds.
        """
        self._refuse = refuse
        self.seconds = 0.0
        self._start_slice()

    def end_decision(self) -> None:
        """End a decision: checkpoints outside of decisions do not pause."""
        _slice.deadline = math.inf
        self._refuse = None


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
