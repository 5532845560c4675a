"""Background tasks of plugins: a failure is logged with its place, and does not end the scheduler."""

from __future__ import annotations

import asyncio

from mooring.framework import Plugin
from mooring.live.background import Background
from tests.log_capture import capture_logs


class Polls(Plugin):
    async def run(self) -> None:
        raise KeyError("missing")


async def test_a_failure_is_logged_with_its_place_and_traceback() -> None:
    background = Background()
    with capture_logs() as lines:
        async with asyncio.TaskGroup() as tasks:
            background.begin(tasks)
            await background.keep([Polls()])
            while not lines:
                await asyncio.sleep(0)
            await background.keep([])
    (line,) = lines
    assert (line["event"], line["plugin"]) == ("background task of a plugin failed; retrying", "Polls")
    assert line["error"].startswith("test_background.py:")
    assert line["error"].endswith(" in run: KeyError: 'missing'")
    assert line["traceback"].splitlines()[-1] == '    raise KeyError("missing")'
