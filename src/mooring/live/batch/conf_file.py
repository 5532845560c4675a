"""The file with a session's configuration, read again when it changes; a bad one is told of and left aside."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import structlog

from mooring.batch.conf import DEFAULT_CONF, BatchConf, read_conf
from mooring.config.errors import ConfigError, FieldError

log = structlog.get_logger("mooring.batch")


class ConfFile:
    """A volcano-scheduler.conf on disk, or Volcano's default where there is no file."""

    def __init__(self, path: Path | None, *, actions: Collection[str], plugins: Collection[str]) -> None:
        """Read the file. Raises ConfigError: there is no configuration to fall back to yet."""
        self._path = path
        self._actions = actions
        self._plugins = plugins
        self.current: BatchConf = self._read()

    def paths(self) -> list[Path]:
        """The file, if there is one."""
        return [] if self._path is None else [self._path]

    def reread(self, *, actions: Collection[str] | None = None, plugins: Collection[str] | None = None) -> bool:
        """Read the file again, because it changed or there are other plugins; whether it is in force now."""
        self._actions = self._actions if actions is None else actions
        self._plugins = self._plugins if plugins is None else plugins
        try:
            self.current = self._read()
        except ConfigError as error:
            for line in error.lines():
                log.error("the configuration is not used, the last good one stays", problem=line)
            return False
        log.info("the configuration changed", actions=list(self.current.actions))
        return True

    def _read(self) -> BatchConf:
        source = "" if self._path is None else str(self._path)
        try:
            text = DEFAULT_CONF if self._path is None else self._path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeError) as error:
            told = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise ConfigError([FieldError("", f"cannot be read: {told}")], stage="decode", source=source) from None
        conf = read_conf(text, source=source, actions=self._actions, plugins=self._plugins)
        for warning in conf.warnings:
            log.warning(warning)
        return conf
