"""The importer of plugin modules. Each import has a unique module name, so that two versions can coexist.

``__pycache__`` is neither read nor written: it identifies a source by its size and its modification time in seconds,
which is too coarse for a file that is edited and reloaded within a second.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import itertools
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, ModuleType

from mooring.framework.plugin_errors import contain, describe
from mooring.loading.load_errors import PluginLoadError, refuse
from mooring.loading.snapshot import Snapshot

#: The parent package of all plugin modules. It exists only in memory.
ROOT = "mooring_plugins"
_number = itertools.count(1)


class _Sources(importlib.abc.InspectLoader):
    """The loader of the modules of one snapshot."""

    def __init__(self, name: str, snapshot: Snapshot) -> None:
        self.name = name
        self._snapshot = snapshot

    def within(self, fullname: str) -> str | None:
        """Return the path of a module's source within the snapshot; None if there is no such module."""
        if not self._snapshot.is_package:
            return "" if fullname == self.name else None
        inner = fullname[len(self.name) + 1 :].replace(".", "/")
        for candidate in (f"{inner}/__init__.py" if inner else "__init__.py", f"{inner}.py"):
            if candidate in self._snapshot.sources:
                return candidate
        return None

    def filename(self, within: str) -> str:
        """Return the file of a source."""
        return str(self._snapshot.path / within) if within else str(self._snapshot.path)

    def is_package(self, fullname: str) -> bool:
        """Return whether a module is a package."""
        return (self.within(fullname) or "").endswith("__init__.py")

    def get_source(self, fullname: str) -> str:
        """Return the source text of a module."""
        return importlib.util.decode_source(self._snapshot.sources[self.within(fullname) or ""])

    def get_code(self, fullname: str) -> CodeType:
        """Compile a module. Code is never cached."""
        within = self.within(fullname) or ""
        code: CodeType = compile(self._snapshot.sources[within], self.filename(within), "exec", dont_inherit=True)
        return code


class _Finder(importlib.abc.MetaPathFinder):
    """The finder of modules of loaded snapshots, for relative imports within packages."""

    def __init__(self) -> None:
        self.loaded: dict[str, _Sources] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module below ``mooring_plugins``."""
        if not fullname.startswith(f"{ROOT}."):
            return None
        loader = self.loaded.get(root_of(fullname))
        within = loader.within(fullname) if loader is not None else None
        if loader is None or within is None:
            return None
        origin = loader.filename(within)
        spec = importlib.machinery.ModuleSpec(fullname, loader, origin=origin, is_package=loader.is_package(fullname))
        spec.has_location = True
        return spec


_finder = _Finder()


def import_snapshot(snapshot: Snapshot) -> ModuleType:
    """Import a plugin's module. Raises PluginLoadError with the line that failed."""
    _install_finder()
    stem = "".join(letter if letter.isidentifier() or letter.isdigit() else "_" for letter in snapshot.path.stem)
    name = f"{ROOT}.{stem}_{next(_number)}"
    _finder.loaded[name] = loader = _Sources(name, snapshot)
    try:
        return importlib.import_module(name)
    except SyntaxError as error:
        unload(name)
        path = error.filename or loader.filename("")
        raise refuse(path, error.msg or "cannot be parsed", error.lineno or 0) from None
    except BaseException as error:
        unload(name)
        contain(error)
        raise _import_error(error, snapshot) from error


def is_loaded(name: str) -> bool:
    """Return whether a module belongs to a plugin file or package that is loaded."""
    return root_of(name) in _finder.loaded


def root_of(name: str) -> str:
    """Return the top module of a plugin file or package, given any module in it."""
    return ".".join(name.split(".")[:2])


def unload(name: str) -> None:
    """Remove a plugin's modules from `sys.modules`. Existing objects of their classes stay usable."""
    root = root_of(name)
    _finder.loaded.pop(root, None)
    for known in [each for each in sys.modules if each == root or each.startswith(f"{root}.")]:
        del sys.modules[known]
    parent = sys.modules.get(ROOT)
    if parent is not None:
        vars(parent).pop(root.partition(".")[2], None)


def _install_finder() -> None:
    if ROOT not in sys.modules:
        parent = ModuleType(ROOT, "Plugins that were loaded from files.")
        parent.__path__ = []
        sys.modules[ROOT] = parent
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def _import_error(error: BaseException, snapshot: Snapshot) -> PluginLoadError:
    place, line = str(snapshot.path), 0
    for frame in traceback.extract_tb(error.__traceback__):
        if Path(frame.filename) == snapshot.path or snapshot.path in Path(frame.filename).parents:
            place, line = frame.filename, frame.lineno or 0
    message = describe(error)
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        message += _import_remedy(error.name, snapshot)
    if isinstance(error, SystemExit):
        message = "exits the process when it is imported; put the script part under `if __name__ == '__main__':`"
    return refuse(place, message, line)


def _import_remedy(name: str, snapshot: Snapshot) -> str:
    top = name.partition(".")[0]
    folder = snapshot.path if snapshot.is_package else snapshot.path.parent
    if (folder / f"{top}.py").is_file() or (folder / top / "__init__.py").is_file():
        if snapshot.is_package:
            return f"; write `from . import {top}`"
        return f"; to import it, put both files into a folder with __init__.py and write `from . import {top}`"
    return f"; install the package that provides it for {sys.executable}"
