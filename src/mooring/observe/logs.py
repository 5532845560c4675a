"""Logs: one line an event, as klog writes them for people or as JSON for programs."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import MutableMapping
from datetime import UTC, datetime
from typing import Any, TextIO

import structlog
from structlog.typing import Processor

#: klog's letters.
_LETTERS = {"debug": "I", "info": "I", "warning": "W", "error": "E", "critical": "F", "exception": "E"}
#: From this verbosity on, what is only of interest to developers is logged too.
_DEBUG_FROM = 4
_verbosity = 0


def configure_logs(verbosity: int, *, as_json: bool, stream: TextIO | None = None) -> None:
    """Set up logging for the process. ``verbosity`` is kube-scheduler's ``-v``; 0 leaves only warnings."""
    global _verbosity  # noqa: PLW0603 - structlog's configuration is one for the process too
    _verbosity = verbosity
    level = logging.DEBUG if verbosity >= _DEBUG_FROM else logging.INFO if verbosity > 0 else logging.WARNING
    processors: list[Processor] = [structlog.processors.add_log_level, structlog.processors.format_exc_info]
    if as_json:
        processors += [structlog.processors.TimeStamper(fmt="iso", key="ts"), structlog.processors.JSONRenderer()]
    else:
        processors += [render_klog]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream or sys.stderr),
        cache_logger_on_first_use=True,
    )


def verbosity() -> int:
    """The ``-v`` in force; what costs something to tell is told only where somebody wants to hear it."""
    return _verbosity


def render_klog(_logger: object, method: str, event: MutableMapping[str, Any]) -> str:
    """``I1116 12:00:00.000000    4711] "Message" pod="default/web" node="n1"``."""
    level = str(event.pop("level", method))
    message = event.pop("event", "")
    now = datetime.now(UTC)
    head = f"{_LETTERS.get(level, 'I')}{now:%m%d %H:%M:%S.%f} {os.getpid():>7}]"
    pairs = "".join(f" {key}={_quoted(value)}" for key, value in event.items())
    return f'{head} "{message}"{pairs}'


def _quoted(value: object) -> str:
    if isinstance(value, (int, float)):
        return str(value)
    text = str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
