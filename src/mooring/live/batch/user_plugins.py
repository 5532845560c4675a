"""Users' plugins and actions for batch sessions, as a catalog of loaded files has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from mooring.loading import ACTION, SESSION, Catalog, FoundPlugin


def session_plugins(catalog: Catalog) -> dict[str, type[Any]]:
    """The plugins by name. One that is alone in its file answers to the file's name too, as Volcano's do."""
    found = [each for each in catalog.found.values() if each.kind is SESSION]
    return {**_by_file(found), **{each.name: each.cls for each in found}}


def session_actions(catalog: Catalog) -> dict[str, Callable[[Any], Any]]:
    """The actions by name; a new object is made for every session."""
    return {name: _action(cls) for name, cls in catalog.classes(ACTION).items()}


def _by_file(found: Iterable[FoundPlugin]) -> dict[str, type[Any]]:
    files: dict[str, list[type[Any]]] = {}
    for each in found:
        if each.path is not None:
            files.setdefault(each.path.stem, []).append(each.cls)
    # A name that is built in is taken only by one who says so, which is said of a plugin's own name.
    return {stem: alone[0] for stem, alone in files.items() if len(alone) == 1 and stem not in SESSION.builtin}


def _action(cls: type[Any]) -> Callable[[Any], Any]:
    def execute(session: Any) -> Any:
        return cls().execute(session)

    return execute
