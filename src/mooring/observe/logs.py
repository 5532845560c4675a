"""Logs: one line per event, in klog's text format or as JSON."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, MutableMapping
from time import gmtime, strftime, time_ns
from typing import Any, TextIO

import msgspec
import structlog
from structlog.typing import Processor

#: Level -> klog's letter.
_LETTERS = {"debug": "I", "info": "I", "warning": "W", "error": "E", "critical": "F", "exception": "E"}
#: The verbosity from which debug events are logged.
_DEBUG_FROM = 4
_verbosity = 0
#: The second of the last timestamp and its text, because many lines share a second.
_second = (-1, "")


def configure_logs(verbosity: int, *, as_json: bool, stream: TextIO | None = None) -> None:
    """Configure logging for the process. ``verbosity`` is kube-scheduler's ``-v``; 0 logs only warnings."""
    global _verbosity  # noqa: PLW0603 - structlog's configuration is global too
    _verbosity = verbosity
    level = logging.DEBUG if verbosity >= _DEBUG_FROM else logging.INFO if verbosity > 0 else logging.WARNING
    processors: list[Processor] = [structlog.processors.add_log_level, structlog.processors.format_exc_info]
    processors.append(render_json if as_json else render_klog)
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(stream or sys.stderr),
        cache_logger_on_first_use=True,
    )


def warn_only() -> Callable[[], None]:
    """Log only warnings, to standard error. Return a function that restores the previous configuration."""
    before = structlog.get_config()
    structlog.configure(
        processors=[structlog.processors.add_log_level, render_klog],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
        cache_logger_on_first_use=False,
    )
    return lambda: structlog.configure(**before)


def verbosity() -> int:
    """Return the current ``-v``, so that callers can skip expensive log events."""
    return _verbosity


def render_klog(_logger: object, method: str, event: MutableMapping[str, Any]) -> str:
    """``I1116 12:00:00.000000    4711] "Message" pod="default/web" node="n1"``."""
    level = str(event.pop("level", method))
    message = _quoted(event.pop("event", ""))
    pairs = "".join([f" {key}={_quoted(value)}" for key, value in event.items()])
    return f"{_LETTERS.get(level, 'I')}{_stamp()} {os.getpid():>7}] {message}{pairs}"


def render_json(_logger: object, method: str, event: MutableMapping[str, Any]) -> str:
    """``{"ts":1794808155600.3,"level":"info","msg":"Message","pod":"default/web"}``, with Kubernetes' keys."""
    head = {"ts": time_ns() / 1e6, "level": event.pop("level", method), "msg": event.pop("event", "")}
    if "error" in event:
        head["err"] = event.pop("error")
    return msgspec.json.encode({**head, **event}, enc_hook=str).decode()


def _stamp() -> str:
    global _second  # noqa: PLW0603 - a cache
    seconds, nanos = divmod(time_ns(), 1_000_000_000)
    if _second[0] != seconds:
        _second = (seconds, strftime("%m%d %H:%M:%S", gmtime(seconds)))
    return f"{_second[1]}.{nanos // 1000:06d}"


def _quoted(value: object) -> str:
    if isinstance(value, (int, float)):
        return str(value)
    text = str(value)
    if not text.isprintable() or '"' in text or "\\" in text:
        text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{text}"'
