"""Plugins in files, packages and folders: import, find the classes, check them as a compiler would."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from mooring.framework.plugin import Plugin
from mooring.loading.load_errors import PluginLoadError, refuse
from mooring.loading.module_importer import import_snapshot, unload
from mooring.loading.plugin_kinds import KINDS, Kind, plugin_name
from mooring.loading.requirements import check_requirements
from mooring.loading.snapshot import Snapshot, check_pin, check_writers, read_snapshot
from mooring.loading.static_checks import check_class, check_strays


class FoundPlugin(msgspec.Struct, frozen=True):
    """A plugin class that was found, and where."""

    name: str
    cls: type[Any]
    kind: Kind
    #: Where it came from, as people wrote it: ``--plugin``, ``--plugins-dir plugins``, ``entry point of PACKAGE``.
    source: str
    #: The file or package; None for what is installed.
    path: Path | None = None
    sha256: str = ""
    version: str = ""


def parse_plugin_option(option: str) -> tuple[str, Path]:
    """Split ``NAME=FILE`` as given on the command line."""
    name, separator, path = option.partition("=")
    if not separator or not name or not path:
        raise PluginLoadError(
            f"{option!r} is not NAME=FILE; write for example --plugin NodeNumber=plugins/nodenumber.py"
        )
    return name, Path(path)


def load_plugin(name: str, path: Path) -> type[Plugin]:
    """The plugin for pods of that name in a file or package, checked. Raises PluginLoadError."""
    found = pick(name, path, load_file(path, "load_plugin"))
    if found.kind.name != "pod":
        raise refuse(path, f"{name} is a plugin for batch sessions, not for pods")
    cls: type[Plugin] = found.cls
    return cls


def load_session_plugin(name: str, path: Path) -> type[Any]:
    """The plugin for batch sessions of that name in a file or package, checked. Raises PluginLoadError."""
    found = pick(name, path, load_file(path, "load_session_plugin"))
    if found.kind.name != "session":
        raise refuse(path, f"{name} is no plugin for batch sessions")
    cls: type[Any] = found.cls
    return cls


def load_file(
    path: Path, source: str, *, pin: str = "", allow_writable: bool = True, known: Sequence[FoundPlugin] = ()
) -> list[FoundPlugin]:
    """All plugins of a file or package, imported and checked. Raises PluginLoadError with all that is wrong.

    ``known`` are its plugins as they were loaded before; if nothing has changed since, it is they.
    """
    if not allow_writable:
        check_writers(path)
    snapshot = read_snapshot(path)
    check_pin(snapshot, pin)
    if known and all(each.sha256 == snapshot.sha256 for each in known):
        return list(known)
    check_requirements(path)
    module = import_snapshot(snapshot)
    found = list(_plugins(module, snapshot, source))
    faults = [fault for each in found for fault in check_class(each.cls, each.kind)]
    faults += check_strays(module)
    if faults or not found:
        unload(module.__name__)
    if faults:
        raise PluginLoadError(dict.fromkeys(faults))
    return found


def pick(name: str, path: Path, found: list[FoundPlugin]) -> FoundPlugin:
    """The plugin of a name among those of a file."""
    for each in found:
        if each.name == name:
            return each
    known = ", ".join(sorted(each.name for each in found)) or "no plugin at all"
    raise refuse(path, f"defines no plugin {name} (it defines {known}); derive a class from Plugin")


def in_folder(folder: Path) -> list[Path]:
    """The plugin files and packages of a folder: what is no test and does not begin with a dot or an underscore."""
    if not folder.is_dir():
        raise refuse(folder, "no such folder" if not folder.exists() else "is not a folder; use --plugin NAME=FILE")
    try:
        entries = sorted(folder.iterdir(), key=lambda each: each.name)
    except OSError as error:
        raise refuse(folder, error.strerror or str(error)) from None
    return [entry for entry in entries if _is_plugin_file(entry)]


def _is_plugin_file(entry: Path) -> bool:
    name = entry.name
    if name.startswith((".", "_", "test_")) or name.endswith("_test.py") or name == "conftest.py":
        return False
    return (entry / "__init__.py").is_file() if entry.is_dir() else entry.suffix == ".py"


def kind_of(cls: type) -> Kind | None:
    """The kind of plugin that a class is; None if it is none."""
    return next((kind for kind in KINDS if kind.claims(cls)), None)


def _plugins(module: ModuleType, snapshot: Snapshot, source: str) -> Iterator[FoundPlugin]:
    """The plugins that a module defines or, in a package, brings in from its own modules."""
    version = getattr(module, "__version__", "")
    for cls in list(vars(module).values()):
        own = isinstance(cls, type) and f"{cls.__module__}.".startswith(f"{module.__name__}.")
        kind = kind_of(cls) if own and not inspect.isabstract(cls) else None
        if kind is None or cls.__name__.startswith("_"):
            continue
        told = str(getattr(cls, "version", "") or version)
        yield FoundPlugin(plugin_name(cls), cls, kind, source, snapshot.path, snapshot.sha256, told)
