"""Enabling, disabling, re-ordering and re-weighting plugins, at single points and under multiPoint."""

from __future__ import annotations

import pytest

from tests.config.helpers import load

SCORE = (
    "TaintToleration:3 NodeAffinity:2 NodeResourcesFit:1 VolumeBinding:1 PodTopologySpread:2 InterPodAffinity:2"
    " DynamicResources:2 NodeResourcesBalancedAllocation:1 ImageLocality:1"
)
PRE_FILTER = (
    "NodeAffinity NodePorts NodeResourcesFit VolumeRestrictions NodeVolumeLimits VolumeBinding VolumeZone"
    " PodTopologySpread InterPodAffinity DynamicResources NodeDeclaredFeatures"
)


def runs(plugins: str, point: str, *, version: str = "v1") -> str:
    """What runs at a point, as `A B:2`."""
    config = load(f"profiles: [{{plugins: {plugins}}}]", version=version)
    entries = config.profiles[0].plugins[point]
    return " ".join(f"{each.name}:{each.weight}" if each.weight else each.name for each in entries)


@pytest.mark.parametrize(
    ("plugins", "point", "expected"),
    [
        # Nothing said: the defaults, expanded from multiPoint.
        ("{}", "score", SCORE),
        ("{}", "preFilter", PRE_FILTER),
        ("{}", "preEnqueue", "SchedulingGates DynamicResources DefaultPreemption"),
        ("{}", "postFilter", "DynamicResources DefaultPreemption"),
        ("{}", "reserve", "VolumeBinding DynamicResources"),
        ("{}", "permit", ""),
        # Enabled at a point: after the defaults, weight 1 unless given.
        ("{score: {enabled: [{name: ScoreByName}]}}", "score", f"{SCORE} ScoreByName:1"),
        ("{score: {enabled: [{name: ScoreByName, weight: 7}]}}", "score", f"{SCORE} ScoreByName:7"),
        # A default named at a point moves to the front and takes the weight given there.
        (
            "{score: {enabled: [{name: ImageLocality, weight: 9}]}}",
            "score",
            f"ImageLocality:9 {SCORE.removesuffix(' ImageLocality:1')}",
        ),
        (
            "{score: {enabled: [{name: ImageLocality}]}}",
            "score",
            f"ImageLocality:1 {SCORE.removesuffix(' ImageLocality:1')}",
        ),
        # Disabled at a point: gone there only.
        ("{score: {disabled: [{name: ImageLocality}]}}", "score", SCORE.removesuffix(" ImageLocality:1")),
        ("{filter: {disabled: [{name: NodeAffinity}]}}", "preFilter", PRE_FILTER),
        ("{score: {disabled: [{name: '*'}]}}", "score", ""),
        ("{score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: 4}]}}", "score", "ImageLocality:4"),
        # Disabled and enabled: after the others.
        (
            "{score: {disabled: [{name: TaintToleration}], enabled: [{name: TaintToleration}]}}",
            "score",
            f"{SCORE.removeprefix('TaintToleration:3 ')} TaintToleration:1",
        ),
        # multiPoint: in all points that the plugin serves.
        ("{multiPoint: {enabled: [{name: NodeCRDResourceFit, weight: 3}]}}", "score", f"{SCORE} NodeCRDResourceFit:3"),
        ("{multiPoint: {enabled: [{name: BlockAll}]}}", "preFilter", f"{PRE_FILTER} BlockAll"),
        ("{multiPoint: {enabled: [{name: TaintToleration, weight: 5}]}}", "score", SCORE.replace("ion:3", "ion:5", 1)),
        (
            "{multiPoint: {disabled: [{name: TaintToleration}], enabled: [{name: TaintToleration, weight: 5}]}}",
            "score",
            f"{SCORE.removeprefix('TaintToleration:3 ')} TaintToleration:5",
        ),
        (
            (
                "{multiPoint: {enabled: [{name: ScoreByName, weight: 2}]},"
                " score: {enabled: [{name: ScoreByName, weight: 8}]}}"
            ),
            "score",
            f"ScoreByName:8 {SCORE}",
        ),
        (
            "{multiPoint: {enabled: [{name: ScoreByName, weight: 2}]}, score: {disabled: [{name: ScoreByName}]}}",
            "score",
            SCORE,
        ),
        # multiPoint: '*' drops the defaults, not what is named.
        (
            "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]}}",
            "filter",
            "",
        ),
        (
            (
                "{multiPoint: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}, {name: DefaultBinder}]},"
                " filter: {enabled: [{name: NodeName}]}}"
            ),
            "filter",
            "NodeName",
        ),
        # Twice under multiPoint, but hidden wherever it would run.
        (
            (
                "{multiPoint: {enabled: [{name: ScoreByName, weight: 2}, {name: ScoreByName}]},"
                " score: {enabled: [{name: ScoreByName, weight: 4}]}}"
            ),
            "score",
            f"ScoreByName:4 {SCORE}",
        ),
        # Disabling what does not run does nothing.
        ("{filter: {disabled: [{name: NoSuchPlugin}]}}", "preFilter", PRE_FILTER),
    ],
)
def test_v1(plugins: str, point: str, expected: str) -> None:
    assert runs(plugins, point) == expected


