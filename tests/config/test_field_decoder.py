"""Unknown fields, wrong types, wrong kinds: all found, each with its line and what to do."""

from __future__ import annotations

import json

import pytest

from mooring.config import ConfigError, load_config
from tests.config.helpers import errors, failure, load, paths


@pytest.mark.parametrize(
    ("body", "path", "line", "remedy"),
    [
        ("paralelism: 3", "paralelism", 3, 'Did you mean "parallelism"?'),
        ("Parallelism: 3", "Parallelism", 3, 'Did you mean "parallelism"?'),
        ("profiles:\n- plugins:\n    scoring: {}", "profiles[0].plugins.scoring", 5, 'Did you mean "score"?'),
        ("profiles:\n- pluginConfig:\n  - {name: a, arg: {}}", "profiles[0].pluginConfig[0].arg", 5, '"args"?'),
        ("leaderElection: {leaseduration: 1s}", "leaderElection.leaseduration", 3, '"leaseDuration"?'),
        ("extenders:\n- tlsConfig: {caDatum: x}", "extenders[0].tlsConfig.caDatum", 4, 'Did you mean "caData"?'),
        ("zzz: 1", "zzz", 3, "Known here:"),
        (
            "profiles:\n- pluginConfig:\n  - name: NodeAffinity\n    args: {addedAfinity: {}}",
            "profiles[0].pluginConfig[0].args.addedAfinity",
            6,
            'Did you mean "addedAffinity"?',
        ),
    ],
)
def test_unknown_fields(body: str, path: str, line: int, remedy: str) -> None:
    (error,) = errors(body)
    assert (error.path, error.line) == (path, line)
    assert remedy in (error.remedy or "")


@pytest.mark.parametrize(
    ("version", "body", "path"),
    [
        ("v1beta2", "delayCacheUntilActive: true", "delayCacheUntilActive"),
        ("v1beta3", "delayCacheUntilActive: true", "delayCacheUntilActive"),
        ("v1beta3", "healthzBindAddress: ''", "healthzBindAddress"),
        ("v1", "metricsBindAddress: ''", "metricsBindAddress"),
        ("v1beta3", "profiles: [{percentageOfNodesToScore: 1}]", "profiles[0].percentageOfNodesToScore"),
        ("v1beta3", "profiles: [{plugins: {placementScore: {}}}]", "profiles[0].plugins.placementScore"),
        ("v1", "profiles: [{plugins: {podGroupPostFilter: {}}}]", "profiles[0].plugins.podGroupPostFilter"),
    ],
)
def test_fields_of_other_versions(version: str, body: str, path: str) -> None:
    assert paths(body, version=version) == [path]


@pytest.mark.parametrize(
    ("body", "path", "message"),
    [
        ("parallelism: x", "parallelism", 'expected a 32-bit integer, found the text "x"'),
        ('parallelism: "3"', "parallelism", 'found the text "3"'),
        ("parallelism: 2.5", "parallelism", "found the number 2.5"),
        ("parallelism: 2147483648", "parallelism", "found the number 2147483648"),
        ("parallelism: [1]", "parallelism", "found a list"),
        ("podMaxBackoffSeconds: 9223372036854775808", "podMaxBackoffSeconds", "a 64-bit integer"),
        ("enableProfiling: 1", "enableProfiling", "expected true or false, found the number 1"),
        ("profiles: x", "profiles", "expected a list"),
        ("profiles: [x]", "profiles[0]", "expected a mapping"),
        ("profiles: [{schedulerName: 1.20}]", "profiles[0].schedulerName", "expected text, found the number 1.2"),
        ("profiles: [{schedulerName: yes}]", "profiles[0].schedulerName", "found the boolean true"),
        ("leaderElection: true", "leaderElection", "expected a mapping, found the boolean true"),
        ("leaderElection: {leaseDuration: 15}", "leaderElection.leaseDuration", "a duration such as 15s"),
        ("leaderElection: {leaseDuration: null}", "leaderElection.leaseDuration", "a duration cannot be null"),
        ("leaderElection: {leaseDuration: ''}", "leaderElection.leaseDuration", '"" is not a duration'),
        ("extenders: [{httpTimeout: 5 s}]", "extenders[0].httpTimeout", 'the unknown unit " s"'),
        ("extenders: [{tlsConfig: {caData: '!'}}]", "extenders[0].tlsConfig.caData", "the text is not base64"),
        ("extenders: [{tlsConfig: {caData: \u00e9}}]", "extenders[0].tlsConfig.caData", "the text is not base64"),
        ("extenders: [{tlsConfig: {caData: [1, 256]}}]", "extenders[0].tlsConfig.caData", "expected base64 text"),
        ("clientConnection: {qps: 1e39}", "clientConnection.qps", "expected a number"),
        ("clientConnection: {qps: x}", "clientConnection.qps", "expected a number"),
    ],
)
def test_wrong_types(body: str, path: str, message: str) -> None:
    (error,) = errors(body)
    assert error.path == path
    assert message in error.message


