"""Raises the thresholds of the garbage collector while many objects are decoded.

The default thresholds double the time of reading a list, and the collections free nothing.
"""

import gc
from types import TracebackType
from typing import Final

_EASED: Final = (100_000, 50, 100)


class CollectorRelief:
    """A reentrant context manager that raises the thresholds of the garbage collector."""

    def __init__(self) -> None:
        self._inside = 0
        self._before = gc.get_threshold()

    def __enter__(self) -> None:
        if self._inside == 0:
            self._before = gc.get_threshold()
            gc.set_threshold(*_EASED)
        self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside -= 1
        if self._inside == 0:
            gc.set_threshold(*self._before)
