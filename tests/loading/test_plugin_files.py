from __future__ import annotations

from pathlib import Path

import pytest

from mooring.loading import PluginLoadError, load_plugin, load_session_plugin, parse_plugin_option
from mooring.loading.plugin_files import in_folder, load_file
from tests.loading.builders import plugin, write

SESSION = "class Magic:\n    def on_session_open(self, session): ...\n"


@pytest.mark.parametrize("option", ["NodeNumber", "=file.py", "Name="])
def test_an_option_must_have_a_name_and_a_file(option: str) -> None:
    with pytest.raises(PluginLoadError, match="is not NAME=FILE"):
        parse_plugin_option(option)


def test_an_option_is_split_at_the_first_equals_sign() -> None:
    assert parse_plugin_option("A=plugins/a=b.py") == ("A", Path("plugins/a=b.py"))


def test_a_plugin_is_loaded_only_as_its_kind(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("A"), "magic.py": SESSION})
    assert load_plugin("A", tmp_path / "a.py").name == "A"
    assert load_session_plugin("magic", tmp_path / "magic.py").__name__ == "Magic"
    with pytest.raises(PluginLoadError, match="is a plugin for batch sessions, not for pods"):
        load_plugin("magic", tmp_path / "magic.py")
    with pytest.raises(PluginLoadError, match="is not a plugin for batch sessions"):
        load_session_plugin("A", tmp_path / "a.py")
    with pytest.raises(PluginLoadError, match=r"defines no plugin B \(it defines A\)"):
        load_plugin("B", tmp_path / "a.py")


def test_an_unchanged_file_returns_the_known_plugins(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("A")})
    first = load_file(tmp_path / "a.py", "test")
    assert load_file(tmp_path / "a.py", "test", known=first) == first
    write(tmp_path, {"a.py": plugin("A", body="return 2")})
    assert load_file(tmp_path / "a.py", "test", known=first)[0].cls is not first[0].cls


def test_a_folder_must_exist(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("A")})
    with pytest.raises(PluginLoadError, match="no such folder"):
        in_folder(tmp_path / "nowhere")
    with pytest.raises(PluginLoadError, match="is not a folder; use --plugin NAME=FILE"):
        in_folder(tmp_path / "a.py")
