"""Logs: events with fields, written through Python's standard logging.

All loggers are below ``mooring``. A program that imports Mooring sees nothing unless it configures logging, and then
gets ordinary records: ``str(record.msg)`` is the event followed by its fields. The command line installs a handler that
writes one line per event, in klog's text format or as JSON. Only a traceback takes several lines of text.

Hand-written because structured logging libraries have their own global configuration, which belongs to the program.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from time import gmtime, strftime, time_ns
from typing import TextIO

import msgspec

#: Level -> klog's letter.
_LETTERS = {logging.WARNING: "W", logging.ERROR: "E", logging.CRITICAL: "F"}
#: The verbosity from which debug events are logged.
_DEBUG_FROM = 4
#: Longer messages and values are cut off.
_MAX_TEXT = 8_192
#: Matches a value that needs no escapes in quotes.
_PLAIN = re.compile(r"[ !#-\[\]-~]{0,256}").fullmatch
#: The logger that all others are below.
_ROOT = logging.getLogger("mooring")
#: The logger of aiohttp's servers, which log a traceback for every malformed request. Mooring reports its own errors.
QUIET_SERVER = logging.getLogger("mooring.malformed_requests")
QUIET_SERVER.setLevel(logging.CRITICAL)
_verbosity = 0
_handler: _Handler | None = None
#: The second of the last timestamp and its text, because many lines share a second.
_second = (-1, "")
#: The number of this process, as lines contain it: to ask for it is a system call.
_process = ""


class Event:
    """The message of a record: what happened, and the fields that describe it."""

    __slots__ = ("fields", "text")

    def __init__(self, text: str, fields: Mapping[str, object]) -> None:
        self.text = text
        self.fields = fields

    def __str__(self) -> str:
        return self.text + _pairs(self.fields)


class Logger:
    """Logs events with fields: ``log.info("Preempted pod", victim=key)``."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, text: str, /, **fields: object) -> None:
        """Log a detail."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._log(logging.DEBUG, text, fields)

    def info(self, text: str, /, **fields: object) -> None:
        """Log a normal event."""
        if self._logger.isEnabledFor(logging.INFO):
            self._log(logging.INFO, text, fields)

    def warning(self, text: str, /, **fields: object) -> None:
        """Log an event that may need attention."""
        if self._logger.isEnabledFor(logging.WARNING):
            self._log(logging.WARNING, text, fields)

    def error(self, text: str, /, **fields: object) -> None:
        """Log an event that needs attention."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._log(logging.ERROR, text, fields)

    def exception(self, text: str, /, **fields: object) -> None:
        """Log an error with the traceback of the exception that is being handled."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._log(logging.ERROR, text, fields, with_traceback=True)

    def _log(self, level: int, text: str, fields: Mapping[str, object], *, with_traceback: bool = False) -> None:
        logger = self._logger
        # A LogRecord takes longer than the line, and no other handler would see it.
        direct = not with_traceback and _handler is not None and _is_only_handler(_handler, logger)
        if direct and _handler is not None and _handler.write(level, text, fields):
            return
        # Logger.log() takes half as long again, because it searches for the caller.
        caller = sys._getframe(2)
        code, error = caller.f_code, sys.exc_info() if with_traceback else None
        record = logger.makeRecord(
            logger.name, level, code.co_filename, caller.f_lineno, Event(text, fields), (), error, code.co_name
        )
        logger.handle(record)


def _note_process() -> None:
    global _process  # noqa: PLW0603 - a cache
    _process = f"{os.getpid():>7}"


_note_process()
os.register_at_fork(after_in_child=_note_process)


def get_logger(name: str) -> Logger:
    """Return a logger; the name is ``mooring`` or starts with ``mooring.``."""
    return Logger(name)


def configure_logs(verbosity: int, *, as_json: bool, stream: TextIO | None = None) -> Callable[[], None]:
    """Write the logs of this process to a stream, by default standard error. Return a function that undoes it.

    ``verbosity`` is kube-scheduler's ``-v``; 0 logs only warnings. Records of other loggers, such as those of plugins
    and libraries, are written from the level warning on.
    """
    level = logging.DEBUG if verbosity >= _DEBUG_FROM else logging.INFO if verbosity > 0 else logging.WARNING
    handler = _Handler(stream)
    handler.formatter = JsonFormatter() if as_json else KlogFormatter()
    before = _install(verbosity, level, handler)

    def undo() -> None:
        _install(*before)

    return undo


def reset_logs() -> None:
    """Remove what `configure_logs` installed."""
    _install(0, logging.NOTSET, None)


@contextlib.contextmanager
def lines_together() -> Iterator[None]:
    """Write the lines that are logged in a block together, at its end: every write is a system call."""
    handler = _handler
    if handler is None or not handler.collect():
        yield
        return
    try:
        yield
    finally:
        handler.write_collected()


def _install(verbosity: int, level: int, handler: _Handler | None) -> tuple[int, int, _Handler | None]:
    """Install a handler in place of the current one. Return the previous settings."""
    global _verbosity, _handler
    before = (_verbosity, _ROOT.level, _handler)
    _verbosity, _handler = verbosity, handler
    _ROOT.setLevel(level)
    if before[2] is not None:
        logging.getLogger().removeHandler(before[2])
    if handler is not None:
        logging.getLogger().addHandler(handler)
    return before


def _is_only_handler(handler: _Handler, logger: logging.Logger) -> bool:
    """Return whether a handler gets every record of a logger and no other handler or filter does."""
    found: logging.Logger | None = logger
    while found is not None:
        if found.filters or (not found.propagate and found.parent is not None):
            return False
        for each in found.handlers:
            if each is not handler and type(each) is not logging.NullHandler:  # the package installs a NullHandler
                return False
        if found.parent is None and handler not in found.handlers:
            return False
        found = found.parent
    return not handler.filters


def log_settings() -> dict[str, int | bool] | None:
    """Return the arguments of `configure_logs` for a child process to log alike; None if logs are not configured."""
    if _handler is None:
        return None
    return {"verbosity": _verbosity, "as_json": isinstance(_handler.formatter, JsonFormatter)}


def verbosity() -> int:
    """Return the current ``-v``, so that callers can skip expensive log events."""
    return _verbosity


class _Handler(logging.StreamHandler[TextIO]):
    """Writes to a stream; without one, to what standard error is at that time."""

    def __init__(self, stream: TextIO | None) -> None:
        super().__init__(stream)
        self._given = stream
        #: Lines that are written together; None if each is written at once.
        self._collected: list[str] | None = None

    def write(self, level: int, text: str, fields: Mapping[str, object]) -> bool:
        """Write an event as one line. Return False if that fails, so that the caller can report it with a record."""
        formatter = self.formatter
        assert isinstance(formatter, KlogFormatter | JsonFormatter)
        try:
            line = formatter.line(level, text, fields) + "\n"
            with self.lock or contextlib.nullcontext():
                if self._collected is not None:
                    self._collected.append(line)
                else:
                    self._put(line)
        except Exception:
            return False
        return True

    def collect(self) -> bool:
        """Collect lines until ``write_collected``. Return False if they are being collected."""
        with self.lock or contextlib.nullcontext():
            if self._collected is not None:
                return False
            self._collected = []
            return True

    def write_collected(self) -> None:
        """Write the collected lines, and collect no more."""
        with self.lock or contextlib.nullcontext():
            lines, self._collected = self._collected, None
            if not lines:
                return
            text = "".join(lines)
            try:
                self._put(text)
            except Exception:
                self.handleError(logging.makeLogRecord({"msg": text}))

    def _put(self, text: str) -> None:
        stream = sys.stderr if self._given is None else self._given
        stream.write(text)
        stream.flush()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as one line."""
        if self._collected:
            self.write_collected()  # in order
        if self._given is None:
            self.stream = sys.stderr
        super().emit(record)


