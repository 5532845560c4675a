"""Snapshots of plugin files. The code that runs is the code that was hashed, even if a file changes meanwhile."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec

from mooring.loading.load_errors import Fault, PluginLoadError, refuse

#: The size limit of a package.
_MAX_BYTES = 256 * 1024 * 1024
_SKIPPED = frozenset({"__pycache__", "node_modules"})


class Snapshot(msgspec.Struct, frozen=True):
    """The files of one plugin: a single file, or a package."""

    path: Path
    is_package: bool
    #: The Python sources by path within the package ("" for a single file).
    sources: dict[str, bytes]
    #: The SHA-256 of the file, or of the list of checksums of a package's files, as ``sha256sum`` prints it.
    sha256: str


def read_snapshot(path: Path) -> Snapshot:
    """Read a plugin's files. Raises PluginLoadError if they do not exist or are not Python."""
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
        if total > _MAX_BYTES:
            raise refuse(
                path, f"has more than {_MAX_BYTES >> 20} MiB of files; remove files that do not belong to the plugin"
            )
        listing.append(f"{hashlib.sha256(data).hexdigest()}  {within}\n")
        if file.suffix == ".py":
            sources[within] = data
    return Snapshot(path, True, sources, hashlib.sha256("".join(listing).encode()).hexdigest())


def package_files(path: Path) -> Iterator[Path]:
    """Yield all files of a package in order, without caches and hidden files."""
    for entry in sorted(path.iterdir(), key=lambda each: each.name):
        if entry.name.startswith(".") or entry.name in _SKIPPED:
            continue
        if entry.is_dir():
            yield from package_files(entry)
        elif entry.suffix != ".pyc":
            yield entry


def check_pin(snapshot: Snapshot, wanted: str) -> None:
    """Compare a snapshot with a pinned SHA-256. Raises PluginLoadError."""
    if wanted and snapshot.sha256 != wanted.lower().removeprefix("sha256:"):
        text = f"its sha256 is {snapshot.sha256}, but {wanted} is pinned; review the change, then pin the new one"
        raise refuse(snapshot.path, text)


# File permissions


def check_writers(path: Path) -> None:
    """Reject files and folders that other users can write. Raises PluginLoadError with all of them."""
    faults = [fault for each in _checked_paths(path) if (fault := _writable_by_others(each)) is not None]
    if faults:
        raise PluginLoadError(faults)


def _checked_paths(path: Path) -> Iterator[Path]:
    resolved = path.resolve()
    yield resolved.parent
    yield resolved
    if resolved.is_dir():
        for folder, _, files in os.walk(resolved):
            if Path(folder) != resolved:
                yield Path(folder)
            yield from (Path(folder, file) for file in files if file.endswith(".py"))


def _writable_by_others(path: Path) -> Fault | None:
    try:
        found = path.stat()
    except OSError:
        return None  # reading the file reports the error
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        return None  # such as a mounted ConfigMap, whose folders have all bits set
    mode = found.st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_ISVTX:
        return None  # with the sticky bit, as in /tmp, only the owner of a file can replace it
    if mode & stat.S_IWOTH:
        who, remedy = "all users", "chmod o-w"
    elif mode & stat.S_IWGRP and found.st_gid != os.getegid():
        who, remedy = f"the group {found.st_gid}", "chmod g-w"
    else:
        return None
    text = f"can be written by {who}, who could run code in the scheduler: {remedy} {path}"
    return Fault(str(path), 0, f"{text}, or accept it with --allow-writable-plugins")
