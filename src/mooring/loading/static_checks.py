"""Static checks of a plugin class: signatures, Args, declared dependencies, requirements, and blocking calls."""

from __future__ import annotations

import ast
import difflib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

import msgspec

from mooring import __version__
from mooring.framework.plugin import Plugin, dependence
from mooring.framework.plugin_args import args_struct
from mooring.framework.plugin_errors import contain
from mooring.framework.points import BY_METHOD
from mooring.loading.load_errors import Fault
from mooring.loading.module_importer import root_of
from mooring.loading.plugin_kinds import REGISTRATIONS, SESSION, Kind, plugin_name
from mooring.loading.requirements import fits, misfit
from mooring.loading.snapshot import watched_files

#: Methods that are called only if one of the other methods is defined.
_NEEDS = {
    "normalize_scores": ("score", "score_nodes", "score_allocation"),
    "pre_score": ("score", "score_nodes", "score_allocation"),
    "add_pod": ("pre_filter",),
    "remove_pod": ("pre_filter",),
    "what_if": ("filter", "filter_nodes"),
    "pre_bind_pre_flight": ("pre_bind",),
}
_PER_TEMPLATE = ("pre_filter", "pre_score")
_PER_NODE = ("filter", "filter_nodes", "score", "score_nodes")


def check_class(cls: type, kind: Kind) -> list[Fault]:
    """Return the errors of a plugin class in line order, without running it."""
    source = class_source(cls)
    path = source.path if source is not None else _file_of(cls)
    found: list[tuple[int, str]] = [(problem.line, problem.message) for problem in kind.check(cls)]
    found += _requires(cls, source)
    found += _watch_files(cls, source)
    if issubclass(cls, Plugin):
        found += _never_called(cls, source)
        found += _dependences(cls, source)
    found += _args(cls, source)
    name = plugin_name(cls)
    faults = [Fault(path, line or _line(source), f"{name}: {message}") for line, message in found]
    faults += _in_methods(cls, blocking_calls)
    if kind is SESSION:
        faults += _in_methods(cls, unknown_registrations)
    return sorted(faults, key=lambda fault: (fault.path != path, fault.path, fault.line))


def _file_of(cls: type) -> str:
    """Return the file of a class; empty for one that was defined in a notebook or at a prompt."""
    try:
        return inspect.getfile(cls)
    except (OSError, TypeError):
        return ""


def _in_methods(cls: type, check: Callable[[ClassSource], Iterable[tuple[int, str]]]) -> Iterator[Fault]:
    """Yield the errors in the methods of a class and of its base classes in the same file or package."""
    for owner in cls.__mro__:
        source = class_source(owner) if root_of(owner.__module__) == root_of(cls.__module__) else None
        if source is not None:
            for line, message in check(source):
                yield Fault(source.path, line, f"{plugin_name(owner)}: {message}")


def check_strays(module: ModuleType) -> list[Fault]:
    """Return errors for classes that look like plugins but are not found, because they do not derive from Plugin."""
    faults = []
    for cls in list(vars(module).values()):
        if not isinstance(cls, type) or cls.__module__ != module.__name__ or issubclass(cls, Plugin):
            continue
        method = next((name for name in vars(cls) if _is_point(vars(cls)[name], name)), None)
        if method is not None:
            source = class_source(cls)
            text = f"{cls.__name__} has '{method}' but is not a plugin; write 'class {cls.__name__}(Plugin):'"
            faults.append(Fault(getattr(module, "__file__", "") or "", _line(source), text))
    return faults


def _is_point(member: object, name: str) -> bool:
    point = BY_METHOD.get(name)
    if point is None or not point.parameters or not inspect.isfunction(member):
        return False
    return tuple(inspect.signature(member).parameters)[1:] == point.parameters


def _line(source: ClassSource | None, member: str = "") -> int:
    if source is None:
        return 0
    return source.line_of(member) if member else source.line


def _requires(cls: type, source: ClassSource | None) -> Iterator[tuple[int, str]]:
    """Check the versions of Mooring that a plugin requires."""
    requires = getattr(cls, "requires", "")
    if not requires:
        return
    line = _line(source, "requires")
    if not isinstance(requires, str) or not requires.startswith("mooring"):
        yield line, f'requires is {requires!r}; write for example  requires = "mooring>=0.1,<2"'
        return
    versions = requires.removeprefix("mooring").strip()
    problem = misfit(__version__, versions)
    if problem is not None:
        yield line, f"requires: {problem}"
    elif not fits(__version__, versions):
        yield (
            line,
            f"requires {requires}, but this is mooring {__version__}; use a version of the plugin that supports it",
        )


def _watch_files(cls: type, source: ClassSource | None) -> Iterator[tuple[int, str]]:
    """Check the data files that a plugin declares."""
    names: Any = getattr(cls, "watch_files", ())
    if not names:
        return
    line = _line(source, "watch_files")
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        yield line, f'watch_files is {names!r}; write for example  watch_files = ["nodes.csv"]'
    elif source is not None and source.path:
        for file in watched_files(cls, Path(source.path)):
            if not file.is_file():
                yield line, f"watch_files: {file} does not exist"


def _never_called(cls: type[Plugin], source: ClassSource | None) -> Iterator[tuple[int, str]]:
    for method, others in _NEEDS.items():
        if callable(getattr(cls, method, None)) and not any(callable(getattr(cls, each, None)) for each in others):
            right = " or ".join(f"'{BY_METHOD[each].signature}'" for each in others)
            yield _line(source, method), f"'{method}' is never called without {right}"


