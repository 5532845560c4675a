"""Search spaces and the configurations of their choices."""

from __future__ import annotations

import pytest

from mooring.api.yaml_writer import documents_text
from mooring.config import default_config
from mooring.loading import Requested, load_setup
from mooring.simulation.sources import InputError
from mooring.simulation.tuning.space import Parameter, Space


def load(space: Space, choice: dict) -> object:
    return load_setup(documents_text(space.configuration(choice)), source="trial", requested=Requested()).config


def test_no_choice_is_the_present_configuration() -> None:
    config = default_config()
    space = Space(config)
    for choice in ({}, space.current()):
        loaded = load(space, choice)
        assert loaded.profiles[0].plugins == config.profiles[0].plugins
        assert loaded.profiles[0].plugin_config == config.profiles[0].plugin_config
        assert loaded.tie_break == "random"


def test_a_choice() -> None:
    space = Space(default_config(), {"weight/ImageLocality": [0, 9], "tieBreak": ["random", "stable"]})
    assert space.current() == {"weight/ImageLocality": 1, "tieBreak": "random"}
    choice = {
        "weight/ImageLocality": 0,
        "weight/NodeAffinity": 7,
        "NodeResourcesFit/scoringStrategy.type": "MostAllocated",
        "NodeResourcesFit/scoringStrategy.resources.1.weight": 5,
        "tieBreak": "stable",
    }
    loaded = load(space, choice)
    weights = {each.name: each.weight for each in loaded.profiles[0].plugins["score"]}
    assert "ImageLocality" not in weights
    assert weights["NodeAffinity"] == 7
    strategy = loaded.profiles[0].plugin_config["NodeResourcesFit"]["scoringStrategy"]
    assert (strategy["type"], [each["weight"] for each in strategy["resources"]]) == ("MostAllocated", [1, 5])
    assert loaded.tie_break == "stable"


def test_documents() -> None:
    document = {"A/x": [0.5, 2], "A/y": [1, 4], "A/z": ["low", "high", "all"], "A/flag": [True, False]}
    assert Space(default_config(), document).parameters == {
        "A/x": Parameter(0.5, 2),
        "A/y": Parameter(1, 4),
        "A/z": Parameter(choices=("low", "high", "all")),
        "A/flag": Parameter(choices=(True, False)),
    }


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({}, "the search space is empty"),
        ({"weight/Fit": [0, 1]}, "Fit is no enabled Score plugin"),
        ({"size": [0, 1]}, "give weight/PLUGIN"),
        ({"A/x": 3}, "give a list of choices"),
        ({"A/x": [[1]]}, "a choice must be text"),
    ],
)
def test_invalid_documents(document: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Space(default_config(), document)


def test_a_path_that_does_not_exist() -> None:
    space = Space(default_config(), {"NodeResourcesFit/scoringStrategy.resources.9.weight": [1, 5]})
    with pytest.raises(InputError, match="there is no item 9"):
        space.configuration({"NodeResourcesFit/scoringStrategy.resources.9.weight": 2})
