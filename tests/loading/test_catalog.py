from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import pytest

from mooring.config import ConfigError
from mooring.loading import PluginLoadError, Requested, find_plugins, load_setup
from tests.loading.builders import CONFIG, SOURCES, enabling, load_errors, plugin, write


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


def test_two_plugins_with_the_same_name(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("Same"), "b.py": plugin("Same")})
    (told,) = load_errors(Requested(directories=(tmp_path,)))
    assert told.startswith(
        f"{tmp_path}/b.py: a plugin Same is also in {tmp_path}/a.py; remove one, or give one another"
    )


def test_a_file_that_is_named_and_in_a_folder_is_one_plugin(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("Same")})
    requested = Requested(plugins=(("Same", tmp_path / "a.py"),), directories=(tmp_path,))
    assert find_plugins(requested).found["Same"].source == "--plugin"


def test_a_built_in_plugin_is_replaced_only_if_configured(tmp_path: Path) -> None:
    write(tmp_path, {"fit.py": plugin("NodeResourcesFit", "filter", 'return "never"')})
    assert "replaceBuiltin: true" in load_errors(Requested(directories=(tmp_path,)))[0]
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
def test_a_built_in_session_plugin_is_replaced_only_if_configured(tmp_path: Path, text: str, name: str) -> None:
    write(tmp_path, {"a.py": text})
    (told,) = load_errors(Requested(directories=(tmp_path,)))
    assert told.startswith(f"{tmp_path}/a.py: a plugin {name} is built in; rename yours")
    said = f"{CONFIG}---\n{SOURCES}directories: [.]\nplugins: [{{name: {name}, replaceBuiltin: true}}]\n"
    assert name in load_setup(said, source="f", base=tmp_path).catalog.found


def test_the_name_of_a_file_does_not_replace_a_built_in_plugin(tmp_path: Path) -> None:
    from mooring.live.batch.batch_settings import session_plugins

    write(tmp_path, {"gang.py": "class Magic:\n    def on_session_open(self, session): ...\n"})
    assert set(session_plugins(find_plugins(Requested(directories=(tmp_path,))))) == {"magic"}


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
    assert set(setup.catalog.found) == {"Shipped"}, "plugins that are not requested are not imported"
    with pytest.raises(PluginLoadError, match="entry point Broken of shipped: ZeroDivisionError"):
        load_setup(enabling("Broken"), source="f")
    with pytest.raises(PluginLoadError, match="shipped_plugin:Shipped is not a plugin named Wrong"):
        load_setup(enabling("Wrong"), source="f")
    with pytest.raises(ConfigError, match='"Shipped" does not exist'):
        load_setup(f"{enabling('Shipped')}---\n{SOURCES}entryPoints: false\n", source="f")
    assert importlib.metadata.version("shipped") == "2.5"
    for name in ("shipped_plugin", "shipped_broken"):
        sys.modules.pop(name, None)
