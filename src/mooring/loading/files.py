"""Plugins from files: import the file under a name of its own, find the class, check it as a compiler would."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from mooring.framework.plugin import Plugin
from mooring.framework.points import check_methods, points_of


class PluginLoadError(ValueError):
    """A plugin file that cannot be used; the message names the file, the line where known, and the remedy."""


def parse_plugin_option(option: str) -> tuple[str, Path]:
    """Split ``NAME=FILE`` as given on the command line."""
    name, separator, path = option.partition("=")
    if not separator or not name or not path:
        raise PluginLoadError(
            f"{option!r} is not NAME=FILE; write for example --plugin NodeNumber=plugins/nodenumber.py"
        )
    return name, Path(path)


def load_plugin(name: str, path: Path) -> type[Plugin]:
    """The plugin of that name in a file."""
    module = _import(path)
    found = {
        cls.name: cls
        for cls in vars(module).values()
        if isinstance(cls, type) and issubclass(cls, Plugin) and cls is not Plugin and cls.__module__ == module.__name__
    }
    if name not in found:
        known = ", ".join(sorted(found)) or "no plugin at all"
        raise PluginLoadError(f"{path}: defines no plugin {name} (it defines {known}); derive a class from Plugin")
    cls = found[name]
    problems = [f"{path}:{problem.line}: {name}: {problem.message}" for problem in check_methods(cls)]
    if not problems and not points_of(cls):
        problems = [f"{path}: {name}: serves no extension point; define filter, score or another method of one"]
    if problems:
        raise PluginLoadError("\n".join(problems))
    return cls


def _import(path: Path) -> ModuleType:
    if not path.is_file():
        raise PluginLoadError(f"{path}: no such file")
    identity = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]
    module_name = f"mooring_plugins.{path.stem}_{identity}"
    known = sys.modules.get(module_name)
    if known is not None:
        return known
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise PluginLoadError(f"{path}: not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        del sys.modules[module_name]
        raise PluginLoadError(f"{path}:{error.lineno}: {error.msg}") from None
    except Exception as error:
        del sys.modules[module_name]
        line = next(
            (f.lineno for f in reversed(traceback.extract_tb(error.__traceback__)) if f.filename == str(path)), 0
        )
        raise PluginLoadError(f"{path}:{line}: {type(error).__name__}: {error}") from error
    return module
