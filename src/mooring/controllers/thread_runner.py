"""The controllers beside something else in one process: on a thread, with a loop and a connection of their own."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType
from typing import Final

import structlog

from mooring.controllers.program import ControllerProgram, ProgramSettings
from mooring.kube import Access

log = structlog.get_logger("mooring.controller")

_SECONDS: Final = 10.0


class ControllersBeside:
    """Runs the controllers while it is entered; what ends them is told, and ends nothing else."""

    def __init__(self, access: Access, settings: ProgramSettings) -> None:
        self._access = access
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._main, name="mooring-controllers", daemon=True)

    def __enter__(self) -> ControllersBeside:
        self._thread.start()
        self._begun.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._loop is not None and self._task is not None:
            # The loop may have ended of itself meanwhile, which is as good.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(_SECONDS)

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except asyncio.CancelledError:
            return
        except Exception as error:
            log.error("the controllers ended", error=str(error))
        finally:
            self._begun.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._begun.set()
        await ControllerProgram(self._access, self._settings).run()
