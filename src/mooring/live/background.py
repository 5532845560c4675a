"""Background tasks of plugins: run each plugin's ``run``, and restart it after a failure."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable

from mooring.framework.plugin import Plugin
from mooring.framework.plugin_errors import contain, failure_text
from mooring.framework.plugin_frames import author_frames, format_frames
from mooring.kube import Backoff
from mooring.logs import get_logger

log = get_logger("mooring.live")

#: The backoff of a task is reset if the task ran at least this long.
_LONG_SECONDS = 60.0


class Background:
    """The background tasks of the active plugins."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup
        self._tasks: dict[int, tuple[Plugin, asyncio.Task[None]]] = {}

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Set the task group in which the tasks run."""
        self._group = tasks

    async def keep(self, plugins: Iterable[Plugin]) -> None:
        """Run exactly the tasks of these plugins: start new tasks, and cancel the others."""
        wanted = {id(plugin): plugin for plugin in plugins if inspect.iscoroutinefunction(getattr(plugin, "run", None))}
        for gone in self._tasks.keys() - wanted.keys():
            _, task = self._tasks.pop(gone)
            await _cancelled(task)
        for key, plugin in wanted.items():
            if key not in self._tasks:
                task = self._group.create_task(_keep_running(plugin), name=f"plugin {plugin.name}")
                self._tasks[key] = (plugin, task)


async def _keep_running(plugin: Plugin) -> None:
    backoff, loop = Backoff(first=1.0, cap=60.0), asyncio.get_running_loop()
    said = ""
    while True:
        begun = loop.time()
        try:
            await plugin.run()
        except BaseException as error:
            contain(error)
            text = failure_text(error)
            if text != said:
                log.warning(
                    "background task of a plugin failed; retrying",
                    plugin=plugin.name,
                    error=text,
                    traceback=format_frames(author_frames(error)),
                )
            said = text
        else:
            return
        if loop.time() - begun > _LONG_SECONDS:
            backoff.reset()
        await asyncio.sleep(backoff.next())


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
