"""Everything public that a plugin author touches is described: classes, methods, properties and attributes."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from mooring import batch, framework
from mooring.api.pod import Pod
from mooring.batch.session import NodeUsage
from mooring.framework import preemption

#: Classes with internals that are public for built-in plugins only.
INTERNAL = {"NodeTable"}
CLASSES = {
    member
    for package in (framework, batch, preemption)
    for name in package.__all__
    if isinstance(member := getattr(package, name), type) and member.__module__.startswith("mooring.")
    if name not in INTERNAL
} | {Pod, NodeUsage}


def definition(cls: type) -> ast.ClassDef:
    tree = ast.parse(Path(inspect.getfile(cls)).read_text())
    return next(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == cls.__name__)


def attributes(node: ast.ClassDef) -> set[str]:
    """Return the public attributes that a class declares in its body or assigns in its constructor."""
    found: set[str] = set()
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            found.add(each.target.id)
        elif isinstance(each, ast.Assign):
            found |= {target.id for target in each.targets if isinstance(target, ast.Name)}
        elif isinstance(each, ast.FunctionDef) and each.name == "__init__":
            for inner in ast.walk(each):
                targets = inner.targets if isinstance(inner, ast.Assign) else []
                targets = [inner.target] if isinstance(inner, ast.AnnAssign) else targets
                found |= {
                    target.attr
                    for target in targets
                    if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name)
                }
    return {name for name in found if not name.startswith("_")}


@pytest.mark.parametrize("cls", sorted(CLASSES, key=lambda cls: cls.__qualname__), ids=lambda cls: cls.__qualname__)
def test_it_is_described(cls: type) -> None:
    node = definition(cls)
    text = ast.get_docstring(node) or ""
    assert text, "the class has no docstring"
    section = text.partition("Attributes:\n")[2]
    described = set(re.findall(r"^    (\w+): \S", section, re.MULTILINE))
    described |= set(_followed_by_text(node)) | set(_after_comment(cls))
    assert attributes(node) - described == set()
    for each in node.body:
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) and not each.name.startswith("_"):
            overloaded = any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in each.decorator_list)
            assert overloaded or ast.get_docstring(each) or _is_setter(each), each.name
            assert overloaded or each.returns is not None, each.name


def _followed_by_text(node: ast.ClassDef) -> list[str]:
    """Return the attributes of a class body that a string describes."""
    return [
        before.target.id
        for before, after in zip(node.body, node.body[1:], strict=False)
        if isinstance(before, ast.AnnAssign)
        and isinstance(before.target, ast.Name)
        and isinstance(after, ast.Expr)
        and isinstance(after.value, ast.Constant)
        and isinstance(after.value.value, str)
    ]


def _after_comment(cls: type) -> list[str]:
    """Return the attributes that a comment ``#:`` describes, which the documentation site shows."""
    return re.findall(r"^ +#: .*\n +(?:self\.)?(\w+)(?:: .*)? =", inspect.getsource(cls), re.MULTILINE)


def _is_setter(method: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(isinstance(mark, ast.Attribute) and mark.attr == "setter" for mark in method.decorator_list)
