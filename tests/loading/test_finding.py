"""Finding plugins: files, packages, folders, installed ones, the document in the configuration file."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
import types
from pathlib import Path

import pytest

from mooring.config import ConfigError
from mooring.loading import PluginLoadError, Requested, find_plugins, load_setup
from mooring.loading.plugin_sources import read_sources, schema, split

CONFIG = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
SOURCES = "apiVersion: mooring.dev/v1alpha1\nkind: PluginSources\n"
ROOT = Path(__file__).parents[2]


def plugin(name: str, method: str = "score", body: str = "return 1") -> str:
    head = f"from mooring.framework import Plugin\n\nclass {name}(Plugin):\n"
    return f"{head}    def {method}(self, state, pod, node):\n        {body}\n"


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def enabling(*names: str) -> str:
    listed = ", ".join(f"{{name: {name}}}" for name in names)
    return f"{CONFIG}profiles: [{{plugins: {{multiPoint: {{enabled: [{listed}]}}}}}}]\n"


def refusal(requested: Requested) -> list[str]:
    with pytest.raises(PluginLoadError) as caught:
        find_plugins(requested)
    return str(caught.value).splitlines()


def test_a_folder_of_files_and_packages(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "one.py": plugin("One"),
            "pair/__init__.py": "from .inner.two import Two\nfrom .three import Three as Third\n",
            "pair/inner/__init__.py": "",
            "pair/inner/two.py": "from ..numbers import TEN\n" + plugin("Two", body="return TEN"),
            "pair/three.py": plugin("Three"),
            "pair/numbers.py": "TEN = 10\n",
            "test_one.py": "raise AssertionError('tests are not plugins')\n",
            "_helper.py": "raise AssertionError('not a plugin')\n",
            "..data/one.py": plugin("One"),
            "notes.txt": "",
        },
    )
    catalog = find_plugins(Requested(directories=(tmp_path,)))
    assert set(catalog.found) == {"One", "Two", "Three"}
    assert catalog.classes()["Two"]().score(None, None, None) == 10
    assert catalog.found["Two"].path == tmp_path / "pair"
    assert catalog.found["One"].source == f"--plugins-dir {tmp_path}"


def test_the_same_name_twice(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("Same"), "b.py": plugin("Same")})
    (told,) = refusal(Requested(directories=(tmp_path,)))
    assert told.startswith(
        f"{tmp_path}/b.py: a plugin Same is also in {tmp_path}/a.py; remove one, or give one another"
    )


def test_a_file_that_is_named_and_in_a_folder_is_one_plugin(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("Same")})
    requested = Requested(plugins=(("Same", tmp_path / "a.py"),), directories=(tmp_path,))
    assert find_plugins(requested).found["Same"].source == "--plugin"


def test_a_built_in_plugin_is_replaced_only_when_said(tmp_path: Path) -> None:
    write(tmp_path, {"fit.py": plugin("NodeResourcesFit", "filter", 'return "never"')})
    assert "replaceBuiltin: true" in refusal(Requested(directories=(tmp_path,)))[0]
    said = f"{CONFIG}---\n{SOURCES}directories: [.]\nplugins: [{{name: NodeResourcesFit, replaceBuiltin: true}}]\n"
    setup = load_setup(said, source="f", base=tmp_path)
    points = {point for point, enabled in setup.config.profiles[0].plugins.items() if "Fit" in str(enabled)}
    assert points == {"filter"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("class Gang:\n    def on_session_open(self, session): ...\n", "gang"),
        ("class Mine:\n    name = 'allocate'\n    def execute(self, session): ...\n", "allocate"),
    ],
)
def test_what_batch_sessions_have_built_in_is_replaced_only_when_said(tmp_path: Path, text: str, name: str) -> None:
    write(tmp_path, {"a.py": text})
    (told,) = refusal(Requested(directories=(tmp_path,)))
    assert told.startswith(f"{tmp_path}/a.py: a plugin {name} is built in; give yours another name")
    said = f"{CONFIG}---\n{SOURCES}directories: [.]\nplugins: [{{name: {name}, replaceBuiltin: true}}]\n"
    assert name in load_setup(said, source="f", base=tmp_path).catalog.found


def test_the_names_that_batch_sessions_have_built_in() -> None:
    from mooring.batch.actions import ACTIONS
    from mooring.batch.plugins import PLUGINS
    from mooring.loading import ACTION, SESSION

    assert (SESSION.builtin, ACTION.builtin) == (set(PLUGINS), set(ACTIONS))


def test_a_files_name_does_not_take_the_place_of_a_built_in_plugin(tmp_path: Path) -> None:
    from mooring.live.batch.user_plugins import session_plugins

    write(tmp_path, {"gang.py": "class Magic:\n    def on_session_open(self, session): ...\n"})
    assert set(session_plugins(find_plugins(Requested(directories=(tmp_path,))))) == {"magic"}


def test_what_nobody_enabled_is_told(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("Mine") + plugin("Idle")})
    setup = load_setup(enabling("Mine"), source="f", requested=Requested(directories=(tmp_path,)))
    assert setup.notes == ("plugin Idle is in no profile: enable it under profiles[].plugins.multiPoint",)


def test_a_name_that_nothing_provides(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("NodeNumber")})
    with pytest.raises(ConfigError, match=r'f:3: .*"NodeNumbr" does not exist. Did you mean "NodeNumber"\?'):
        load_setup(enabling("NodeNumbr"), source="f", requested=Requested(directories=(tmp_path,)))


def test_without_a_configuration_all_are_enabled(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("Mine")})
    config = load_setup(None, source="", requested=Requested(directories=(tmp_path,))).config
    assert [entry.name for entry in config.profiles[0].plugins["score"]][-1] == "Mine"


# The document


def test_sources_in_the_configuration_file(tmp_path: Path) -> None:
    write(tmp_path, {"plugins/a.py": plugin("A"), "b.py": plugin("B")})
    text = f"{SOURCES}directories: [plugins]\nplugins: [{{name: B, path: b.py}}]\n---\n{enabling('A', 'B')}"
    setup = load_setup(text, source="f", base=tmp_path)
    assert set(setup.plugins) == {"A", "B"}


def test_line_numbers_hold_in_both_documents(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^f:8: .*percentageOfNodesToScor"):
        load_setup(f"{SOURCES}\n# a comment\n---\n{CONFIG}percentageOfNodesToScor: 3\n", source="f", base=tmp_path)
    with pytest.raises(ConfigError, match=r'^f:6: .*Did you mean "directories"\?'):
        load_setup(f"{CONFIG}---\n{SOURCES}directory: [x]\n", source="f", base=tmp_path)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("directories: 3", "directories: Expected `array`, got `int`"),
        ("plugins: [{path: x.py}]", "missing required field `name`"),
        ("plugins: [{name: A, path: a}, {name: A, path: b}]", r"plugins\[1\].name: A is listed twice"),
        ("plugins: [{name: A, path: a, sha256: 12}]", "sha256"),
        (f"plugins: [{{name: A, sha256: {'a' * 64}}}]", "which file it is in is not said"),
        ("plugins: [", "while parsing|expected|end"),
        ("plugins: [{name: A, failurePolicy: Ignor}]", r"f:3: plugins\[0\].failurePolicy: .*'Ignor'. Write Fail or Ig"),
        ("plugins:\n- name: A\n  budgets: {scor: 5ms}", r"f:5: plugins\[0\].budgets: .*'scor' for a key. Write preE"),
        ("plugins:\n- name: A\n  budgets:\n    filter: 1s\n    score: 5", r"f:7: plugins\[0\].budgets.score: Expected"),
    ],
)
def test_bad_documents(document: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_sources(f"{SOURCES}{document}\n", source="f")


def test_another_version_of_the_document() -> None:
    with pytest.raises(ConfigError, match=r"Write apiVersion: mooring.dev/v1alpha1"):
        read_sources("apiVersion: mooring.dev/v9\nkind: PluginSources\n", source="f")


def test_files_without_the_document_are_left_alone() -> None:
    text = "a: 1\n---\nkind: Other\n"
    assert split(text) == (text, "")


def test_the_schema_in_the_documentation_is_current() -> None:
    assert json.loads((ROOT / "docs/plugins/plugin-sources.schema.json").read_text()) == json.loads(
        json.dumps(schema())
    )


# Pins and permissions


def pinned(path: str, digest: str) -> str:
    return f"{enabling('A')}---\n{SOURCES}plugins: [{{name: A, path: {path}, sha256: {digest}}}]\n"


@pytest.mark.parametrize(
    "layout", [{"a.py": plugin("A")}, {"a/__init__.py": "from .b import A", "a/b.py": plugin("A")}]
)
def test_a_pin_is_checked_before_the_code_runs(tmp_path: Path, layout: dict[str, str]) -> None:
    write(tmp_path, layout)
    path = next(iter(layout)).partition("/")[0]
    digest = find_plugins(Requested(plugins=(("A", tmp_path / path),))).found["A"].sha256
    assert load_setup(pinned(path, digest), source="f", base=tmp_path).plugins
    changed = tmp_path / list(layout)[-1]
    changed.write_text(changed.read_text() + "\nraise SystemExit('it ran')\n")
    with pytest.raises(PluginLoadError, match=f"but {digest} is pinned; review the change"):
        load_setup(pinned(path, digest), source="f", base=tmp_path)


@pytest.mark.parametrize("open_to_all", ["plugins", "plugins/a.py", "plugins/p", "plugins/p/inner.py"])
def test_what_others_can_write_is_refused(tmp_path: Path, open_to_all: str) -> None:
    write(tmp_path, {"plugins/a.py": plugin("A"), "plugins/p/__init__.py": "", "plugins/p/inner.py": ""})
    (tmp_path / open_to_all).chmod(0o777)
    folder = (tmp_path / "plugins",)
    told = refusal(Requested(directories=folder))
    assert told[0].startswith(f"{tmp_path / open_to_all}: can be written by everybody")
    assert "--allow-writable-plugins" in told[0]
    assert "A" in find_plugins(Requested(directories=folder, allow_writable=True)).found


def test_nobody_can_write_where_it_is_mounted_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a ConfigMap in a pod, where the folder itself has all bits set."""
    write(tmp_path, {"plugins/a.py": plugin("A")})
    (tmp_path / "plugins").chmod(0o777)
    whole = os.statvfs(tmp_path)
    flags = whole.f_flag | os.ST_RDONLY
    monkeypatch.setattr(os, "statvfs", lambda _path: types.SimpleNamespace(f_flag=flags))
    assert "A" in find_plugins(Requested(directories=(tmp_path / "plugins",))).found


