"""The reference: its examples run, and it covers everything that a plugin author uses."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from pathlib import Path
from typing import Any

import pytest

from mooring import framework
from mooring.framework.points import POINTS
from tests.docs.commands import ROOT

REFERENCE = ROOT / "docs" / "reference"
PAGES = sorted(REFERENCE.glob("*.md"))
WITH_EXAMPLES = [page for page in PAGES if page.name != "README.md"]
_PYTHON = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHOWN = [name for page in PAGES for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)]
DOCUMENTED = set(SHOWN)
#: What a plugin author meets besides the names of `mooring.framework`.
NEEDED = {
    *("Pod", "WaitingPods", "WaitingPod", "Evaluator", "Session", "JobInfo", "TaskInfo", "Queue", "QueueInfo"),
    *("NodeInfo", "Nodes", "Status", "Verdicts", "Handle", "NodeStatuses", "StateKey", "ClusterEvent", "Hint"),
}


def examples(page: Path) -> list[str]:
    return _PYTHON.findall(page.read_text())


@pytest.mark.parametrize("page", WITH_EXAMPLES, ids=lambda path: path.stem)
def test_its_examples_run(page: Path) -> None:
    """All blocks of a page in order, in one namespace, as a reader would paste them."""
    found = examples(page)
    assert any("assert " in text for text in found), "an example shows its result with assert"
    namespace: dict[str, Any] = {"__name__": f"reference_{page.stem}"}
    lines = page.read_text()
    for text in found:
        place = lines[: lines.index(text)].count("\n")
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile("\n" * place + text, str(page), "exec"), namespace)


def test_every_class_that_an_author_uses_is_on_a_page() -> None:
    assert NEEDED - {name.rpartition(".")[2] for name in DOCUMENTED} == set()


def test_each_class_is_on_one_page() -> None:
    assert sorted(SHOWN) == sorted(DOCUMENTED)


def test_every_name_that_plugins_import_is_on_a_page() -> None:
    told = {name.rpartition(".")[2] for name in DOCUMENTED}
    internal = {"NodeTable", "PodListener", "Meta"}  # Meta is msgspec's; the others are for built-in plugins
    assert set(framework.__all__) - internal - told == set()


@pytest.mark.parametrize("method", [point.method for point in POINTS])
def test_every_extension_point_has_an_example(method: str) -> None:
    text = (REFERENCE / "extension-points.md").read_text()
    assert f"\n## {method}\n" in text
    assert re.search(
        rf"^    (?:async )?def {method}\(self", "\n".join(examples(REFERENCE / "extension-points.md")), re.MULTILINE
    )


def test_every_member_on_a_page_is_documented() -> None:
    """By a docstring, by a comment `#: ...`, or in the section Attributes of its class."""
    import griffe  # a tool of `make docs`; the other tests of this module do without

    extension = load_extension()
    loader = griffe.GriffeLoader(
        search_paths=[str(ROOT / "src")], extensions=griffe.load_extensions(extension.MooringDocstrings)
    )
    loader.load("mooring", submodules=True)
    loader.resolve_aliases()
    pages = "\n".join(page.read_text() for page in PAGES)
    missing = []
    for name in sorted(DOCUMENTED):
        found = loader.modules_collection[name]
        found = found.final_target if found.is_alias else found
        chosen = re.search(rf"^::: {re.escape(name)}\n    options:\n      members: \[([^]]*)\]", pages, re.MULTILINE)
        shown = set(chosen[1].split(", ")) if chosen else None
        missing += undocumented(found, shown, extension.is_field)
    assert missing == [], "\n".join(missing)


def load_extension() -> Any:
    """The extension that `make docs` uses."""
    spec = importlib.util.spec_from_file_location("site_docstrings", ROOT / "scripts" / "site_docstrings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def undocumented(found: Any, shown: set[str] | None, is_field: Any) -> list[str]:
    """The paths of a class or function, and of its public members, that have no documentation."""
    missing = [] if found.docstring else [found.path]
    if not found.is_class:
        return missing
    listed = {
        each.name
        for section in (found.docstring.parse("google") if found.docstring else ())
        if section.kind.value == "attributes"
        for each in section.value
    }
    for name, member in found.members.items():
        hidden = name.startswith("_") or (shown is not None and name not in shown)
        in_table = member.is_attribute and is_field(member) and "| Field | Type |" in (found.docstring or member).value
        if not (hidden or in_table or name in listed or member.docstring):
            missing.append(f"{found.path}.{name}")
    return missing
