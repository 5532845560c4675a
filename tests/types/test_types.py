"""mypy and pyright, both strict, on what plugin authors write: the gallery, the scaffolds, the examples in docstrings.

pyright is run as basedpyright, which is the same checker in a wheel with its own runtime: it downloads nothing.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import mooring
from mooring import framework
from mooring.cli.scaffold.method_examples import EXAMPLES
from mooring.cli.scaffold.pod_plugin import PodPlugin
from mooring.cli.scaffold.session_plugin import session_files
from mooring.framework import extension_points

ROOT = Path(__file__).parents[2]
MISTAKES = Path(__file__).with_name("mistakes.py")
#: Scripts of the gallery that are no plugins.
SCRIPTS = {"train.py", "measure.py"}
#: File -> line -> messages.
Reports = dict[str, dict[int, list[str]]]


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all files to check, as they would be in an author's project."""
    folder = tmp_path_factory.mktemp("types")
    shutil.copy(MISTAKES, folder / "mistakes.py")
    for path in [*ROOT.glob("examples/plugins/*/*.py"), *ROOT.glob("examples/batch/plugins/*.py")]:
        if path.name not in SCRIPTS and not path.name.startswith("test_"):
            shutil.copy(path, folder / f"gallery_{path.name}")
    scaffolds = [
        PodPlugin("AllPoints", EXAMPLES).files(),
        PodPlugin("WithKind", ["filter", "score_nodes"], "Rack").files(),
    ]
    scaffolds += [PodPlugin(f"Only{number}", [point]).files() for number, point in enumerate(EXAMPLES)]
    for files in (*scaffolds, session_files("MySession")):
        for name, text in files.items():
            if name.endswith(".py"):
                (folder / name).write_text(text)
    (folder / "docstrings.py").write_text(docstring_examples())
    return folder


def docstring_examples() -> str:
    """Return a plugin with the example of every extension point."""
    tree = ast.parse(Path(extension_points.__file__).read_text())
    points = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "ExtensionPoints")
    body = 'COUNT: StateKey[int] = StateKey("count")\n\n\nclass Examples(Plugin):\n'
    body += "    def setup(self) -> None:\n        self.reserved: dict[str, str] = {}\n"
    body += "        self.prices: dict[str, float] = {}\n"
    for method in points.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            found = re.search(r"```python\n(.*?)```", ast.get_docstring(method) or "", re.DOTALL)
            assert found is not None, f"{method.name} has no example"
            body += "\n" + textwrap.indent(found[1], "    ")
    used = [name for name in framework.__all__ if re.search(rf'(?<!")\b{name}\b', body)]
    text = "import asyncio\nfrom collections.abc import Awaitable, Sequence\n\n"
    text += "import numpy as np\nimport numpy.typing as npt\n\n"
    text += f"from mooring.framework import {', '.join(used)}\n"
    return text + "from mooring.framework.preemption import AskExtenders, Evaluator\n\n" + body


def run(*command: str, cwd: Path) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def mypy(folder: Path) -> Reports:
    cache = ROOT / ".mypy_cache" / "authors"
    options = ("--strict", "--config-file=", f"--cache-dir={cache}", "--output=json")
    found: Reports = {}
    for line in run(sys.executable, "-m", "mypy", *options, ".", cwd=folder).splitlines():
        if line.startswith("{"):
            each = json.loads(line)
            if each["severity"] == "error":
                found.setdefault(each["file"], {}).setdefault(each["line"], []).append(each["message"])
    return found


def diagnostics(folder: Path, mode: str) -> list[dict[str, Any]]:
    (folder / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": mode, "include": ["."]}))
    checker = Path(sys.executable).with_name("basedpyright" + (".exe" if os.name == "nt" else ""))
    text = run(str(checker), "--outputjson", "--pythonpath", sys.executable, cwd=folder)
    found: list[dict[str, Any]] = json.loads(text)["generalDiagnostics"]
    return found


def pyright(folder: Path) -> Reports:
    found: Reports = {}
    for each in diagnostics(folder, mode="strict"):
        if each["severity"] == "error":
            line = each["range"]["start"]["line"] + 1
            found.setdefault(Path(each["file"]).name, {}).setdefault(line, []).append(each["message"])
    return found


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_only_the_mistakes_are_reported(checker: object, sources: Path) -> None:
    assert callable(checker)
    found: Reports = checker(sources)
    mistakes: Mapping[int, list[str]] = found.pop("mistakes.py", {})
    assert found == {}
    marked = {
        number for number, line in enumerate(MISTAKES.read_text().splitlines(), start=1) if line.endswith("# mistake")
    }
    assert {line: mistakes[line] for line in mistakes if line not in marked} == {}
    assert marked - set(mistakes) == set()


UNANNOTATED = """\
from mooring.batch import SessionPlugin
from mooring.framework import Plugin

class Mine(Plugin):
    def score(self, state, pod, node):
        reveal_type(state)
        reveal_type(pod)
        reveal_type(node)
        return 0

class InSessions(SessionPlugin):
    def on_session_open(self, session):
        reveal_type(session)
"""


def test_editors_know_the_parameters_of_methods_without_annotations(tmp_path: Path) -> None:
    """Editors with pyright (Pylance, basedpyright) complete ``pod.`` by these types."""
    (tmp_path / "mine.py").write_text(UNANNOTATED)
    found = diagnostics(tmp_path, mode="basic")
    shown = [re.findall('"(.*?)"', each["message"]) for each in found if each["severity"] == "information"]
    assert shown == [["state", "CycleState"], ["pod", "Pod"], ["node", "NodeInfo"], ["session", "Session"]]


def test_the_package_declares_that_it_is_typed() -> None:
    assert Path(mooring.__file__).with_name("py.typed").exists()


def test_authors_can_import_every_type_of_an_extension_point() -> None:
    text = Path(extension_points.__file__).read_text()
    used = set(
        re.findall(r"\b[A-Z][a-zA-Z]+\b", " ".join(re.findall(r"^    (?:async )?def (.*):$", text, re.MULTILINE)))
    )
    own = {"Answer", "Score", "Scores", "Awaitable", "Iterable", "Sequence", "NDArray", "None", "AskExtenders"}
    assert used - own <= set(framework.__all__)