@pytest.mark.skipif(not hasattr(os, "chown") or os.geteuid() != 0, reason="only root can give files away")
def test_a_group_of_others_may_not_write_either(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("A")})
    (tmp_path / "a.py").chmod(0o664)
    assert find_plugins(Requested(directories=(tmp_path,))).found
    os.chown(tmp_path / "a.py", -1, 12345)
    assert "can be written by the group 12345" in refusal(Requested(directories=(tmp_path,)))[0]


# What a plugin needs


@pytest.mark.parametrize(
    ("requirement", "problem"),
    [
        ("numpy", None),
        ("numpy>=1.5 # for columns", None),
        ("numpy>=999", "but numpy "),
        ("msgspec[yaml]!=0.0.1, <1000", None),
        ("no-such-distribution>=1", "which is not installed; install it:"),
        ("# a comment", None),
        ("-r other.txt", None),
        ("numpy ~> 3", "names no versions"),
        ("???", "is no requirement"),
        ('pywin32; sys_platform == "win32"', None),
    ],
)
def test_requirements_beside_a_plugin(tmp_path: Path, requirement: str, problem: str | None) -> None:
    write(tmp_path, {"a.py": plugin("A"), "a.requirements.txt": f"\n{requirement}\n"})
    requested = Requested(directories=(tmp_path,))
    if problem is None:
        assert find_plugins(requested).found
    else:
        (told,) = refusal(requested)
        assert told.startswith(f"{tmp_path}/a.requirements.txt:2: ")
        assert problem in told


