from __future__ import annotations

from pathlib import Path

import pytest

from mooring.config import ConfigError
from mooring.loading import Requested, load_setup
from mooring.releases import release_named, with_gates
from tests.loading.builders import CONFIG, SOURCES, enabling, plugin, write


def test_plugins_in_no_profile_are_noted(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("Mine") + plugin("Idle")})
    setup = load_setup(enabling("Mine"), source="f", requested=Requested(directories=(tmp_path,)))
    assert setup.notes == ("plugin Idle is in no profile: enable it under profiles[].plugins.multiPoint",)


def test_plugins_whose_feature_gate_is_off_are_noted(tmp_path: Path) -> None:
    body = "def score_placements(self, proposed):\n        return 1"
    write(tmp_path, {"a.py": f"from mooring.framework import Plugin\n\nclass Racks(Plugin):\n    {body}\n"})
    requested = Requested(directories=(tmp_path,))
    text = "plugin Racks is not called at placementScore: the feature gate TopologyAwareWorkloadScheduling is off"
    assert load_setup(enabling("Racks"), source="f", requested=requested).notes == (text,)
    assert load_setup(None, source="", requested=requested).notes == (text,)
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
    release = with_gates(release_named("1.37"), gates)[0]
    assert load_setup(enabling("Racks"), source="f", requested=requested, release=release).notes == ()


def test_a_plugin_that_generates_placements_replaces_the_default_one(tmp_path: Path) -> None:
    body = "def generate_placements(self, group, scheduled, nodes):\n        return None"
    write(tmp_path, {"a.py": f"from mooring.framework import Plugin\n\nclass Racks(Plugin):\n    {body}\n"})
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True}
    release = with_gates(release_named("1.37"), gates)[0]
    config = load_setup(None, source="", requested=Requested(directories=(tmp_path,)), release=release).config
    assert [entry.name for entry in config.profiles[0].plugins["placementGenerate"]] == ["Racks"]


def test_an_unknown_plugin_name(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("NodeNumber")})
    with pytest.raises(ConfigError, match=r'f:3: .*"NodeNumbr" does not exist. Did you mean "NodeNumber"\?'):
        load_setup(enabling("NodeNumbr"), source="f", requested=Requested(directories=(tmp_path,)))


def test_without_a_configuration_all_plugins_are_enabled(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": plugin("Mine")})
    config = load_setup(None, source="", requested=Requested(directories=(tmp_path,))).config
    assert [entry.name for entry in config.profiles[0].plugins["score"]][-1] == "Mine"


def test_sources_in_the_configuration_file(tmp_path: Path) -> None:
    write(tmp_path, {"plugins/a.py": plugin("A"), "b.py": plugin("B")})
    text = f"{SOURCES}directories: [plugins]\nplugins: [{{name: B, path: b.py}}]\n---\n{enabling('A', 'B')}"
    setup = load_setup(text, source="f", base=tmp_path)
    assert set(setup.plugins) == {"A", "B"}


def test_line_numbers_are_correct_in_both_documents(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^f:8: .*percentageOfNodesToScor"):
        load_setup(f"{SOURCES}\n# a comment\n---\n{CONFIG}percentageOfNodesToScor: 3\n", source="f", base=tmp_path)
    with pytest.raises(ConfigError, match=r'^f:6: .*Did you mean "directories"\?'):
        load_setup(f"{CONFIG}---\n{SOURCES}directory: [x]\n", source="f", base=tmp_path)
