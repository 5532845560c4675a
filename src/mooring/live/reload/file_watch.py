"""FileWatch: polls files for changes.

Polling works on every file system, and for ConfigMap volumes, whose files are links into a directory that is replaced.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from mooring.framework.plugin_errors import contain, describe
from mooring.loading.setup_files import Signature, signature
from mooring.logs import get_logger

log = get_logger("mooring.live")

_POLL_SECONDS = 0.2
#: A change is reported when the files have not changed for this long, because a write may be in progress, and at the
#: latest after this many checks.
_STABLE_SECONDS = 0.2
_MAX_CHECKS = 150


class _Watched:
    """Some files, and the callback for changes."""

    def __init__(
        self, paths: Callable[[], Iterable[Path]], changed: Callable[[], Awaitable[None]], seen: Signature | None
    ) -> None:
        self._paths = paths
        self.changed = changed
        self.seen = self.signature() if seen is None else seen

    def signature(self) -> Signature:
        """Return the current state of the files."""
        return signature(self._paths())


class FileWatch:
    """A poller of all files that are reloaded when they change."""

    def __init__(self) -> None:
        self._watched: list[_Watched] = []
        self._last_error = ""

    def add(
        self,
        paths: Callable[[], Iterable[Path]],
        changed: Callable[[], Awaitable[None]],
        seen: Signature | None = None,
    ) -> None:
        """Call ``changed`` when the files differ from ``seen``, by default from their current state."""
        self._watched.append(_Watched(paths, changed, seen))

    async def run(self) -> None:
        """Poll until cancelled, if there are any files."""
        while self._watched:
            for each in self._watched:
                try:
                    await self._check(each)
                except BaseException as error:  # must not stop the scheduler
                    contain(error)
                    text = describe(error)
                    if text != self._last_error:
                        log.error("Failed to check files for changes", error=text)
                    self._last_error = text
            await asyncio.sleep(_POLL_SECONDS)

    async def _check(self, each: _Watched) -> None:
        now = await asyncio.to_thread(each.signature)
        if now != each.seen:
            each.seen = await self._wait_until_stable(each, now)
            await each.changed()

    async def _wait_until_stable(self, each: _Watched, last: Signature) -> Signature:
        for _ in range(_MAX_CHECKS):
            await asyncio.sleep(_STABLE_SECONDS)
            now = await asyncio.to_thread(each.signature)
            if now == last:
                break
            last = now
        return last
