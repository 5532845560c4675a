"""FileWatch: tells when files change, by looking at them several times a second.

Looking works on every file system, and for ConfigMaps, whose files are links into a folder that is exchanged whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

import structlog

from mooring.loading.setup_files import Signature, signature

log = structlog.get_logger("mooring.live")

_LOOK_SECONDS = 0.2
#: Files that change are left alone until they have been the same for so long: somebody may still be writing.
_SETTLE_SECONDS = 0.03
_MOST_LOOKS = 20


class _Watched:
    """Some files, and whom to tell."""

    def __init__(
        self, paths: Callable[[], Iterable[Path]], changed: Callable[[], Awaitable[None]], seen: Signature | None
    ) -> None:
        self._paths = paths
        self.changed = changed
        self.seen = self.look() if seen is None else seen

    def look(self) -> Signature:
        """The state of the files now."""
        return signature(self._paths())


class FileWatch:
    """Looks after all files that are read again when they change."""

    def __init__(self) -> None:
        self._watched: list[_Watched] = []
        self._said = ""

    def add(
        self,
        paths: Callable[[], Iterable[Path]],
        changed: Callable[[], Awaitable[None]],
        seen: Signature | None = None,
    ) -> None:
        """Call ``changed`` when the files are other than they were ``seen`` (or, without that, than they are now)."""
        self._watched.append(_Watched(paths, changed, seen))

    async def run(self) -> None:
        """Look until cancelled, if there is anything to look at."""
        while self._watched:
            for each in self._watched:
                try:
                    await self._look(each)
                except Exception as error:  # looking after files must not end the scheduler
                    text = f"{type(error).__name__}: {error}"
                    if text != self._said:
                        log.error("files cannot be watched", error=text)
                    self._said = text
            await asyncio.sleep(_LOOK_SECONDS)

    async def _look(self, each: _Watched) -> None:
        now = await asyncio.to_thread(each.look)
        if now != each.seen:
            each.seen = await self._settled(each, now)
            await each.changed()

    async def _settled(self, each: _Watched, last: Signature) -> Signature:
        for _ in range(_MOST_LOOKS):
            await asyncio.sleep(_SETTLE_SECONDS)
            now = await asyncio.to_thread(each.look)
            if now == last:
                break
            last = now
        return last
