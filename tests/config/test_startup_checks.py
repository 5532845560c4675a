"""What only shows when a scheduler is put together: plugins, arguments of NodeResourcesFit, TLS, leader election."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.config import ConfigError, FieldError, PluginSpec, load_config
from mooring.config.extender_tls import TLSProblem, check_tls
from mooring.config.model import ExtenderTLS
from tests.config.helpers import STUBS, errors, failure, load, paths, text
from tests.config.tls_pair import CERTIFICATE, KEY


@pytest.mark.parametrize(
    ("plugins", "path", "message", "remedy"),
    [
        (
            "{filter: {enabled: [{name: NoSuchThing}]}}",
            "filter.enabled[0]",
            'the plugin "NoSuchThing" does not exist',
            "--plugin NoSuchThing=FILE",
        ),
        (
            "{multiPoint: {enabled: [{name: BlockAll}, {name: NodeRessourcesFit}]}}",
            "multiPoint.enabled[1]",
            "does not exist",
            'Did you mean "NodeResourcesFit"?',
        ),
        (
            "{multiPoint: {enabled: [{name: GCEPDLimits}]}}",
            "multiPoint.enabled[0]",
            "does not exist",
            "NodeVolumeLimits",
        ),
        (
            "{permit: {enabled: [{name: VolumeBinding}]}}",
            "permit.enabled[0]",
            "does not serve permit",
            "Its extension points: preF",
        ),
        ("{preFilter: {enabled: [{name: ScoreByName}]}}", "preFilter.enabled[0]", "does not serve preFilter", "score"),
        ("{score: {enabled: [{name: ScoreByName}, {name: ScoreByName}]}}", "score.enabled[1]", "twice", "Remove one."),
        ("{multiPoint: {enabled: [{name: BlockAll}, {name: BlockAll}]}}", "multiPoint.enabled[1]", "twice", "Remove"),
        ("{bind: {disabled: [{name: '*'}]}}", "bind", "no plugin binds", "DefaultBinder"),
        ("{multiPoint: {disabled: [{name: DefaultBinder}]}}", "bind", "no plugin binds", "DefaultBinder"),
        ("{queueSort: {disabled: [{name: '*'}]}}", "queueSort", "exactly one plugin must sort", "PrioritySort"),
        ("{score: {enabled: [{name: ImageLocality, weight: -1}]}}", "score", "overflow", "1 or more"),
        ("{score: {enabled: [{weight: 3}]}}", "score.enabled[0]", 'the plugin "" does not exist', "--plugin"),
    ],
)
def test_plugins_that_cannot_run(plugins: str, path: str, message: str, remedy: str) -> None:
    error = failure(f"profiles: [{{plugins: {plugins}}}]")
    assert error.stage == "start"
    (found,) = error.errors
    assert found.path == f"profiles[0].plugins.{path}"
    assert message in found.message
    assert remedy in (found.remedy or "")
    assert found.line == 3


@pytest.mark.parametrize(
    ("plugins", "fine"),
    [
        # A negative weight passes while the running sum stays above zero.
        ("{score: {enabled: [{name: ScoreByName, weight: 5}, {name: ImageLocality, weight: -1}]}}", True),
        ("{score: {enabled: [{name: ScoreByName, weight: 1}, {name: ImageLocality, weight: -2}]}}", False),
        ("{multiPoint: {enabled: [{name: ScoreByName, weight: -1}]}}", True),
        ("{score: {disabled: [{name: '*'}], enabled: [{name: ScoreByName, weight: -1}]}}", False),
        ("{placementScore: {enabled: [{name: PodGroupPodsCount, weight: -1}]}}", False),
        ("{placementGenerate: {enabled: [{name: TopologyPlacementGenerator}]}}", True),
        ("{placementGenerate: {enabled: [{name: NodeName}]}}", False),
        ("{multiPoint: {enabled: [{name: NodeResourcesFit, weight: -2}, {name: PodGroupPodsCount}]}}", False),
        ("{multiPoint: {enabled: [{name: GangScheduling}]}}", True),
    ],
)
def test_weights_and_placement(plugins: str, fine: bool) -> None:
    assert (paths(f"profiles: [{{plugins: {plugins}}}]") == []) == fine


@pytest.mark.parametrize(
    ("version", "args", "expected"),
    [
        ("v1", "{}", []),
        ("v1", "{scoringStrategy: {}}", ["scoringStrategy.type"]),
        ("v1", "{scoringStrategy: {type: Other}}", ["scoringStrategy.type"]),
        ("v1", "{ignoredResources: [x, '-']}", ["ignoredResources[1]"]),
        ("v1", "{ignoredResourceGroups: [a/b]}", ["ignoredResourceGroups[0]"]),
        (
            "v1",
            "{scoringStrategy: {type: MostAllocated, resources: [{name: a, weight: 101}, {name: b, weight: -1}]}}",
            ["scoringStrategy.resources[0].weight", "scoringStrategy.resources[1].weight"],
        ),
        ("v1", "{scoringStrategy: {type: RequestedToCapacityRatio}}", ["scoringStrategy.requestedToCapacityRatio"]),
        (
            "v1beta2",
            "{scoringStrategy: {type: RequestedToCapacityRatio}}",
            ["scoringStrategy.requestedToCapacityRatio"],
        ),
        (
            "v1",
            "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {}}}",
            ["scoringStrategy.requestedToCapacityRatio.shape"],
        ),
        (
            "v1",
            "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {shape: [{}]}}}",
            ["scoringStrategy.requestedToCapacityRatio"],
        ),
        ("v1beta3", "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {shape: [{}]}}}", []),
        (
            "v1",
            (
                "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape:"
                " [{utilization: 50, score: 11}, {utilization: 50, score: -1}, {utilization: 101}]}}}"
            ),
            [
                "scoringStrategy.requestedToCapacityRatio.shape[0].score",
                "scoringStrategy.requestedToCapacityRatio.shape[1].score",
                "scoringStrategy.requestedToCapacityRatio.shape[1].utilization",
                "scoringStrategy.requestedToCapacityRatio.shape[2].utilization",
            ],
        ),
    ],
)
def test_arguments_of_fit(version: str, args: str, expected: list[str]) -> None:
    body = f"profiles: [{{pluginConfig: [{{name: NodeResourcesFit, args: {args}}}]}}]"
    found = paths(body, version=version)
    assert [path.removeprefix("profiles[0].pluginConfig[0].args.") for path in found] == expected


def test_arguments_of_fit_do_not_matter_where_it_is_off() -> None:
    off = "plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}"
    args = "pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: Other}}}]"
    assert paths(f"profiles: [{{{off}, {args}}}]") == []


@pytest.mark.parametrize(
    ("election", "fine"),
    [
        ("{renewDeadline: 2400ms}", False),
        ("{renewDeadline: 2401ms}", True),
        ("{retryPeriod: 9s}", False),
        ("{leaderElect: false, retryPeriod: 9s}", True),
        ("{retryPeriod: 9223372036854775807ns}", True),
    ],
)
def test_leader_election(election: str, fine: bool) -> None:
    assert paths(f"leaderElection: {election}") == ([] if fine else ["leaderElection.renewDeadline"])


def test_extenders_take_resources_away_from_fit() -> None:
    extenders = "extenders: [{managedResources: [{name: x.com/a, ignoredByScheduler: true}, {name: x.com/b}]}]\n"
    given = "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResources: [z]}}]}]"
    assert load(extenders + given).profiles[0].plugin_config["NodeResourcesFit"]["ignoredResources"] == ["x.com/a"]
    off = "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeResourcesFit}]}}}]"
    assert paths(extenders + off) == ["profiles[0].pluginConfig"]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("{x: 1}", "{x: 1}", []),
        ("{x: 1}", "{x: 2}", ["profiles[1].pluginConfig"]),
        ("{x: 1, y: 2}", "{y: 2, x: 1}", []),
    ],
)
def test_the_queue_is_sorted_with_one_set_of_arguments(first: str, second: str, expected: list[str]) -> None:
    profiles = (
        f"{{schedulerName: {name}, pluginConfig: [{{name: PrioritySort, args: {args}}}]}}"
        for name, args in (("a", first), ("b", second))
    )
    assert paths(f"profiles: [{', '.join(profiles)}]") == expected


def test_a_plugin_must_not_take_the_name_of_a_built_in_one() -> None:
    plugins = {"NodeName": PluginSpec("NodeName", frozenset({"filter"}))}
    with pytest.raises(ConfigError, match="built in"):
        load_config(text(), source="f", plugins=plugins)
    retired = {"SelectorSpread": PluginSpec("SelectorSpread", frozenset({"score"}))}
    assert load_config(text(), source="f", plugins=retired)


def test_a_plugin_checks_its_own_arguments_where_it_is_enabled() -> None:
    def check(args: object) -> list[FieldError]:
        return [] if args == {"good": 1} else [FieldError("good", "must be 1")]

    plugins = {**STUBS, "Picky": PluginSpec("Picky", frozenset({"score"}), check)}
    args = "pluginConfig: [{name: Picky, args: {good: 2}}]"
    enabled = "plugins: {score: {enabled: [{name: Picky}]}}"
    with pytest.raises(ConfigError) as caught:
        load_config(text(f"profiles:\n- {enabled}\n  {args}\n"), source="f", plugins=plugins)
    (error,) = caught.value.errors
    assert (error.path, error.line) == ("profiles[0].pluginConfig[0].args.good", 5)
    assert load_config(text(f"profiles: [{{{args}}}]"), source="f", plugins=plugins)


# TLS of extenders


@pytest.mark.parametrize(
    ("tls", "https", "field"),
    [
        (ExtenderTLS(), False, None),
        (ExtenderTLS(), True, None),
        (ExtenderTLS(insecure=True), True, None),
        (ExtenderTLS(insecure=True, ca_data=CERTIFICATE), False, "insecure"),
        (ExtenderTLS(ca_data=CERTIFICATE), True, None),
        (ExtenderTLS(ca_data=b"junk" + CERTIFICATE), False, None),
        (ExtenderTLS(ca_data=b"junk"), False, "caData"),
        (ExtenderTLS(ca_data=CERTIFICATE.replace(b"MIIB", b"MIIC")), False, "caData"),
        (ExtenderTLS(ca_file="/nonexistent/ca"), False, "caFile"),
        (ExtenderTLS(ca_file="nul\0byte"), False, "caFile"),
        # A certificate without a key does not count, and is not even read.
        (ExtenderTLS(cert_file="/nonexistent/cert"), False, None),
        (ExtenderTLS(cert_file="/nonexistent/cert", server_name="x"), False, "certFile"),
        (ExtenderTLS(cert_file="/nonexistent/cert", key_file="/nonexistent/key"), False, "certFile"),
        (ExtenderTLS(cert_data=CERTIFICATE), False, None),
        (ExtenderTLS(cert_data=CERTIFICATE, key_data=KEY), False, None),
        (ExtenderTLS(cert_data=CERTIFICATE, key_data=b"junk"), False, "keyData"),
        (ExtenderTLS(cert_data=b"junk", key_data=KEY), False, "keyData"),
        (ExtenderTLS(cert_data=CERTIFICATE, key_file="/nonexistent/key"), False, "keyFile"),
    ],
)
def test_tls(tls: ExtenderTLS, https: bool, field: str | None) -> None:
    if field is None:
        check_tls(tls, https=https)
        return
    with pytest.raises(TLSProblem) as caught:
        check_tls(tls, https=https)
    assert caught.value.field == field


def test_tls_files(tmp_path: Path) -> None:
    (tmp_path / "junk").write_text("junk")
    (tmp_path / "empty").write_text("")
    junk = str(tmp_path / "junk")
    # A pair of files is loaded for each connection, so that only its being there is checked.
    check_tls(ExtenderTLS(cert_file=junk, key_file=junk), https=False)
    check_tls(ExtenderTLS(ca_file=str(tmp_path / "empty")), https=False)
    with pytest.raises(TLSProblem):
        check_tls(ExtenderTLS(ca_file=junk), https=False)


def test_all_problems_at_start_are_reported_together() -> None:
    body = """\
    leaderElection: {renewDeadline: 2s}
    profiles:
    - schedulerName: a
      plugins: {filter: {enabled: [{name: X}]}}
    - schedulerName: b
      plugins: {bind: {disabled: [{name: '*'}]}}
    extenders:
    - tlsConfig: {caFile: /nonexistent/ca}
    """
    assert [(each.path, each.line) for each in errors(body)] == [
        ("leaderElection.renewDeadline", 3),
        ("profiles[0].plugins.filter.enabled[0]", 6),
        ("profiles[1].plugins.bind", 8),
        ("extenders[0].tlsConfig.caFile", 10),
    ]