def _dependences(cls: type[Plugin], source: ClassSource | None) -> Iterator[tuple[int, str]]:
    for method in _PER_TEMPLATE + _PER_NODE:
        declared = dependence(getattr(cls, method, None))
        if declared is None or (declared == "template") == (method in _PER_TEMPLATE):
            continue
        right = '"template"' if method in _PER_TEMPLATE else '"node" or "node", "pods"'
        yield _line(source, method), f"'{method}' declares depends_on(\"{declared}\"); it can depend on {right}"


def unknown_registrations(source: ClassSource) -> Iterator[tuple[int, str]]:
    """Yield misspelled registrations in the methods that have a session. They would fail in every session."""
    for method in source.methods():
        names = {argument.arg for argument in method.args.args if argument.arg in ("session", "ssn")}
        if method.name in ("on_session_open", "on_session_close"):
            names |= {argument.arg for argument in method.args.args[1:2]}
        for node in ast.walk(method):
            if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names):
                continue
            if node.attr in REGISTRATIONS:
                continue
            # Volcano's name is AddQueueOrderFn.
            snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.attr).lower().removesuffix("_fn")
            close = difflib.get_close_matches(
                snake, REGISTRATIONS, n=1, cutoff=0.75 if snake.startswith("add") else 0.92
            )
            if close:
                right = f"{node.value.id}.{close[0]}"
                yield node.lineno, f"'{node.value.id}.{node.attr}' does not exist; did you mean '{right}'?"
            elif snake.startswith("add_"):
                known = ", ".join(REGISTRATIONS)
                yield node.lineno, f"'{node.value.id}.{node.attr}' does not exist; use one of {known}"


def _args(cls: type[Any], source: ClassSource | None) -> Iterator[tuple[int, str]]:
    declared: Any = getattr(cls, "Args", None)
    if declared is None:
        return
    line = _line(source, "Args")
    if not isinstance(declared, type):
        yield line, "Args must be a class with typed attributes, as in  class Args:  reverse: bool = False"
        return
    try:
        hints = get_type_hints(declared)
        args_struct(cls)
    except BaseException as error:
        contain(error)
        yield line, f"Args is invalid: {error}"
        return
    for name, value in vars(declared).items():
        if not name.startswith("_") and name not in hints and not callable(value) and not hasattr(value, "__get__"):
            yield line, f"Args.{name} has no type; write  {name}: {type(value).__name__} = {value!r}"


#: Blocking call -> its replacement in an ``async`` method.
_BLOCKING = {
    "time.sleep": "await asyncio.sleep(...)",
    "urllib.request.urlopen": "await asyncio.to_thread(urlopen, ...)",
    "subprocess.run": "asyncio.create_subprocess_exec",
    "subprocess.call": "asyncio.create_subprocess_exec",
    "subprocess.check_call": "asyncio.create_subprocess_exec",
    "subprocess.check_output": "asyncio.create_subprocess_exec",
    "os.system": "asyncio.create_subprocess_shell",
    "socket.create_connection": "asyncio.open_connection",
    "input": "an argument of the plugin",
}
#: Blocking HTTP library -> its replacement. Only the names in `_REQUESTING` block.
_LIBRARIES = {"requests": "aiohttp", "httpx": "httpx.AsyncClient", "urllib3": "aiohttp"}
_REQUESTING = ("get", "post", "put", "patch", "delete", "head", "options", "request", "stream", "Session", "Client",
           "PoolManager")  # fmt: skip
_BLOCKING |= {f"{library}.{name}": instead for library, instead in _LIBRARIES.items() for name in _REQUESTING}


class ClassSource(msgspec.Struct, frozen=True):
    """The source code of a class."""

    path: str
    line: int
    tree: ast.ClassDef
    #: Imported name -> qualified name: ``sleep`` -> ``time.sleep``.
    imported: dict[str, str]

    def methods(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Yield the methods."""
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    def line_of(self, method: str) -> int:
        """Return the line of a method or attribute, or of the class if there is no such member."""
        for node in self.tree.body:
            names = [getattr(node, "name", "")]
            if isinstance(node, ast.Assign):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names = [node.target.id]
            if method in names:
                return node.lineno
        return self.line


def class_source(cls: type) -> ClassSource | None:
    """Return the source of a class; None if there is none, as for a class that was created at run time."""
    module = sys.modules.get(cls.__module__)
    loader = getattr(module, "__loader__", None)
    if module is None or loader is None or not hasattr(loader, "get_source"):
        return None
    try:
        text = loader.get_source(cls.__module__)
        tree = ast.parse(text or "")
    except (ImportError, SyntaxError, ValueError):
        return None
    found = next(
        (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls.__name__), None
    )
    if found is None:
        return None
    return ClassSource(getattr(module, "__file__", "") or "", found.lineno, found, _imports(tree))


def blocking_calls(source: ClassSource) -> Iterator[tuple[int, str]]:
    """Yield the line and the message of each blocking call in an ``async`` method."""
    for method in source.methods():
        if not isinstance(method, ast.AsyncFunctionDef):
            continue
        for node in _calls(method):
            called = _dotted(node.func, source.imported)
            instead = _BLOCKING.get(called)
            if instead is not None:
                text = f"'{method.name}' calls {called}, which blocks the whole scheduler; use {instead}"
                yield node.lineno, text


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """Yield the calls of a method, without those of nested functions, which may run on threads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.Call):
            yield child
        yield from _calls(child)


def _imports(tree: ast.Module) -> dict[str, str]:
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                names[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def _dotted(node: ast.expr, imported: dict[str, str]) -> str:
    """Return the qualified name of a call, such as ``time.sleep``; "" if it is not a plain name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([imported.get(node.id, node.id), *reversed(parts)])
