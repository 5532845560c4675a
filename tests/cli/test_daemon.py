"""Logging and signals of the long-running commands."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time

import click
import pytest

from mooring.cli.daemon import StopSignals, run_until_stopped, start_logging
from mooring.live import ServerError
from tests.waiting import PATIENCE


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_the_work_in_order(number: signal.Signals) -> None:
    cleaned = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    before = signal.getsignal(number)
    with StopSignals() as signals:
        assert await run_until_stopped(work(), signals) == 0
    assert cleaned == [True]
    assert signal.getsignal(number) is before


async def test_a_fatal_error_is_the_exit_code() -> None:
    async def work() -> None:
        raise ServerError("the port is in use")

    with StopSignals() as signals:
        assert await run_until_stopped(work(), signals) == 1


def test_a_signal_before_the_work_starts_interrupts_the_program() -> None:
    with StopSignals(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGTERM)


STUCK = """\
import asyncio, sys, time
from mooring.cli.daemon import StopSignals, run_until_stopped
from mooring.logs import configure_logs

configure_logs(2, as_json=False)

async def work():
    print("started", flush=True)
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass

with StopSignals(float(sys.argv[1])) as signals:
    sys.exit(asyncio.run(run_until_stopped(work(), signals)))
"""


@pytest.mark.parametrize(("seconds", "signals"), [("0.2", [signal.SIGTERM]), ("60", [signal.SIGINT, signal.SIGTERM])])
def test_work_that_does_not_stop_ends_at_the_deadline_or_with_a_second_signal(
    seconds: str, signals: list[signal.Signals]
) -> None:
    command = [sys.executable, "-c", STUCK, seconds]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        for each in signals:
            process.send_signal(each)
            time.sleep(0.1)  # two pending signals are delivered in the order of their numbers
        assert process.wait(PATIENCE) == 1
        text = process.stdout.read()
    assert ("the process has not stopped within 0.2 s" in text) == (len(signals) == 1)


def test_an_unknown_log_format_is_a_usage_error() -> None:
    with pytest.raises(click.BadParameter, match="use text or json"):
        start_logging({"logging_format": "xml", "v": 2})
