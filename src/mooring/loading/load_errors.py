"""Errors of plugins, with the file, the line and the remedy."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Fault(msgspec.Struct, frozen=True):
    """One error of a plugin: its location, the problem and the remedy."""

    #: The file or folder; "" if there is none.
    path: str
    #: The line, starting at 1; 0 if unknown.
    line: int
    message: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.message}" if place else self.message


class PluginLoadError(ValueError):
    """An error while loading plugins. Each line of the message has the file, the line if known, and the remedy."""

    def __init__(self, faults: Iterable[Fault] | str) -> None:
        self.faults = (Fault("", 0, faults),) if isinstance(faults, str) else tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


def refuse(path: object, message: str, line: int = 0) -> PluginLoadError:
    """Return an error about one file."""
    return PluginLoadError([Fault(str(path), line, message)])
