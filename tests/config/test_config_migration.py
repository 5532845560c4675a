"""A migrated file is v1 and runs what the old one ran, less what is gone; and it is said what changed."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from mooring.config import ConfigError, SchedulerConfiguration, load_config
from mooring.config.builtin_plugins import RETIRED, served
from mooring.config.config_migration import Migration, migrate
from mooring.config.schema import POINTS
from mooring.releases import V1_36
from tests.config.golden_compare import cases
from tests.config.helpers import STUBS, text

OLD = [case for case, expected in cases() if expected["ok"] and not case["id"].startswith("v1/")]


def migrated(body: str = "", *, version: str = "v1beta2") -> Migration:
    return migrate(text(body, version=version), source="f.yaml", plugins=STUBS)


def profile(migration: Migration) -> Any:
    return yaml.safe_load(migration.text)["profiles"][0]


def runs(config: SchedulerConfiguration, keep: Any) -> list[list[list[tuple[str, int]]]]:
    return [
        [[(each.name, each.weight) for each in one.plugins[point] if keep(each.name, point)] for point in POINTS]
        for one in config.profiles
    ]


@pytest.mark.parametrize("chunk", range(4))
def test_golden_files_mean_the_same(chunk: int) -> None:
    for case in OLD[chunk::4]:
        old = load_config(case["config"], source="f", plugins=STUBS)
        converted = migrate(case["config"], source="f", plugins=STUBS).text
        new = load_config(converted, source="g", plugins=STUBS, release=V1_36)
        assert new.version == "v1"
        known = served(old.version, old.release)
        before = runs(old, lambda name, _: name not in RETIRED and name != "DynamicResources")
        # What a plugin does only in newer releases comes on top.
        after = runs(new, lambda name, point: name in STUBS or point in known.get(name, ()))  # noqa: B023
        assert before == after, case["id"]
        assert (old.leader_election, old.client_connection) == (new.leader_election, new.client_connection)
        assert (old.extenders, old.parallelism) == (new.extenders, new.parallelism)


def test_weights_of_v1beta2_are_kept() -> None:
    result = migrated()
    score = {entry["name"]: entry["weight"] for entry in profile(result)["plugins"]["score"]["enabled"]}
    assert (score["InterPodAffinity"], score["NodeAffinity"], score["TaintToleration"]) == (1, 1, 1)
    assert any("NodeAffinity 1 (v1: 2)" in note for note in result.notes)


def test_new_defaults_are_off() -> None:
    result = migrated(version="v1beta3")
    assert profile(result)["plugins"] == {
        "multiPoint": {"disabled": [{"name": "DynamicResources"}, {"name": "NodeDeclaredFeatures"}]}
    }
    assert any("DynamicResources and NodeDeclaredFeatures" in note for note in result.notes)


@pytest.mark.parametrize(
    ("version", "body", "note"),
    [
        ("v1beta2", "metricsBindAddress: ''", "metricsBindAddress is removed"),
        (
            "v1beta2",
            "profiles: [{plugins: {multiPoint: {enabled: [{name: X}]}}}]",
            "v1beta2 ignored plugins.multiPoint",
        ),
        (
            "v1beta3",
            "profiles: [{plugins: {preEnqueue: {enabled: [{name: X}]}}}]",
            "v1beta3 ignored plugins.preEnqueue",
        ),
        ("v1beta3", "", "removed, because v1 does not have them: AzureDiskLimits, EBSLimits, GCEPDLimits"),
        ("v1beta3", "profiles: [{plugins: {score: {enabled: [{name: SelectorSpread}]}}}]", "SelectorSpread;"),
        ("v1beta3", "profiles: [{pluginConfig: [{name: EBSLimits}]}]", "the arguments of EBSLimits are removed"),
        ("v1beta3", "profiles: [{pluginConfig: [{name: DynamicResources, args: 5}]}]", "arguments of DynamicResources"),
        (
            "v1beta3",
            "profiles: [{plugins: {filter: {enabled: [{name: DynamicResources}]}}}]",
            "had no effect in v1beta3",
        ),
        ("v1beta3", "profiles: [{plugins: {filter: {enabled: [{name: Mine}]}}}]", "Mine is not built in"),
        (
            "v1beta2",
            (
                "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated,"
                " requestedToCapacityRatio: {shape: [{}]}}}}]}]"
            ),
            "requestedToCapacityRatio is removed",
        ),
        ("v1beta2", "", "preFilter is written out to keep its order"),
        ("v1beta3", "", "DefaultPreemption also runs at preEnqueue"),
        ("v1", "", "already"),
    ],
)
def test_notes(version: str, body: str, note: str) -> None:
    assert [each for each in migrated(body, version=version).notes if note in each]


def test_what_a_user_added_stays_short() -> None:
    body = """\
    profiles:
    - schedulerName: mine
      plugins:
        filter: {enabled: [{name: Mine}], disabled: [{name: NodePorts}]}
        score: {enabled: [{name: ScoreByName, weight: 4}]}
      pluginConfig:
      - name: NodeAffinity
        args: {apiVersion: kubescheduler.config.k8s.io/v1beta3, kind: NodeAffinityArgs}
      - {name: Mine, args: {mode: 'on'}}
    """
    result = profile(migrated(body, version="v1beta3"))
    assert result["plugins"]["filter"] == {"enabled": [{"name": "Mine"}], "disabled": [{"name": "NodePorts"}]}
    assert result["plugins"]["score"] == {"enabled": [{"name": "ScoreByName", "weight": 4}]}
    assert result["pluginConfig"] == [{"name": "NodeAffinity", "args": {}}, {"name": "Mine", "args": {"mode": "on"}}]


def test_fit_keeps_arguments_where_an_extender_needs_them() -> None:
    body = """\
    extenders: [{urlPrefix: a, managedResources: [{name: x.com/y, ignoredByScheduler: true}]}]
    profiles:
    - plugins: {preFilter: {disabled: [{name: NodeResourcesFit}]}, filter: {disabled: [{name: NodeResourcesFit}]},
        preScore: {disabled: [{name: NodeResourcesFit}]}, score: {disabled: [{name: NodeResourcesFit}]}}
    """
    result = profile(migrated(body, version="v1beta3"))
    assert result["pluginConfig"] == [{"name": "NodeResourcesFit", "args": {}}]


def test_the_result_needs_no_further_migration() -> None:
    once = migrated()
    assert migrate(once.text, source="f", plugins=STUBS).text == once.text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("parallelism: 0", "is not above 0"),
        ("foo: 1", "unknown field"),
        ("profiles: [{plugins: {multiPoint: {enabled: [{name: Mine}]}}}]", "Load it with --plugin Mine=FILE"),
        ("profiles: [{plugins: {multiPoint: {enabled: [{name: ScoreByName, weight: -1}]}}}]", "v1 cannot express this"),
    ],
)
def test_what_cannot_be_migrated(body: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        migrated(body, version="v1beta3")
    assert message in str(caught.value)
