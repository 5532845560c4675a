"""The catalog of plugins, and the search that finds and loads them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.config import FieldError, PluginSpec
from mooring.config.config_errors import nearest
from mooring.framework.plugin import Plugin
from mooring.framework.plugin_args import ArgsError, args_struct, decode_args
from mooring.framework.plugin_errors import contain, describe
from mooring.framework.plugin_frames import add_plugin_package
from mooring.framework.points import points_of
from mooring.loading.load_errors import Fault, PluginLoadError, refuse
from mooring.loading.module_importer import root_of, unload
from mooring.loading.plugin_files import FoundPlugin, in_folder, kind_of, load_file, pick
from mooring.loading.plugin_kinds import POD, Kind, plugin_name
from mooring.loading.plugin_options import DEFAULT, PluginOptions
from mooring.loading.plugin_sources import NO_SOURCES, PluginEntry, PluginSources
from mooring.loading.snapshot import watched_files
from mooring.loading.static_checks import check_class
from mooring.loading.trusted_paths import distrust
from mooring.loading.wasm.guest_config import ConfiguredGuest

#: The entry point group of plugins in installed packages.
GROUP: Final = "mooring.plugins"
_UNKNOWN: Final = re.compile(r"unknown field `(.+?)`")


class Requested(msgspec.Struct, frozen=True):
    """The plugins that the command line, or a program that embeds Mooring, names."""

    #: Plugin name, and its file or package.
    plugins: tuple[tuple[str, Path], ...] = ()
    directories: tuple[Path, ...] = ()
    #: Whether to accept files that other users can change or replace.
    allow_writable: bool = False
    #: Plugin name and class, passed by a program.
    classes: tuple[tuple[str, type[Any]], ...] = ()
    #: Files and packages of which all plugins are loaded.
    files: tuple[Path, ...] = ()


#: The request of a command line without plugins.
NOTHING: Final = Requested()


class Catalog:
    """All found plugins by name."""

    def __init__(
        self,
        found: Iterable[FoundPlugin] = (),
        sources: PluginSources = NO_SOURCES,
        files: Mapping[Path, Sequence[FoundPlugin]] | None = None,
    ) -> None:
        self.found = {each.name: each for each in found}
        #: All plugins that were loaded from files, requested or not, by path.
        self.files: Mapping[Path, Sequence[FoundPlugin]] = files if files is not None else {}
        self._entries = {entry.name: entry for entry in sources.plugins}

    def classes(self, kind: Kind = POD) -> dict[str, type[Any]]:
        """Return the plugin classes of one kind."""
        return {name: each.cls for name, each in self.found.items() if each.kind is kind}

    def specs(self) -> dict[str, PluginSpec]:
        """Return the specs of the pod plugins, for checking a configuration."""
        specs = {}
        for name, cls in self.classes().items():
            entry = self._entries.get(name)
            spec = plugin_spec(cls)
            specs[name] = msgspec.structs.replace(spec, replaces_builtin=entry is not None and entry.replace_builtin)
        return specs

    def options(self) -> dict[str, PluginOptions]:
        """Return the options of each plugin that the configuration lists."""
        return {name: entry.options() for name, entry in self._entries.items()}

    def modules(self) -> frozenset[str]:
        """Return the top modules of plugins from files."""
        return frozenset(root_of(each.cls.__module__) for found in self.files.values() for each in found)

    def data_files(self) -> list[Path]:
        """Return the files that the plugins declare in ``watch_files``."""
        declared = (
            each for path, found in self.files.items() for cls in found for each in watched_files(cls.cls, path)
        )
        return list(dict.fromkeys(declared))

    def unload(self, keep: Catalog | None = None) -> frozenset[str]:
        """Unload the modules of plugins from files, except those of another catalog. Return the unloaded modules."""
        gone = self.modules() - (keep.modules() if keep is not None else frozenset())
        for module in gone:
            unload(module)
        return gone


def find_plugins(
    requested: Requested = NOTHING,
    sources: PluginSources = NO_SOURCES,
    *,
    base: Path | None = None,
    file: Path | None = None,
    wanted: frozenset[str] = frozenset(),
    guests: Iterable[ConfiguredGuest] = (),
    known: Catalog | None = None,
) -> Catalog:
    """Load every plugin that the command line and the PluginSources document name.

    ``base`` is the folder of relative paths in the document. ``file`` holds the document, if it was read from a file;
    because it names code to run, other users must not be able to change it. Of installed plugins, only those in
    ``wanted`` are imported. ``guests`` are the WebAssembly plugins. Unchanged plugins of a ``known`` catalog are not
    loaded again. Raises PluginLoadError with all errors.
    """
    if file is not None and sources is not NO_SOURCES and not requested.allow_writable:
        faults = distrust(file)
        if faults:
            raise PluginLoadError(faults)
    search = _Search(requested, sources, base or Path(), known or Catalog())
    for name, cls in requested.classes:
        search.given(name, cls)
    for name, path in requested.plugins:
        search.named(name, path, "--plugin")
    for path in requested.files:
        search.file(path, str(path))
    for entry in sources.plugins:
        if entry.path:
            search.named(entry.name, search.base / entry.path, "PluginSources")
    for folder in requested.directories:
        search.folder(folder, f"--plugins-dir {folder}")
    for written in sources.directories:
        search.folder(search.base / written, f"PluginSources directory {written}")
    if sources.entry_points:
        search.installed(wanted)
    for guest in guests:
        search.guest(guest)
    return search.finish()


class _Search:
    """One search for plugins, with its results and errors."""

    def __init__(self, requested: Requested, sources: PluginSources, base: Path, known: Catalog) -> None:
        self.base = base
        self._known = known
        self._sources = sources
        self._entries = {entry.name: entry for entry in sources.plugins}
        #: Pins are collected first, because a file that does not match its pin must not run.
        self._pins = {(base / entry.path).resolve(): entry.sha256 for entry in sources.plugins if entry.path}
        self._allow_writable = requested.allow_writable or sources.allow_writable
        self._files: dict[Path, list[FoundPlugin]] = {}
        self._found: dict[str, FoundPlugin] = {}
        self._faults: list[Fault] = []

    def given(self, name: str, cls: type[Any]) -> None:
        """Add a class that a program passed."""
        kind = kind_of(cls)
        if kind is None:
            self._faults.append(Fault("", 0, f"{name}: {cls!r} is not a plugin; derive a class from Plugin"))
            return
        found = FoundPlugin(plugin_name(cls), cls, kind, "plugins")
        if found.name != name:
            self._faults.append(Fault("", 0, f"{name}: the name of the class is {found.name}; use that name"))
        self._faults += check_class(cls, kind)
        add_plugin_package(cls.__module__)
        self._put(found)

    def named(self, name: str, path: Path, source: str) -> None:
        """Add one plugin of a file."""
        try:
            self._put(pick(name, path, self._load(path, source)))
        except PluginLoadError as error:
            self._faults += error.faults

    def folder(self, folder: Path, source: str) -> None:
        """Add all plugins of a folder."""
        try:
            paths = in_folder(folder, allow_writable=self._allow_writable)
        except PluginLoadError as error:
            self._faults += error.faults
            return
        for path in paths:
            self.file(path, source)

    def file(self, path: Path, source: str) -> None:
        """Add all plugins of a file or package."""
        try:
            for each in self._load(path, source):
                self._put(each)
        except PluginLoadError as error:
            self._faults += error.faults

    def installed(self, wanted: frozenset[str]) -> None:
        """Add plugins of installed packages."""
        if not wanted:
            return  # to look into all packages takes long
        import importlib.metadata

        for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda each: each.name):
            if entry.name not in wanted:
                continue
            package = entry.dist.name if entry.dist is not None else entry.value
            place = f"entry point {entry.name} of {package}"
            try:
                cls = entry.load()
            except BaseException as error:
                contain(error)
                self._faults.append(Fault("", 0, f"{place}: {describe(error)}"))
                continue
            kind = kind_of(cls) if isinstance(cls, type) else None
            if kind is None or plugin_name(cls) != entry.name:
                text = (
                    f"{place}: {entry.value} is not a plugin named {entry.name}; report this to the package's authors"
                )
                self._faults.append(Fault("", 0, text))
                continue
            found = FoundPlugin(
                entry.name, cls, kind, place, version=entry.dist.version if entry.dist is not None else ""
            )
            self._faults += check_class(cls, kind)
            add_plugin_package(cls.__module__)
            self._put(found)

    def guest(self, guest: ConfiguredGuest) -> None:
        """Add a WebAssembly guest, unless another plugin has its name."""
        if guest.name in self._found:
            return
        from mooring.loading.wasm import guest_plugin

        try:
            cls = guest_plugin(guest.name, guest.args)
        except PluginLoadError as error:
            self._faults += [guest.fault(fault.message) for fault in error.faults]
            return
        found = FoundPlugin(guest.name, cls, POD, f"guestURL {guest.url}", sha256=cls.sha256)
        known = self._known.found.get(guest.name)
        same = known is not None and (known.source, known.sha256) == (found.source, found.sha256)
        self._put(known if known is not None and same else found)

    def finish(self) -> Catalog:
        """Return the catalog. Raises PluginLoadError with all errors."""
        self._faults += self._shadowing()
        self._faults += self._missing()
        if not self._faults:
            self._isolate()
        files = {found[0].path: found for found in self._files.values() if found and found[0].path is not None}
        catalog = Catalog(self._found.values(), self._sources, files)
        if self._faults:
            catalog.unload(keep=self._known)
            raise PluginLoadError(dict.fromkeys(self._faults))
        return catalog

    def _isolate(self) -> None:
        """Start the processes of isolated plugins. Processes of unchanged plugins are reused."""
        for name, found in self._found.items():
            entry = self._entries.get(name)
            options = entry.options() if entry is not None else DEFAULT
            if options.isolation == "none" or found.kind is not POD:
                continue
            from mooring.loading.isolation import isolated

            known = self._known.found.get(name)
            settings = (found.cls, options.timeout, options.memory_limit)
            if known is not None and getattr(known.cls, "settings", None) == settings:
                self._found[name] = known
                continue
            try:
                cls = isolated(found, seconds=options.timeout, memory=options.memory_limit)
            except PluginLoadError as error:
                self._faults += error.faults
            else:
                self._found[name] = msgspec.structs.replace(found, cls=cls)

    def _load(self, path: Path, source: str) -> list[FoundPlugin]:
        key = path.resolve()
        if key not in self._files:
            pin, known = self._pins.get(key, ""), self._known.files.get(path, ())
            self._files[key] = load_file(path, source, pin=pin, allow_writable=self._allow_writable, known=known)
        return self._files[key]

    def _put(self, found: FoundPlugin) -> None:
        known = self._found.setdefault(found.name, found)
        if known.cls is not found.cls:
            first, second = (str(each.path or each.source) for each in (known, found))
            text = f"a plugin {found.name} is also in {first}; remove one, or give one another name with `name = ...`"
            raise refuse(second, text)

    def _shadowing(self) -> Iterator[Fault]:
        for name, found in self._found.items():
            entry = self._entries.get(name, PluginEntry(name=name))
            if name in found.kind.builtin and not entry.replace_builtin:
                text = (
                    f"a plugin {name} is built in; rename yours, or replace the built-in one in the configuration "
                    f"(kind: PluginSources, plugins: [{{name: {name}, replaceBuiltin: true}}])"
                )
                yield Fault(str(found.path or found.source), 0, text)

    def _missing(self) -> Iterator[Fault]:
        for name, entry in self._entries.items():
            if name not in self._found and not entry.path and name not in POD.builtin:
                close = nearest(name, self._found)
                hint = f'did you mean "{close}"?' if close else "give its path, or add its folder to directories"
                yield Fault("PluginSources", 0, f"plugins: there is no plugin {name}; {hint}")


def plugin_spec(cls: type[Plugin]) -> PluginSpec:
    """Return the spec of a plugin class, for checking a configuration."""
    return PluginSpec(cls.name, points_of(cls), None if cls.Args is None else _checker(cls))


def _checker(cls: type[Plugin]) -> Callable[[object], list[FieldError]]:
    def check(args: object) -> list[FieldError]:
        try:
            decode_args(cls, args)
        except ArgsError as error:
            return [FieldError(error.path, error.reason, remedy=args_remedy(cls, error.reason))]
        return []

    return check


def args_remedy(cls: type[Any], reason: str) -> str | None:
    """Return the closest field, or the known ones, for an error about an unknown field of a plugin's ``Args``."""
    known = [field.encode_name for field in msgspec.structs.fields(args_struct(cls))]
    unknown = _UNKNOWN.search(reason)
    if unknown is None:
        return None
    close = nearest(unknown[1], known)
    return f'Did you mean "{close}"?' if close else f"Known fields: {', '.join(sorted(known)) or 'none'}."