@pytest.mark.parametrize(
    ("body", "remedy"),
    [
        ("profiles: [{schedulerName: 12}]", 'Put it in quotes: "12".'),
        ("parallelism: '3'", "Write it without quotes."),
        ("leaderElection: {leaseDuration: 15}", "Add the unit: 15s."),
    ],
)
def test_wrong_types_come_with_a_remedy(body: str, remedy: str) -> None:
    assert errors(body)[0].remedy == remedy


@pytest.mark.parametrize(
    "body",
    [
        "parallelism: null\nprofiles: null\nextenders:\nleaderElection:\nclientConnection: ~",
        "profiles: [null]",
        "profiles: [{plugins: null, pluginConfig: null}]",
        "extenders: [{tlsConfig: {certData: [45]}, managedResources: null}]\n---\nrest: is not read",
        "parallelism: 16.0\npercentageOfNodesToScore: 1e1",
        "enableProfiling: off",
    ],
)
def test_what_is_fine(body: str) -> None:
    assert paths(body) == []


def test_everything_wrong_is_reported_at_once() -> None:
    body = """\
    foo: 1
    parallelism: x
    profiles:
    - schedulerName: 5
      pluginConfig:
      - name: NodeAffinity
        args: {bar: 1}
      - name: VolumeBinding
        args: {bindTimeoutSeconds: x}
    extenders: y
    """
    assert [(each.path, each.line) for each in errors(body)] == [
        ("foo", 3),
        ("parallelism", 4),
        ("profiles[0].schedulerName", 6),
        ("profiles[0].pluginConfig[0].args.bar", 9),
        ("profiles[0].pluginConfig[1]", 11),
        ("extenders", 12),
    ]


def test_arguments_that_cannot_be_read_hide_the_rest() -> None:
    """kube-scheduler says nothing else about such a file, so neither do we."""
    body = """\
    foo: 1
    profiles:
    - pluginConfig:
      - {name: NodeAffinity, args: {bar: 1}}
      - {name: VolumeBinding, args: {bindTimeoutSeconds: x}}
      - {name: InterPodAffinity, args: 5}
    """
    (error,) = errors(body)
    assert error.path == "profiles[0].pluginConfig[1]"
    assert "args.bindTimeoutSeconds: expected a 64-bit integer" in error.message


@pytest.mark.parametrize(
    ("version", "args", "fine"),
    [
        ("v1", "{}", True),
        ("v1", "null", True),
        ("v1", "{kind: NodeAffinityArgs}", True),
        ("v1", "{kind: NodeAffinityArgs, apiVersion: kubescheduler.config.k8s.io/v1}", True),
        ("v1", "{apiVersion: kubescheduler.config.k8s.io/}", True),
        ("v1", "{kind: VolumeBindingArgs}", False),
        ("v1", "{kind: KubeSchedulerConfiguration}", False),
        ("v1", "{apiVersion: kubescheduler.config.k8s.io/v1beta3}", False),
        ("v1", "{apiVersion: kubescheduler.config.k8s.io}", False),
        ("v1", "{apiVersion: v1}", False),
        ("v1", "{kind: 5}", False),
        ("v1beta3", "{apiVersion: kubescheduler.config.k8s.io/v1}", False),
        ("v1beta2", "{apiVersion: kubescheduler.config.k8s.io/v1beta2}", True),
        ("v1beta2", "{apiVersion: kubescheduler.config.k8s.io/v1beta3}", False),
        ("v1", "text", False),
        ("v1", "[1]", False),
    ],
)
def test_kinds_of_arguments(version: str, args: str, fine: bool) -> None:
    body = f"profiles: [{{pluginConfig: [{{name: NodeAffinity, args: {args}}}]}}]"
    assert paths(body, version=version) == ([] if fine else ["profiles[0].pluginConfig[0]"])


