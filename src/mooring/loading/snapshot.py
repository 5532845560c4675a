"""Snapshots of plugin files. They ensure that the code that runs is the code that was hashed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from mooring.loading.load_errors import Fault, PluginLoadError, refuse
from mooring.loading.trusted_paths import read_trusted

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


def read_snapshot(path: Path, *, allow_writable: bool = True) -> Snapshot:
    """Read a plugin's files. Raises PluginLoadError if they do not exist or are not Python.

    Unless ``allow_writable`` is set, it is also raised for files that other users can change or replace.
    """
    read = Path.read_bytes if allow_writable else read_trusted
    try:
        if path.is_dir():
            return _read_package(path, read)
        if not path.is_file():
            raise refuse(path, "no such file")
        if path.suffix != ".py":
            raise refuse(path, "not a Python file; its name must end in .py")
        data = read(path)
    except OSError as error:
        raise refuse(error.filename or path, error.strerror or str(error)) from None
    return Snapshot(path, False, {"": data}, hashlib.sha256(data).hexdigest())


def _read_package(path: Path, read: Callable[[Path], bytes]) -> Snapshot:
    if not (path / "__init__.py").is_file():
        raise refuse(path, "is a folder without __init__.py; add one, or name the file, or use --plugins-dir")
    sources: dict[str, bytes] = {}
    listing, total = [], 0
    faults: list[Fault] = []
    for file in package_files(path):
        within = file.relative_to(path).as_posix()
        try:
            data = read(file)
        except PluginLoadError as error:
            faults += error.faults
            continue
        total += len(data)
        if total > _MAX_BYTES:
            raise refuse(
                path, f"has more than {_MAX_BYTES >> 20} MiB of files; remove files that do not belong to the plugin"
            )
        listing.append(f"{hashlib.sha256(data).hexdigest()}  {within}\n")
        if file.suffix == ".py":
            sources[within] = data
    if faults:
        raise PluginLoadError(dict.fromkeys(faults))
    return Snapshot(path, True, sources, hashlib.sha256("".join(listing).encode()).hexdigest())


def watched_files(cls: type, path: Path) -> list[Path]:
    """Return the data files that a plugin class declares in ``watch_files``; ``path`` is its file or package."""
    folder, names = path if path.is_dir() else path.parent, getattr(cls, "watch_files", ())
    # `check_class` reports other types.
    return [folder / name for name in names if isinstance(name, str)] if isinstance(names, list | tuple) else []


def data_sha256(cls: type, path: Path) -> str:
    """Return the SHA-256 of the files in ``watch_files``; empty if the class declares none."""
    total = None
    for file in watched_files(cls, path):
        total = total or hashlib.sha256()
        try:
            data = file.read_bytes()
        except OSError as error:
            data = f"missing: {error.strerror}".encode()
        total.update(hashlib.sha256(data).digest())
    return total.hexdigest() if total is not None else ""


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
