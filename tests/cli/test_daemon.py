"""Logging and signals of the long-running commands."""

from __future__ import annotations

import asyncio
import os
import signal

import click
import pytest

from mooring.cli.daemon import run_until_stopped, start_logging
from mooring.live import ServerError


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_stops_the_work_in_order(number: signal.Signals) -> None:
    cleaned = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), number)
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    try:
        assert await run_until_stopped(work()) == 0
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(each)
    assert cleaned == [True]


async def test_a_fatal_error_is_the_exit_code() -> None:
    async def work() -> None:
        raise ServerError("the port is in use")

    try:
        assert await run_until_stopped(work()) == 1
    finally:
        for each in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().remove_signal_handler(each)


def test_an_unknown_log_format_is_a_usage_error() -> None:
    with pytest.raises(click.BadParameter, match="use text or json"):
        start_logging({"logging_format": "xml", "v": 2})
