"""Progress of something that takes long, on standard error."""

from __future__ import annotations

import sys
import time
from typing import Final, TextIO

#: Seconds before the first word: on a screen, in a pipe; and from one to the next.
_QUIET: Final = {True: 1.0, False: 10.0}
_PAUSE: Final = {True: 0.1, False: 10.0}
#: Calls between two looks at the clock.
_STRIDE: Final = 32


class Progress:
    """Tells how many of how many are done. Use it as a context manager, and call it as often as you like."""

    def __init__(self, what: str, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = stream if stream is not None else sys.stderr
        self._screen = self._stream.isatty()
        self._next = time.monotonic() + _QUIET[self._screen]
        self._calls = 0
        self._written = False

    def __call__(self, done: int, total: int) -> None:
        """Take note, and say so if it is time."""
        self._calls += 1
        if self._calls % _STRIDE:
            return
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PAUSE[self._screen]
            self._say(f"{self._what} {done:,} of {total:,}")

    def _say(self, text: str) -> None:
        self._written = True
        self._stream.write(f"\r{text} " if self._screen else f"{text}\n")
        self._stream.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._written and self._screen:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
