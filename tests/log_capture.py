"""Captures log events, as dictionaries of their fields."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from mooring.logs import Event


class _Capture(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[dict[str, Any]] = []

    def emit(self, record: logging.LogRecord) -> None:
        event = record.msg if isinstance(record.msg, Event) else Event(record.getMessage(), {})
        self.lines.append({"event": event.text, "log_level": record.levelname.lower(), **event.fields})


@contextlib.contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    """Return a list that receives every event of any level, with ``event``, ``log_level`` and the fields."""
    logger, handler = logging.getLogger("mooring"), _Capture()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