BETA2_SCORE = (
    "NodeResourcesBalancedAllocation:1 ImageLocality:1 InterPodAffinity:1 NodeResourcesFit:1 NodeAffinity:1"
    " PodTopologySpread:2 TaintToleration:1"
)


@pytest.mark.parametrize(
    ("version", "plugins", "point", "expected"),
    [
        ("v1beta2", "{}", "score", BETA2_SCORE),
        ("v1beta2", "{}", "preEnqueue", "SchedulingGates"),
        (
            "v1beta2",
            "{}",
            "preFilter",
            (
                "NodeResourcesFit NodePorts VolumeRestrictions PodTopologySpread InterPodAffinity"
                " VolumeBinding VolumeZone NodeAffinity"
            ),
        ),
        # Defaults are per point there, so that a default named again keeps its place.
        (
            "v1beta2",
            "{score: {enabled: [{name: ImageLocality, weight: 9}]}}",
            "score",
            BETA2_SCORE.replace("ImageLocality:1", "ImageLocality:9"),
        ),
        ("v1beta2", "{score: {disabled: [{name: '*'}], enabled: [{name: ScoreByName}]}}", "score", "ScoreByName:1"),
        # These are fields, but are not looked at.
        ("v1beta2", "{multiPoint: {enabled: [{name: ScoreByName}], disabled: [{name: '*'}]}}", "score", BETA2_SCORE),
        ("v1beta2", "{preEnqueue: {disabled: [{name: '*'}]}}", "preEnqueue", "SchedulingGates"),
        ("v1beta3", "{preEnqueue: {disabled: [{name: '*'}]}}", "preEnqueue", "SchedulingGates"),
        ("v1beta3", "{}", "reserve", "VolumeBinding"),
        (
            "v1beta3",
            "{}",
            "score",
            (
                "TaintToleration:3 NodeAffinity:2 NodeResourcesFit:1 VolumeBinding:1 PodTopologySpread:2"
                " InterPodAffinity:2 NodeResourcesBalancedAllocation:1 ImageLocality:1"
            ),
        ),
        (
            "v1beta3",
            "{multiPoint: {enabled: [{name: SelectorSpread, weight: 2}]}}",
            "preScore",
            (
                "TaintToleration NodeAffinity NodeResourcesFit PodTopologySpread InterPodAffinity"
                " NodeResourcesBalancedAllocation SelectorSpread"
            ),
        ),
    ],
)
def test_older_versions(version: str, plugins: str, point: str, expected: str) -> None:
    assert runs(plugins, point, version=version) == expected