@pytest.mark.parametrize(
    ("files", "place", "told"),
    [
        ({"a.py": "import beside_it\n", "beside_it.py": "1 / 1\n"}, "a.py:1", "and write `from . import beside_it`"),
        ({"p/__init__.py": "\nimport inner\n", "p/inner.py": ""}, "p/__init__.py:2", "write `from . import inner`"),
        ({"a.py": "import no_such_module_anywhere\n"}, "a.py:1", f"install what provides it for {sys.executable}"),
        ({"a.py": "x = (\n"}, "a.py:1", "was never closed"),
        ({"a.py": "x = 1\n1 / 0\n"}, "a.py:2", "ZeroDivisionError: division by zero"),
        ({"a.py": "raise SystemExit\n"}, "a.py:1", "ends the process when it is imported"),
        ({"p/__init__.py": "from . import b", "p/b.py": "x =\n"}, "p/b.py:1", "invalid syntax"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported(tmp_path: Path, files: dict[str, str], place: str, told: str) -> None:
    write(tmp_path, files)
    before = set(sys.modules)
    (line,) = refusal(Requested(directories=(tmp_path,)))
    assert line.startswith(f"{tmp_path}/{place}: ")
    assert told in line
    assert not [name for name in set(sys.modules) - before if name.startswith("mooring_plugins.")]


def test_an_edit_within_the_same_second_is_seen(tmp_path: Path) -> None:
    """Python's own cache of compiled modules would not see it."""
    for number in range(3):
        write(tmp_path, {"edited.py": plugin("A", body=f"return {number}")})
        os.utime(tmp_path / "edited.py", (1, 1))
        catalog = find_plugins(Requested(directories=(tmp_path,)))
        assert catalog.classes()["A"]().score(None, None, None) == number
        catalog.unload()
    assert not (tmp_path / "__pycache__").exists()
    assert not [name for name in sys.modules if name.startswith("mooring_plugins.edited_")]


# Installed packages


def test_plugins_of_installed_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        tmp_path,
        {
            "shipped_plugin.py": plugin("Shipped"),
            "shipped_broken.py": "1 / 0\n",
            "shipped-2.5.dist-info/METADATA": "Metadata-Version: 2.1\nName: shipped\nVersion: 2.5\n",
            "shipped-2.5.dist-info/entry_points.txt": "[mooring.plugins]\nShipped = shipped_plugin:Shipped\n"
            "Broken = shipped_broken:Broken\nWrong = shipped_plugin:Shipped\n",
        },
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    setup = load_setup(enabling("Shipped"), source="f")
    found = setup.catalog.found["Shipped"]
    assert (found.source, found.version) == ("entry point Shipped of shipped", "2.5")
    assert set(setup.catalog.found) == {"Shipped"}, "what nobody asks for is not imported"
    with pytest.raises(PluginLoadError, match="entry point Broken of shipped: ZeroDivisionError"):
        load_setup(enabling("Broken"), source="f")
    with pytest.raises(PluginLoadError, match="shipped_plugin:Shipped is no plugin named Wrong"):
        load_setup(enabling("Wrong"), source="f")
    with pytest.raises(ConfigError, match='"Shipped" does not exist'):
        load_setup(f"{enabling('Shipped')}---\n{SOURCES}entryPoints: false\n", source="f")
    assert importlib.metadata.version("shipped") == "2.5"
    for name in ("shipped_plugin", "shipped_broken"):
        sys.modules.pop(name, None)


def test_session_plugins_are_of_another_kind(tmp_path: Path) -> None:
    from mooring.loading import SESSION

    write(tmp_path, {"magic.py": "class Magic:\n    name = 'magic'\n    def on_session_open(self, session): ...\n"})
    catalog = find_plugins(Requested(directories=(tmp_path,)))
    assert catalog.classes() == {}
    assert set(catalog.classes(SESSION)) == {"magic"}
    write(
        tmp_path,
        {"magic.py": "class Magic:\n    def on_session_open(self): ...\n    def on_sesion_close(self, s): ...\n"},
    )
    told = refusal(Requested(directories=(tmp_path,)))
    assert told[0].endswith(
        "magic.py:2: magic: 'on_session_open' takes (self); write 'def on_session_open(self, session)'"
    )
    assert "did you mean 'def on_session_close(self, session)'?" in told[1]