class KlogFormatter(logging.Formatter):
    """``I1116 12:00:00.000000    4711] "Message" pod="default/web" node="n1"``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return self.line(record.levelno, *_content(self, record))

    @staticmethod
    def line(level: int, text: str, fields: Mapping[str, object]) -> str:
        """Return the line of an event."""
        return f"{_LETTERS.get(level, 'I')}{_stamp()} {_process}] {_message(text)}{_pairs(fields)}"


class JsonFormatter(logging.Formatter):
    """``{"ts":1794808155600.3,"level":"info","msg":"Message","pod":"default/web"}``, with Kubernetes' keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        return self.line(record.levelno, *_content(self, record))

    @staticmethod
    def line(level: int, text: str, fields: Mapping[str, object]) -> str:
        """Return the line of an event."""
        name = logging.getLevelName(level).lower()
        head: dict[str, object] = {"ts": time_ns() / 1e6, "level": name, "msg": _limited(text)}
        for key, value in fields.items():
            head["err" if key == "error" else key] = _limited(value) if isinstance(value, str) else value
        return msgspec.json.encode(head, enc_hook=str).decode()


def _content(formatter: logging.Formatter, record: logging.LogRecord) -> tuple[str, Mapping[str, object]]:
    """Return the message and the fields of a record; a traceback is a field."""
    event = record.msg
    text, fields = (event.text, event.fields) if isinstance(event, Event) else (record.getMessage(), {})
    if record.exc_info:
        fields = {**fields, "exception": formatter.formatException(record.exc_info)}
    return text, fields


def _limited(text: str) -> str:
    """Return a text that can be written: not too long, because users choose parts of it, and valid Unicode."""
    if len(text) > _MAX_TEXT:
        text = f"{text[:_MAX_TEXT]}... ({len(text)} characters)"
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


@functools.lru_cache(maxsize=256)
def _message(text: str) -> str:
    """Return the message of an event. Most are literals, so that there are few different ones."""
    return _quoted(_limited(text))


def _pairs(fields: Mapping[str, object]) -> str:
    text = ""
    for key, value in fields.items():
        if type(value) is int:
            text += f" {key}={value}"
        elif type(value) is str and _PLAIN(value):
            text += f' {key}="{value}"'
        else:
            text += f" {key}={_klog_value(key, value)}"
    return text


def _klog_value(key: str, value: object) -> str:
    if isinstance(value, str):
        value = _limited(value)
    return _quoted(value) if key != "traceback" else _block(value)


def _block(value: object) -> str:
    """Return a text of several lines as klog writes it."""
    return "<" + "".join(f"\n\t{line}" for line in str(value).splitlines()) + "\n >"


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
    if text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    if not text.isprintable():  # such as escape sequences of a terminal
        text = "".join([char if char.isprintable() else repr(char)[1:-1] for char in text])
    return f'"{text}"'
