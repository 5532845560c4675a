"""Polling files for changes."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import pytest

from mooring.live.reload import file_watch
from mooring.live.reload.file_watch import FileWatch
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watch, "_POLL_SECONDS", 0.005)
    monkeypatch.setattr(file_watch, "_STABLE_SECONDS", 0.005)


async def test_each_callback_is_called_for_its_own_files(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    calls: asyncio.Queue[str] = asyncio.Queue()
    watch = FileWatch()
    for file in (first, second):

        async def changed(name: str = file.name) -> None:
            calls.put_nowait(name)

        file.write_text("1")
        watch.add(lambda file=file: [file], changed)
    task = asyncio.create_task(watch.run())
    try:
        for file in (second, first, second):
            file.write_text(file.read_text() + "1")
            async with asyncio.timeout(PATIENCE):
                assert await calls.get() == file.name
        assert calls.empty()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_a_file_that_was_changed_before_the_start_is_noticed(tmp_path: Path) -> None:
    file, noticed = tmp_path / "file", asyncio.Event()
    file.write_text("new")

    async def changed() -> None:
        noticed.set()

    watch = FileWatch()
    watch.add(lambda: [file], changed, seen=())
    task = asyncio.create_task(watch.run())
    try:
        await asyncio.wait_for(noticed.wait(), PATIENCE)
    finally:
        task.cancel()


@pytest.mark.parametrize("replace", [False, True], ids=["in place", "by rename"])
async def test_a_file_that_is_written_in_parts_is_reported_once(tmp_path: Path, replace: bool) -> None:
    file, found = tmp_path / "file", asyncio.Queue[str]()
    file.write_text("old")
    parts = iter(("", "new ", "new content ", "new content in parts"))

    def paths() -> list[Path]:
        """The next part is written whenever the watch looks at the file."""
        part = next(parts, None)
        if part is not None and replace:
            (tmp_path / "temporary").write_text(part)
            (tmp_path / "temporary").rename(file)
        elif part is not None:
            file.write_text(part)
        return [file]

    async def changed() -> None:
        found.put_nowait(file.read_text())

    watch = FileWatch()
    watch.add(paths, changed, seen=())
    task = asyncio.create_task(watch.run())
    try:
        async with asyncio.timeout(PATIENCE):
            assert await found.get() == "new content in parts"
        assert found.empty()
    finally:
        task.cancel()


async def test_without_files_there_is_nothing_to_do() -> None:
    await asyncio.wait_for(FileWatch().run(), PATIENCE)
