"""Reports of unexpected exceptions, by code that catches them in order to keep running.

One object, one plugin or one request must not stop a scheduler. Its loops therefore catch every exception, report it
here, and continue with the next item. A failure that repeats is logged again only at growing intervals, with a count,
so that it cannot flood the log.
"""

import time
import traceback
from collections.abc import Callable
from typing import Any, Final

from mooring.logs import get_logger

#: The first interval between two reports of the same failure, in seconds, and the longest.
_FIRST_SECONDS: Final = 60.0
_LAST_SECONDS: Final = 3600.0
#: How many failures are remembered. Afterwards the oldest is forgotten, and is reported again if it repeats.
_REMEMBERED: Final = 1024
#: Error messages contain texts that users chose, so they are cut off here.
_MAX_TEXT: Final = 300
_FRAMES: Final = 8

log: Final = get_logger("mooring.unexpected")


class _Seen:
    """How often a failure occurred, and when it is reported again."""

    __slots__ = ("count", "due", "interval")

    def __init__(self, now: float) -> None:
        self.count = 0
        self.interval = _FIRST_SECONDS
        self.due = now


class UnexpectedErrors:
    """Logs failures. Two failures are the same if they were caught at one place and raised at one line."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[tuple[str, str, str, int], _Seen] = {}

    def report(self, what: str, error: BaseException, **fields: Any) -> None:
        """Log what failed, why, and (the first time) where. `fields` name the object."""
        key = (what, type(error).__name__, *_raised_at(error))
        now = self._clock()
        seen = self._seen.pop(key, None)
        if seen is None:
            seen = _Seen(now)
            if len(self._seen) >= _REMEMBERED:
                del self._seen[next(iter(self._seen))]
        self._seen[key] = seen
        seen.count += 1
        if now < seen.due:
            return
        seen.due = now + seen.interval
        seen.interval = min(2 * seen.interval, _LAST_SECONDS)
        named = {name: shortened(str(value)) for name, value in fields.items()}
        if seen.count == 1:
            where = "".join(traceback.format_tb(error.__traceback__)[-_FRAMES:])
            log.error(what, **named, error=error_text(error), traceback=where)
        else:
            log.error(what, **named, error=error_text(error), times=seen.count)


def error_text(error: BaseException) -> str:
    """Return an exception as one line of limited length."""
    return shortened(f"{type(error).__name__}: {error}")


def shortened(text: str, limit: int = _MAX_TEXT) -> str:
    """Return a text, cut off if it is long."""
    return text if len(text) <= limit else f"{text[:limit]}..."


def _raised_at(error: BaseException) -> tuple[str, int]:
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    return ("", 0) if last is None else (last.tb_frame.f_code.co_filename, last.tb_lineno)


_reports: Final = UnexpectedErrors()
#: Reports a failure for the whole process.
report_unexpected: Final = _reports.report
