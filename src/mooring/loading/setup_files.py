"""The files of a setup, with change detection and reloading."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from mooring.config import ConfigError, SchedulerConfiguration
from mooring.config.document import read_config_file, read_document
from mooring.loading.catalog import NOTHING, Catalog, Requested
from mooring.loading.load_errors import PluginLoadError
from mooring.loading.plugin_sources import NO_SOURCES, read_sources, split
from mooring.loading.setup import Setup, load_setup
from mooring.loading.snapshot import package_files
from mooring.loading.wasm.guest_config import guests_in
from mooring.releases import NEWEST, Release

#: The maximum number of files in a signature.
_MAX_FILES: Final = 10_000

#: The path, modification time, change time, size and inode of each file. The inode changes if a link's target is
#: replaced, as in a ConfigMap volume. The change time also changes with the permissions, and if a copy keeps the
#: modification time.
Signature = tuple[tuple[str, int, int, int, int], ...]


def signature(paths: Iterable[Path]) -> Signature:
    """Return the signature of files and of all files below folders. Equal signatures mean that nothing changed."""
    found = []
    for path in itertools.islice(_below(paths), _MAX_FILES):
        try:
            stat = path.stat()
        except OSError:
            continue  # a missing file is not part of the signature
        found.append((str(path), stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino))
    return tuple(found)


def _below(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        yield path
        if path.is_dir():
            try:
                yield from package_files(path)
            except OSError:
                continue  # the folder is being removed


class SetupFiles:
    """A configuration file, if any, and the plugins that it and the command line name."""

    def __init__(
        self,
        file: Path | None,
        requested: Requested = NOTHING,
        *,
        adjust: Callable[[SchedulerConfiguration], SchedulerConfiguration] = lambda config: config,
        release: Release = NEWEST,
    ) -> None:
        """``adjust`` is applied to the loaded configuration, so that flags can override it.

        ``release`` is the release of kube-scheduler to emulate.
        """
        self.release = release
        self.file = file
        self._requested = requested
        self.adjust = adjust
        #: The data files that the plugins declare in ``watch_files``.
        self._data: tuple[Path, ...] = ()
        #: The signature of the files just before they were last read.
        self.seen: Signature = ()

    def load(self, before: Setup | None = None) -> Setup:
        """Load the setup. Raises ConfigError or PluginLoadError.

        Plugins of ``before`` whose files and arguments have not changed keep their classes. All others are imported as
        new modules.
        """
        seen = signature(self._own_paths())
        self.seen = seen + signature(self._data)
        known = before.catalog if before is not None else None
        setup = self._load(known)
        # The plugins read these files later, when they are created.
        self._data = tuple(setup.catalog.data_files())
        self.seen = seen + signature(self._data)
        if before is not None:
            stale = set(_other_args(before, setup))
            renewed = {
                path: found
                for path, found in setup.catalog.files.items()
                if not (stale & {each.name for each in found} and found == before.catalog.files.get(path))
            }
            if len(renewed) < len(setup.catalog.files):
                try:
                    setup = self._load(Catalog(setup.catalog.found.values(), files=renewed))
                except ValueError:
                    setup.catalog.unload(keep=known)
                    raise
        return setup

    def _load(self, known: Catalog | None) -> Setup:
        text = self._text()
        base = self.file.parent if self.file is not None else None
        source = str(self.file or "")
        setup = load_setup(
            text,
            source=source,
            requested=self._requested,
            base=base,
            file=self.file,
            known=known,
            release=self.release,
        )
        try:
            return msgspec.structs.replace(setup, config=self.adjust(setup.config))
        except ValueError:
            setup.catalog.unload(keep=known)
            raise

    def _text(self) -> str | None:
        return None if self.file is None else read_config_file(self.file)

    def paths(self) -> list[Path]:
        """Return all files and folders on which the setup depends, according to the current files."""
        return [*self._own_paths(), *self._data]

    def _own_paths(self) -> list[Path]:
        """Return the files and folders of the setup, without the data files of plugins."""
        found = [path for _, path in self._requested.plugins]
        found += self._requested.directories
        if self.file is not None:
            found.append(self.file)
            found += self._named()
        return found

    def _named(self) -> Iterator[Path]:
        """Yield the files and folders that the configuration file names."""
        assert self.file is not None
        base = self.file.parent
        try:
            rest, written = split(self._text() or "")
            sources = read_sources(written, source="")
        except ConfigError:
            rest, sources = "", NO_SOURCES  # `load` reports the error
        yield from (base / entry.path for entry in sources.plugins if entry.path)
        yield from (base / folder for folder in sources.directories)
        try:
            guests = guests_in(read_document(rest, source="", release=self.release))
        except (ConfigError, PluginLoadError):
            return
        for guest in guests:
            scheme, _, path = guest.url.partition("://")
            if scheme == "file":
                yield Path(path)


def _other_args(before: Setup, after: Setup) -> Iterator[str]:
    """Yield the plugins whose arguments changed in any profile."""
    old: dict[str, dict[str, Any]] = {each.scheduler_name: each.plugin_config for each in before.config.profiles}
    for profile in after.config.profiles:
        was = old.get(profile.scheduler_name, {})
        for name in {*was, *profile.plugin_config}:
            if was.get(name) != profile.plugin_config.get(name):
                yield name
