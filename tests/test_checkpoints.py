"""Checkpoints: decisions pause and continue at the same place, and nothing else does."""

from __future__ import annotations

import threading

import pytest

from mooring.checkpoints import (
    AbortedError,
    ClosedError,
    PausableCall,
    PausableSteps,
    Pauses,
    checkpoint,
    checkpoints_passed,
    exclude,
)


def work(rounds: int, log: list[int]):
    """Pass a checkpoint per round, several calls deep, and yield once."""

    def deep(level: int) -> None:
        if level:
            deep(level - 1)
        else:
            checkpoint()

    for number in range(rounds):
        deep(5)
        log.append(number)
    got = yield "request"
    deep(5)
    return got


def test_pauses_at_each_checkpoint_and_continues_there():
    log: list[int] = []
    steps = PausableSteps(work(3, log), Pauses(0.0))
    seen = []
    while not steps.advance():
        seen.append((steps.yielded, list(log)))
        if steps.yielded == "request":
            break
    assert seen == [(None, []), (None, [0]), (None, [0, 1]), ("request", [0, 1, 2])]
    assert not steps.advance("reply")  # it pauses once more
    assert steps.yielded is None
    assert steps.advance("ignored, because it pauses")
    assert steps.result == "reply"


def test_does_not_pause_within_its_slice():
    steps = PausableSteps(work(1000, []), Pauses(60.0))
    assert not steps.advance()
    assert steps.yielded == "request"


def test_a_checkpoint_outside_a_decision_does_nothing():
    before = checkpoints_passed()
    checkpoint()
    assert checkpoints_passed() == before + 1


def test_exceptions_reach_the_caller():
    def fails():
        checkpoint()
        raise KeyError("missing")
        yield

    steps = PausableSteps(fails(), Pauses(0.0))
    assert not steps.advance()
    with pytest.raises(KeyError, match="missing"):
        steps.advance()


def test_refuses_to_continue():
    asked: list[float] = []

    def refuse(seconds: float) -> str:
        asked.append(seconds)
        return "too expensive" if len(asked) == 3 else ""

    steps = PausableSteps(work(10, []), Pauses(0.0), refuse)
    assert [steps.advance() for _ in range(2)] == [False, False]
    with pytest.raises(AbortedError, match="too expensive"):
        steps.advance()
    assert asked == sorted(asked)


def test_close_unwinds_a_paused_decision():
    unwound = []

    def held():
        try:
            checkpoint()
        finally:
            unwound.append(True)
        yield

    pauses = Pauses(0.0)
    steps = PausableSteps(held(), pauses)
    assert not steps.advance()
    steps.close()
    assert unwound == [True]
    assert PausableSteps(work(0, []), pauses).advance() is False, "the next decision uses the same greenlet"


def test_a_decision_that_was_dropped_does_not_disturb_the_next():
    pauses = Pauses(0.0)
    dropped = PausableSteps(work(5, []), pauses)
    assert not dropped.advance()
    log: list[int] = []
    steps = PausableSteps(work(1, log), pauses)
    while steps.yielded is None:
        assert not steps.advance()
    assert log == [0]
    dropped.close()


def test_other_threads_do_not_pause():
    reached = []

    def meanwhile():
        thread = threading.Thread(target=lambda: reached.append(checkpoint()))
        thread.start()
        thread.join()
        return "done"
        yield

    steps = PausableSteps(meanwhile(), Pauses(0.0))
    assert steps.advance()
    assert reached == [None]


def test_excluded_time_does_not_count():
    seen: list[float] = []

    def refuse(seconds: float) -> str:
        seen.append(seconds)
        return ""

    def plugin():
        exclude(3600.0)
        checkpoint()
        return None
        yield

    steps = PausableSteps(plugin(), Pauses(0.0), refuse)
    assert not steps.advance()
    assert seen == [0.0]
    assert steps.advance()


# Calls that make several decisions


class Decisions:
    """A function that makes decisions with some checkpoints each; the budget of the n-th ends after ``limits[n]``."""

    def __init__(self, *checkpoints: int, limits: dict[int, int] | None = None, slice_seconds: float = 0.0) -> None:
        self.checkpoints = checkpoints
        self.limits = limits or {}
        self.log: list[str] = []
        self.call = PausableCall(self.run, Pauses(slice_seconds))

    def run(self) -> None:
        for number, count in enumerate(self.checkpoints):
            checkpoint()  # of no decision
            asked: list[float] = []

            def refuse(seconds: float, number: int = number, asked: list[float] = asked) -> str:
                asked.append(seconds)
                return "too expensive" if len(asked) > self.limits.get(number, 100) else ""

            self.call.start_decision(refuse)
            try:
                for _ in range(count):
                    checkpoint()
                self.log.append(f"decided {number}")
            except AbortedError as error:
                self.log.append(f"{number} {error}")
            except ClosedError:
                self.log.append(f"closed {number}")
                raise
            finally:
                self.call.end_decision()

    def advances(self) -> int:
        """Run to the end; return the number of pauses."""
        pauses = 0
        while not self.call.advance():
            pauses += 1
        return pauses


def test_a_call_pauses_within_its_decisions_only():
    decisions = Decisions(2, 0, 3)
    assert decisions.advances() == 5
    assert decisions.log == ["decided 0", "decided 1", "decided 2"]


def test_each_decision_of_a_call_has_a_slice_of_its_own():
    decisions = Decisions(2, 1, slice_seconds=60.0)
    assert decisions.advances() == 0
    assert not decisions.call.is_current


def test_each_decision_of_a_call_has_a_limit_of_its_own():
    decisions = Decisions(3, 3, 3, limits={1: 1})
    assert decisions.advances() == 3 + 1 + 3
    assert decisions.log == ["decided 0", "1 too expensive", "decided 2"]


def test_close_unwinds_a_paused_call():
    decisions = Decisions(1, 2)
    assert not decisions.call.advance()
    assert not decisions.call.advance()
    decisions.call.close()
    decisions.call.close()
    assert decisions.log == ["decided 0", "closed 1"]


def test_a_call_that_raises_raises_for_the_caller():
    def fails() -> None:
        raise KeyError("missing")

    with pytest.raises(KeyError, match="missing"):
        PausableCall(fails, Pauses(0.0)).advance()


def test_steps_within_a_call_pause_on_their_own():
    seen: list[object] = []

    def decide() -> None:
        seen.append(call.is_current)
        steps = PausableSteps(work(1, []), Pauses(0.0))
        seen.append((steps.advance(), steps.yielded))
        seen.append(call.is_current)
        call.start_decision(lambda _: "")
        checkpoint()
        call.end_decision()
        steps.close()

    call = PausableCall(decide, Pauses(0.0))
    assert not call.advance()
    assert seen == [True, (False, None), True]
    assert call.advance()
