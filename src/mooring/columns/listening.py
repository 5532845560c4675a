"""Who listens on whose behalf: what a plugin registers while it is made is forgotten when it is replaced."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_collecting: ContextVar[tuple[list[object], ...]] = ContextVar("listeners", default=())


@contextmanager
def listeners_made() -> Iterator[list[object]]:
    """All that is registered as a listener of pods or objects meanwhile."""
    made: list[object] = []
    token = _collecting.set((*_collecting.get(), made))
    try:
        yield made
    finally:
        _collecting.reset(token)


def note_listener(listener: object) -> None:
    """Somebody wants to be told of changes."""
    for made in _collecting.get():
        made.append(listener)
