"""What plugins do beside the decisions: each one's ``run`` as a task, started again when it breaks."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterable

import structlog

from mooring.framework.plugin import Plugin
from mooring.kube import Backoff

log = structlog.get_logger("mooring.live")

#: A task that ran this long before it broke is started again soon, as if for the first time.
_LONG_SECONDS = 60.0


class Background:
    """The tasks of the plugins that are in force."""

    def __init__(self) -> None:
        self._group: asyncio.TaskGroup
        self._tasks: dict[int, tuple[Plugin, asyncio.Task[None]]] = {}

    def begin(self, tasks: asyncio.TaskGroup) -> None:
        """Where the tasks are to run."""
        self._group = tasks

    async def keep(self, plugins: Iterable[Plugin]) -> None:
        """Run exactly these: new ones are started, those that are no longer in force are cancelled."""
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
            await plugin.run()  # type: ignore[attr-defined]  # those without one are not started
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            if text != said:
                log.warning("a plugin's background task failed and is tried again", plugin=plugin.name, error=text)
            said = text
        else:
            return
        if loop.time() - begun > _LONG_SECONDS:
            backoff.reset()
        await asyncio.sleep(backoff.next())


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait({task})
