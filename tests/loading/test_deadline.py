from __future__ import annotations

import threading

import pytest

from mooring.loading.deadline import HangsError, stack_of, within


def fail() -> None:
    raise KeyError("x")


def test_the_result_or_the_exception_of_a_call() -> None:
    assert within(10, lambda: 3) == 3
    with pytest.raises(KeyError):
        within(10, fail)


def test_a_timeout_error_of_the_call_itself_is_not_a_missed_deadline() -> None:
    def call() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        within(10, call)


def test_a_missed_deadline_has_the_line_that_hangs() -> None:
    release = threading.Event()

    class Hanging:
        def wait(self) -> bool:
            return release.wait()

    try:
        with pytest.raises(HangsError, match=r"did not return within 0\.05 s") as caught:
            within(0.05, Hanging().wait)
    finally:
        release.set()
    path, line = caught.value.place_in(Hanging)
    assert path == __file__
    assert line == Hanging.wait.__code__.co_firstlineno + 1


def test_an_ended_thread_has_no_stack() -> None:
    thread = threading.Thread(target=lambda: None)
    thread.start()
    thread.join()
    assert list(stack_of(thread.ident or 0)) == []
