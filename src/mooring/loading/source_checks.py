"""What can be seen in a plugin's source without running it: calls that would hold the scheduler up."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

import msgspec

#: Calls that wait for the outside -> what to write instead in an ``async`` method.
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
#: Libraries that ask servers and wait for the answer, and what there is instead; their other names are harmless.
_LIBRARIES = {"requests": "aiohttp", "httpx": "httpx.AsyncClient", "urllib3": "aiohttp"}
_ASKING = ("get", "post", "put", "patch", "delete", "head", "options", "request", "stream", "Session", "Client",
           "PoolManager")  # fmt: skip
_BLOCKING |= {f"{library}.{name}": instead for library, instead in _LIBRARIES.items() for name in _ASKING}


class ClassSource(msgspec.Struct, frozen=True):
    """Where a class is written."""

    path: str
    line: int
    tree: ast.ClassDef
    #: What each imported name stands for: ``sleep`` -> ``time.sleep``.
    imported: dict[str, str]

    def methods(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Its methods."""
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node

    def line_of(self, method: str) -> int:
        """The line of a method or attribute, or that of the class."""
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
    """The source of a class; None where there is none (it was made while running, say)."""
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
    """Calls in ``async`` methods that would hold up everything else: line and what to do."""
    for method in source.methods():
        if not isinstance(method, ast.AsyncFunctionDef):
            continue
        for node in _calls(method):
            called = _dotted(node.func, source.imported)
            instead = _BLOCKING.get(called)
            if instead is not None:
                text = f"'{method.name}' calls {called}, which stops the whole scheduler while it waits; use {instead}"
                yield node.lineno, text


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    """The calls that a method makes itself; functions within it may well be for threads."""
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
    """What a call names, in full: ``time.sleep``; "" for anything but a plain name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([imported.get(node.id, node.id), *reversed(parts)])
