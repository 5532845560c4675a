"""A plugin's files as they were at one moment: what is hashed and pinned is what is run, whatever changes meanwhile."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mooring.loading.load_errors import Fault, PluginLoadError, refuse

#: A plugin with more than this has something in its folder that does not belong there.
_MOST_BYTES = 256 * 1024 * 1024
_SKIPPED = frozenset({"__pycache__", "node_modules"})


class Snapshot(msgspec.Struct, frozen=True):
    """The files of one plugin: a single file, or a package with everything below it."""

    path: Path
    is_package: bool
    #: The Python sources, by their path within the package ("" for a single file).
    sources: dict[str, bytes]
    #: Of a file its SHA-256; of a package that of the list of its files' sums, as ``sha256sum`` prints it.
    sha256: str


def read_snapshot(path: Path) -> Snapshot:
    """Read a plugin's files. Raises PluginLoadError if there are none."""
    try:
        if path.is_dir():
            return _read_package(path)
        if not path.is_file():
            raise refuse(path, "no such file")
        if path.suffix != ".py":
            raise refuse(path, "not a Python file; its name must end in .py")
        data = path.read_bytes()
    except OSError as error:
        raise refuse(error.filename or path, error.strerror or str(error)) from None
    return Snapshot(path, False, {"": data}, hashlib.sha256(data).hexdigest())


def _read_package(path: Path) -> Snapshot:
    if not (path / "__init__.py").is_file():
        raise refuse(path, "is a folder without __init__.py; add one, or name the file, or use --plugins-dir")
    sources: dict[str, bytes] = {}
    listing, total = [], 0
    for file in package_files(path):
        within = file.relative_to(path).as_posix()
        data = file.read_bytes()
        total += len(data)
        if total > _MOST_BYTES:
            raise refuse(path, f"has more than {_MOST_BYTES >> 20} MiB of files; keep only the plugin's own there")
        listing.append(f"{hashlib.sha256(data).hexdigest()}  {within}\n")
        if file.suffix == ".py":
            sources[within] = data
    return Snapshot(path, True, sources, hashlib.sha256("".join(listing).encode()).hexdigest())


def package_files(path: Path) -> Iterator[Path]:
    """All files of a package, in order; caches and hidden files aside."""
    for entry in sorted(path.iterdir(), key=lambda each: each.name):
        if entry.name.startswith(".") or entry.name in _SKIPPED:
            continue
        if entry.is_dir():
            yield from package_files(entry)
        elif entry.suffix != ".pyc":
            yield entry


def check_pin(snapshot: Snapshot, wanted: str) -> None:
    """Compare with a pinned hash. Raises PluginLoadError."""
    if wanted and snapshot.sha256 != wanted.lower().removeprefix("sha256:"):
        text = f"its sha256 is {snapshot.sha256}, but {wanted} is pinned; review the change, then pin the new one"
        raise refuse(snapshot.path, text)


# Who else can write to it


def check_writers(path: Path) -> None:
    """Refuse files that somebody else could have put there. Raises PluginLoadError with every one of them."""
    faults = [fault for each in _guarded(path) if (fault := _open_to_others(each)) is not None]
    if faults:
        raise PluginLoadError(faults)


def _guarded(path: Path) -> Iterator[Path]:
    resolved = path.resolve()
    yield resolved.parent
    yield resolved
    if resolved.is_dir():
        for folder, _, files in os.walk(resolved):
            if Path(folder) != resolved:
                yield Path(folder)
            yield from (Path(folder, file) for file in files if file.endswith(".py"))


def _open_to_others(path: Path) -> Fault | None:
    try:
        found = path.stat()
    except OSError:
        return None  # it is gone, or reading it will tell
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return None  # as a mounted ConfigMap, whose folders have all bits set
    mode = found.st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_ISVTX:
        return None  # as in /tmp, nobody can replace what is not theirs
    if mode & stat.S_IWOTH:
        who, remedy = "everybody", "chmod o-w"
    elif mode & stat.S_IWGRP and found.st_gid != os.getegid():
        who, remedy = f"the group {found.st_gid}", "chmod g-w"
    else:
        return None
    text = f"can be written by {who}, so anybody there could run code in the scheduler: {remedy} {path}"
    return Fault(str(path), 0, f"{text}, or accept it with --allow-writable-plugins")
