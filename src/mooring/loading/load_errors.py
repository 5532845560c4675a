"""What is wrong with a plugin, told so that its author can put it right."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong with a plugin: where, what, and what to do."""

    #: The file or folder; "" where there is none.
    path: str
    #: Counted from 1; 0 where it is not known.
    line: int
    message: str

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        return f"{place}: {self.message}" if place else self.message


class PluginLoadError(ValueError):
    """Plugins that cannot be used; each line of the message names the file, the line where known, and the remedy."""

    def __init__(self, faults: Iterable[Fault] | str) -> None:
        self.faults = (Fault("", 0, faults),) if isinstance(faults, str) else tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


def refuse(path: object, message: str, line: int = 0) -> PluginLoadError:
    """An error about one file."""
    return PluginLoadError([Fault(str(path), line, message)])
