"""The repository itself: documents, layout, language and dependencies."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.cli.main import COMMANDS

ROOT = Path(__file__).parent.parent
GENERATED = {".git", ".venv", "build", "dist", "__pycache__"}
BINARY = {".gz", ".png", ".pyc", ".wasm"}
MAX_LINES, SMALL_LINES = 600, 70
SOURCE = ROOT / "src" / "mooring"
#: One file per plugin, action or kind, as upstream.
ONE_FILE_EACH = (
    "apiserver/volcano_admission/",
    "plugins/",
    "batch/plugins/",
    "batch/actions/",
    "cluster/kinds/",
    "controllers/jobs/plugins/",
)
#: Small modules with one importer that are a concept of their own.
SMALL_CONCEPTS = {
    "config/extender_tls.py",
    "controllers/jobs/job_ttl.py",
    "controllers/roles.py",
    "late_certificates.py",
    "live/api_reader.py",
    "live/volumes.py",
}
#: These numbers may only shrink.
MAX_UNTESTED_MODULES, MAX_OLD_PHRASES = 159, 0
OLD_PHRASES = re.compile(
    r"\b(?:whom|nobody|is believed|of ours|had not|be had|(?<!long )as it is|in force|no business|less than nothing"
    r"|passed over|so (?:often|many|long) before|lets us|looked after|turn(?:s|ed)? (?:\w+ )?(?:up|down)"
    r"|gone about|has a say|have a say|see to it|thinks of|to the letter)\b",
    re.IGNORECASE,
)

#: Written so that this file does not contain what it looks for.
HOSTS = [
    name.replace("(dot)", ".")
    for name in (
        "pypi(dot)org",
        "pythonhosted(dot)org",
        "docker(dot)io",
        "gcr(dot)io",
        "quay(dot)io",
        "registry(dot)k8s(dot)io",
        "npmjs(dot)org",
        "proxy(dot)golang(dot)org",
    )
]
#: The folder of SSH keys is a place in containers: the default of the job plugin ssh.
MACHINE_PATHS = re.compile(
    "|".join(f"(?<![\\w.])/{name}/(?!\\.ssh\\b)" for name in ("work", "root", "farm", "tmp", r"home/\w+"))
)


def files() -> Iterator[Path]:
    """Every text file that is, or could be, committed."""
    for path in sorted(ROOT.rglob("*")):
        parts = path.relative_to(ROOT).parts
        hidden = any(part.startswith(".") and part not in (".ci", ".gitignore") for part in parts)
        if path.is_file() and not hidden and not GENERATED & set(parts) and path.suffix not in BINARY:
            yield path


FILES = list(files())
DOCUMENTS = [path for path in FILES if path.suffix == ".md"]
PYTHON = [path for path in FILES if path.suffix == ".py"]
MODULES = [path for path in PYTHON if path.is_relative_to(SOURCE)]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_commands_in_documents_exist(path: Path) -> None:
    text = path.read_text()
    for command in re.findall(r"(?<![\w-])(?<!from )(?<!install )(?<!upgrade )mooring ([a-z][a-z-]*)", code(text)):
        assert command in COMMANDS, f"mooring {command}"
    for target in re.findall(r"(?<![\w-])make (?:[A-Z]+=\S+ )*([a-z][a-z0-9-]*)", code(text)):
        assert target in targets(), f"make {target}"


def code(text: str) -> str:
    """What stands in backticks, in fences or indented by four."""
    blocks = re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL)
    indented = re.findall(r"^ {4}.*$", text, re.MULTILINE)
    return "\n".join([*blocks, *indented])


def test_the_first_screen_of_the_readme_has_both_commands_and_a_plugin() -> None:
    screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:40])
    assert "make demo" in screen
    assert "make test" in screen
    assert "class NodeNumber(Plugin)" in screen


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_links_in_documents_lead_somewhere(path: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if "://" not in link and not link.startswith("#"):
            assert (path.parent / link.partition("#")[0]).exists(), link


def test_no_file_names_a_registry_host_or_a_place_on_one_machine() -> None:
    found = []
    for path in FILES:
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{name(path)}: {host}" for host in HOSTS if host in text]
        found += [f"{name(path)}: {match[0]}" for match in MACHINE_PATHS.finditer(text)]
    assert found == []


def test_no_module_is_longer_than_the_ceiling() -> None:
    lengths = {name(path): len(path.read_text().splitlines()) for path in PYTHON}
    assert {path: lines for path, lines in lengths.items() if lines > MAX_LINES} == {}


# A module is one concept


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers() -> dict[str, set[str]]:
    """Module -> the modules that import it."""
    modules = {module_name(path): path for path in MODULES}
    found: dict[str, set[str]] = {module: set() for module in modules}
    for importer, path in modules.items():
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for each in names:
                if each in found and each != importer:
                    found[each].add(importer)
    return found


def test_small_modules_have_several_importers() -> None:
    """A small module that one other module imports belongs in that module."""
    used = importers()
    small = {
        str(path.relative_to(SOURCE))
        for path in MODULES
        if len(path.read_text().splitlines()) < SMALL_LINES
        and path.name not in ("__init__.py", "__main__.py")
        and len(used[module_name(path)]) == 1
    }
    assert {path for path in small if not path.startswith(ONE_FILE_EACH)} <= SMALL_CONCEPTS


def test_modules_have_a_test_of_their_own_name() -> None:
    tests = {path.stem.removeprefix("test_") for path in PYTHON if path.stem.startswith("test_")}
    untested = {name(path) for path in MODULES if path.name not in ("__init__.py", "__main__.py")}
    untested = {path for path in untested if Path(path).stem not in tests}
    assert len(untested) <= MAX_UNTESTED_MODULES, sorted(untested)


# Plain English


def test_help_log_and_documentation_are_plain_english() -> None:
    """Phrases from the old vocabulary do not come back."""
    found = []
    golden = ROOT / "tests" / "golden"
    for path in [*MODULES, *DOCUMENTS, *(ROOT / "charts").rglob("*.yaml")]:
        if path.is_relative_to(golden):
            continue
        for number, line in enumerate(path.read_text().splitlines(), start=1):
            found += [f"{name(path)}:{number}: {match[0]}" for match in OLD_PHRASES.finditer(line)]
    assert len(found) <= MAX_OLD_PHRASES, found


@pytest.mark.parametrize("folder", sorted((ROOT / "examples" / "plugins").iterdir()), ids=lambda path: path.name)
def test_every_example_plugin_has_a_test_and_a_short_readme(folder: Path) -> None:
    if folder.name in GENERATED:
        return
    assert (folder / f"{folder.name}.py").is_file()
    assert (folder / f"test_{folder.name}.py").is_file()
    assert len((folder / "README.md").read_text().splitlines()) <= 15


def test_the_plugin_of_the_readme_works() -> None:
    from mooring.framework import Plugin
    from mooring.testing import make_node, make_pod, run_plugin

    text = (ROOT / "README.md").read_text()
    source = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    assert source is not None
    space: dict[str, type[Plugin]] = {}
    exec(source[1], space)
    result = run_plugin(space["NodeNumber"], make_pod("p1").obj(), nodes=[make_node("n1").obj(), make_node("n2").obj()])
    assert result.scores == {"n1": 10, "n2": 0}