@pytest.mark.parametrize("args", ["{a: [1, {b: null}]}", "text", "[1, 2]", "1.5", "true", "{kind: X, apiVersion: z}"])
@pytest.mark.parametrize("name", ["ScoreByName", "TaintToleration", "NoSuchPlugin"])
def test_undeclared_arguments_may_have_any_shape(name: str, args: str) -> None:
    import yaml

    config = load(f"profiles: [{{pluginConfig: [{{name: {name}, args: {args}}}]}}]")
    assert config.profiles[0].plugin_config[name] == yaml.safe_load(args)


def test_repeated_fields_in_json_and_keys_in_yaml() -> None:
    head = '"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"'
    with pytest.raises(ConfigError) as caught:
        load_config(f'{{{head}, "parallelism": 1, "parallelism": 2}}', source="f.json")
    assert [(each.path, each.message) for each in caught.value.errors] == [
        ("parallelism", 'the field "parallelism" is given twice')
    ]
    (error,) = errors("parallelism: 1\nparallelism: 2")
    assert (error.path, error.line) == ("parallelism", 4)


def test_undeclared_arguments_in_json_may_repeat_fields() -> None:
    """They are not looked into, as in kube-scheduler; a key that YAML repeats is an error anywhere."""
    plugin = '{"name": "ScoreByName", "args": {"a": 1, "a": 2}}'
    head = '"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"'
    assert load_config(f'{{{head}, "profiles": [{{"pluginConfig": [{plugin}]}}]}}', source="f.json")
    assert paths("profiles: [{pluginConfig: [{name: ScoreByName, args: {a: 1, a: 2}}]}]") == [
        "profiles[0].pluginConfig[0].args.a"
    ]


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("", "kind is missing"),
        ("null\n", "kind is missing"),
        ("[]\n", "expected a configuration, found a list"),
        ("text\n", 'expected a configuration, found the text "text"'),
        ("kind: KubeSchedulerConfiguration\n", "apiVersion is missing"),
        ("apiVersion: kubescheduler.config.k8s.io/v1\n", "kind is missing"),
        ("apiVersion: 5\nkind: x\n", "expected text, found the number 5"),
        ("apiVersion: kubescheduler.config.k8s.io/v1beta1\nkind: KubeSchedulerConfiguration\n", "is not known"),
        ("apiVersion: v1\nkind: KubeSchedulerConfiguration\n", 'the version "v1" is not known'),
        (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: ConfigMap\n",
            '"ConfigMap" is not a scheduler configuration',
        ),
        ("apiVersion: kubescheduler.config.k8s.io/v1\nkind: VolumeBindingArgs\n", "is not a scheduler configuration"),
        ("a: b: c\n", "not valid YAML"),
        ("{apiVersion: x}\n", "not valid JSON"),
    ],
)
def test_what_is_no_configuration(file: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(file, source="f.yaml")
    assert caught.value.stage == "decode"
    (error,) = caught.value.errors
    assert message in error.message


def test_capitals_of_kind_and_version_are_forgiven_only_at_first() -> None:
    file = "apiversion: kubescheduler.config.k8s.io/v1\nKIND: KubeSchedulerConfiguration\n"
    with pytest.raises(ConfigError) as caught:
        load_config(file, source="f.yaml")
    assert sorted(each.path for each in caught.value.errors) == ["KIND", "apiversion"]


def test_json_is_what_starts_with_a_brace() -> None:
    data = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "parallelism": 3}
    assert load_config(f" \n{json.dumps(data)}", source="f").parallelism == 3
    assert load_config(f"--- {json.dumps(data)}", source="f").parallelism == 3


def test_no_more_than_a_hundred_unknown_fields() -> None:
    assert len(errors("\n".join(f"x{i}: 1" for i in range(150)))) == 100


def test_the_message_of_an_error_is_one_line_each() -> None:
    error = failure("paralelism: 1\nfoo: 2")
    assert str(error).splitlines() == [
        'f.yaml:3: paralelism: unknown field "paralelism". Did you mean "parallelism"?',
        *[line for line in str(error).splitlines() if line.startswith("f.yaml:4: foo: ")],
    ]
