"""Pods whose PreBind plugins are at work: until these are done, one who needs the room may call a pod back."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from mooring.framework.status import SUCCESS, Status


class PreBinds:
    """What is under way, by the uid of the pod. Belongs to one event loop."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Task[Status]] = {}
        #: Why pods were called back.
        self._causes: dict[str, str] = {}

    def cancel(self, uid: str, cause: str) -> bool:
        """Call a pod back. False if nothing is under way for it: it is bound by now, or soon."""
        task = self._under_way.get(uid)
        if task is None:
            return False
        self._causes.setdefault(uid, cause)
        task.cancel()
        return True

    async def run(self, uid: str, plugin: str, work: Coroutine[Any, Any, Status]) -> Status:
        """See one plugin's work to its end, or to the moment when the pod is called back."""
        task = asyncio.ensure_future(work)
        self._under_way[uid] = task
        try:
            status = await task
        except asyncio.CancelledError:
            if uid not in self._causes:
                raise
            status = SUCCESS
        finally:
            del self._under_way[uid]
            cause = self._causes.pop(uid, "")
        # One that finished in the same moment is called back all the same, as whoever did so counts on it.
        return Status.error(f'running PreBind plugin "{plugin}": {cause}').by(plugin) if cause else status
