"""Loading of plugins from files, packages and folders: imports them, and finds and checks the plugin classes."""

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
from mooring.loading.snapshot import Snapshot, check_pin, data_sha256, read_snapshot, watched_files
from mooring.loading.static_checks import check_class, check_strays
from mooring.loading.trusted_paths import distrust


class FoundPlugin(msgspec.Struct, frozen=True):
    """A plugin class and its source."""

    name: str
    cls: type[Any]
    kind: Kind
    #: The source, as the user wrote it: ``--plugin``, ``--plugins-dir plugins``, ``entry point NAME of PACKAGE``.
    source: str
    #: The file or package; None for an installed plugin.
    path: Path | None = None
    sha256: str = ""
    version: str = ""
    #: The SHA-256 of the files in ``watch_files``.
    data_sha256: str = ""


def parse_plugin_option(option: str) -> tuple[str, Path]:
    """Split the value ``NAME=FILE`` of ``--plugin``. Raises PluginLoadError."""
    name, separator, path = option.partition("=")
    if not separator or not name or not path:
        raise PluginLoadError(
            f"{option!r} is not NAME=FILE; write for example --plugin NodeNumber=plugins/nodenumber.py"
        )
    return name, Path(path)


def load_plugin(name: str, path: Path) -> type[Plugin]:
    """Load a pod plugin by name from a file or package. Raises PluginLoadError."""
    found = pick(name, path, load_file(path, "load_plugin"))
    if found.kind.name != "pod":
        raise refuse(path, f"{name} is a plugin for batch sessions, not for pods")
    cls: type[Plugin] = found.cls
    return cls


def load_session_plugin(name: str, path: Path) -> type[Any]:
    """Load a session plugin by name from a file or package. Raises PluginLoadError."""
    found = pick(name, path, load_file(path, "load_session_plugin"))
    if found.kind.name != "session":
        raise refuse(path, f"{name} is not a plugin for batch sessions")
    cls: type[Any] = found.cls
    return cls


def load_file(
    path: Path, source: str, *, pin: str = "", allow_writable: bool = True, known: Sequence[FoundPlugin] = ()
) -> list[FoundPlugin]:
    """Load and check all plugins of a file or package. Raises PluginLoadError with all errors.

    Unless ``allow_writable`` is set, other users must not be able to change the files or the data files. ``known`` are
    the plugins of an earlier load; they are returned if the files have not changed.
    """
    snapshot = read_snapshot(path, allow_writable=allow_writable)
    check_pin(snapshot, pin)
    if known and all(
        each.sha256 == snapshot.sha256 and each.data_sha256 == data_sha256(each.cls, path) for each in known
    ):
        if not allow_writable:
            _check_data(known, path)
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
    if not allow_writable:
        try:
            _check_data(found, path)
        except PluginLoadError:
            unload(module.__name__)
            raise
    return found


def _check_data(found: Sequence[FoundPlugin], path: Path) -> None:
    """Reject data files that other users can change. Raises PluginLoadError."""
    faults = [fault for each in found for file in watched_files(each.cls, path) for fault in distrust(file)]
    if faults:
        raise PluginLoadError(dict.fromkeys(faults))


def pick(name: str, path: Path, found: list[FoundPlugin]) -> FoundPlugin:
    """Return the plugin with a name from those of a file. Raises PluginLoadError."""
    for each in found:
        if each.name == name:
            return each
    others = ", ".join(sorted(each.name for each in found)) or "no plugin at all"
    raise refuse(path, f"defines no plugin {name} (it defines {others}); derive a class from Plugin")


def in_folder(folder: Path, *, allow_writable: bool = True) -> list[Path]:
    """Return the plugin files and packages of a folder, without tests and names that begin with a dot or underscore.

    Raises PluginLoadError if the folder cannot be read or, unless ``allow_writable`` is set, if others can write it.
    """
    faults = [] if allow_writable else distrust(folder)
    if faults:
        raise PluginLoadError(faults)
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
    """Return the kind of a plugin class; None if the class is not a plugin."""
    return next((kind for kind in KINDS if kind.claims(cls)), None)


def _plugins(module: ModuleType, snapshot: Snapshot, source: str) -> Iterator[FoundPlugin]:
    """Yield the plugins that a module defines or, in a package, imports from its own modules."""
    module_version = getattr(module, "__version__", "")
    for cls in list(vars(module).values()):
        own = isinstance(cls, type) and f"{cls.__module__}.".startswith(f"{module.__name__}.")
        kind = kind_of(cls) if own and not inspect.isabstract(cls) else None
        if kind is None or cls.__name__.startswith("_"):
            continue
        version = str(getattr(cls, "version", "") or module_version)
        data = data_sha256(cls, snapshot.path)
        yield FoundPlugin(plugin_name(cls), cls, kind, source, snapshot.path, snapshot.sha256, version, data)
