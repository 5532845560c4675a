"""Which exceptions count as a plugin's failure."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mooring.framework.plugin_errors import contain, describe, run_loop


class Odd(BaseException):
    pass


def raising(error: BaseException) -> Callable[[], Any]:
    def call() -> None:
        raise error

    return call


def contained(call: Callable[[], Any]) -> str:
    try:
        call()
    except BaseException as error:
        contain(error)
        return describe(error)
    return ""


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: sys.exit(3), "SystemExit: 3"),
        (raising(KeyboardInterrupt()), "KeyboardInterrupt"),
        (raising(GeneratorExit()), "GeneratorExit"),
        (raising(Odd("x")), "Odd: x"),
        (raising(asyncio.CancelledError()), "CancelledError"),
        (raising(KeyError("missing")), "KeyError: 'missing'"),
    ],
)
def test_what_a_plugin_raises_is_contained(call: Callable[[], Any], text: str) -> None:
    assert contained(call) == text


def test_ctrl_c_during_a_call_is_not_contained() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            contained(lambda: (signal.raise_signal(signal.SIGINT), time.sleep(1)))
    finally:
        signal.signal(signal.SIGINT, before)


def test_closing_a_generator_is_not_contained() -> None:
    def steps() -> Iterator[int]:
        try:
            yield 1
        except BaseException as error:
            contain(error)
            yield 2

    generator = steps()
    next(generator)
    generator.close()  # raises RuntimeError if GeneratorExit is ignored


async def test_a_cancellation_of_the_task_is_not_contained() -> None:
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except BaseException as error:
            contain(error)

    task = asyncio.ensure_future(work())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()


async def test_a_cancelled_error_that_the_plugin_raises_itself_is_contained() -> None:
    assert contained(raising(asyncio.CancelledError())) == "CancelledError"


def test_an_exception_without_a_readable_text_is_described() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            return str(sys.exit(3))

    assert describe(Mute()) == "Mute: (its text is unknown: SystemExit in __str__)"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_a_task_that_exits_does_not_end_the_loop(error: BaseException) -> None:
    reports: list[str] = []

    async def leave() -> None:
        raise error

    async def work() -> str:
        task = asyncio.ensure_future(leave())
        await asyncio.wait({task})
        assert task.exception() is error
        asyncio.get_running_loop().call_soon(raising(error))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return "done"

    assert run_loop(work(), report=reports.append) == "done"
    assert len(reports) == 2
    assert reports[0].endswith(f" in leave: {describe(error)}")
    assert reports[0].startswith("test_plugin_errors.py:")


def test_the_end_of_the_work_itself_is_not_contained() -> None:
    async def work() -> None:
        sys.exit(4)

    with pytest.raises(SystemExit):
        run_loop(work())
