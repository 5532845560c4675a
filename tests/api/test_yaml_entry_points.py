"""Every entry point that takes YAML reads a value in the same way: manifests, configuration files and requests."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from mooring.api.codec import ManifestError, load_manifests
from mooring.api.yaml_nodes import ReadError
from mooring.api.yaml_reader import read_yaml
from mooring.batch.conf import read_conf
from mooring.cluster.errors import ApiError
from mooring.cluster.http.request_body import parse_body
from mooring.config.config_errors import ConfigError
from mooring.config.document import read_document
from mooring.config.field_decoder import repeated_keys
from mooring.kube.client_errors import AccessError
from mooring.kube.kubeconfig import load_kubeconfig
from mooring.loading.plugin_sources import read_sources


def manifest(text):
    (loaded,) = load_manifests(
        f"apiVersion: x/v1\nkind: X\nmetadata: {{name: x}}\nspec:\n  value: {text}\n", source="f"
    )
    return loaded.raw["spec"]


def configuration(text):
    document = read_document(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles:\n- pluginConfig:\n  - name: Mine\n    args:\n      value: {text}\n",
        source="f",
    )
    return document.values["profiles"][0]["pluginConfig"][0].value


def kubeconfig(text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "config")
        path.write_bytes(
            (
                "current-context: c\ncontexts:\n- {name: c, context: {cluster: c, user: u}}\n"
                "users:\n- name: u\n  user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: ls,"
                " interactiveMode: Never}}\n"
                "clusters:\n- name: c\n  cluster:\n    server: https://localhost\n    extensions:\n"
                f"    - name: client.authentication.k8s.io/exec\n      extension:\n        value: {text}\n"
            ).encode("utf-8", "surrogatepass")
        )
        plugin = load_kubeconfig([path]).user.exec_plugin
    return {"value": None} | plugin.cluster_config


def volcano_conf(text):
    conf = read_conf(
        f'actions: "enqueue"\nconfigurations:\n- name: enqueue\n  arguments:\n    value: {text}\n',
        actions=["enqueue"], plugins=[],
    )  # fmt: skip
    return conf.configurations["enqueue"]


def request_body(text):
    return parse_body(f"kind: X\nspec:\n  value: {text}\n".encode("utf-8", "surrogatepass"), "application/yaml")["spec"]


ENTRY_POINTS = [manifest, configuration, kubeconfig, volcano_conf, request_body]

SCALARS = [
    "y", "Y", "n", "N", "yes", "YES", "yEs", "on", "off", "true", "True", "null", "Null", "~", "", "nUll",
    "1", "-1", "+1", "010", "08", "0o10", "0O10", "0x1F", "0X1f", "0b101", "-0b11", "0b-1", "0x", "1_000", "_1", "1__0",
    "1e3", "1E3", "1.", ".5", "+.5", "-.5", ".5_0", "1e400", "-1e400", ".5e400", "1e-400", "3.0", "16.5", "1e21",
    "1e20", ".inf", "-.Inf", "+.INF", ".nan", "9223372036854775807", "-9223372036854775809", "18446744073709551615",
    "18446744073709551616", "1" * 30, "1:30", "12:30:45", "2001-01-01", "2026-01-31T00:00:00Z", "100m", "=", "+", "-x",
    "'1'", '"1"', '"\\/"', '"\\x41"', '"\\u12"', '"\\ud800"', '"\\q"', '"a\\tb"', "'it''s'",
    "!!binary aGk=", "!!binary '*'", "!!str 1", "!!int 7", "!!int x", "!!int '7'", "!!float 3", "!!bool yes",
    "!!bool 1", "!!null ''", "!!null x", "!!timestamp 2001-01-01", "!!timestamp x", "! 12", "!mine 12",
    "!mine {a: 1}", "!!map {a: 1}", "!!set {a, b}", "!<tag:yaml.org,2002:str> 1",
    "[1, [a], {b: c}]", "{1: a, y: b, 1.5: c, 1e400: d}", "{~: 1}", "{[a]: 1}", "{18446744073709551615: 1}",
    "{a:,b: 1}", "{a?b: 1}", "[a?b]", "{? a : 1}", "[a: 1, b]", "{'<<': 1}", "{<<: {a: 1}}",
    "{<<: [{a: 1}, {b: 2}]}", "{<<: 1}", "&x 1", "[&x {a: 1}, *x]", "[&x a, {*x : 1}]", "*nowhere", "&x [*x]",
    "[&x {a: 1}, {b: 2, <<: *x}]", "|\n          a\n          b", ">-\n          a\n          b", "a\tb", "a\t# b",
    "@a", "a: b", "50%", "a #b", "a#b", "é", "\u2028", "a\x85b", "a\x01b", "\ufeff", "-", "?", "<<",
]  # fmt: skip


def without_nulls(value):
    """Some entry points remove nulls, which mean an absent field."""
    if isinstance(value, dict):
        return {key: without_nulls(each) for key, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def outcome(read, text):
    """The value as text, or "error"."""
    try:
        return json.dumps(without_nulls(read(text)["value"]))
    except (ManifestError, ConfigError, AccessError, ApiError):
        return "error"


@pytest.mark.parametrize("text", SCALARS)
def test_a_value_is_the_same_everywhere(text):
    outcomes = {read.__name__: outcome(read, text) for read in ENTRY_POINTS}
    assert len(set(outcomes.values())) == 1, outcomes


def message(read, text):
    with pytest.raises((ManifestError, ConfigError, AccessError, ApiError)) as caught:
        read(text)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (".inf", ".inf is a number that JSON cannot represent"),
        ('"\\/"', "found the unknown escape"),
        ("!!int x", "the tag !!int does not fit 'x'"),
        ("*x", "the alias *x has no anchor before it"),
        ("{~: 1}", "a key must be text, a boolean or a number"),
        ("a\x01b", "the control character '\\x01' is not allowed"),
    ],
)
def test_an_error_is_the_same_everywhere(text, problem):
    assert [problem in message(read, text) for read in ENTRY_POINTS] == [True] * len(ENTRY_POINTS)


@pytest.mark.parametrize(
    ("text", "value"), [("y", True), ("!!binary dHJ1ZQ==", "error"), ("true", True), ("1", "error")]
)
def test_plugin_sources_read_alike(text, value):
    document = f"apiVersion: mooring.dev/v1alpha1\nkind: PluginSources\nallowWritable: {text}\n"
    try:
        read = read_sources(document, source="f").allow_writable
    except ConfigError:
        read = "error"
    assert read == value


def has_repeated_keys(text):
    """Configuration files reject repeated keys, which other entry points allow."""
    try:
        return next(repeated_keys(read_yaml(text)), None) is not None
    except ReadError:
        return False


PIECES = st.sampled_from(
    [
        *"-:,[]{}#&*!|>'\"%@?\t\n ~\\/ab1.",
        ": ",
        "- ",
        "\n  ",
        "&a ",
        "*a",
        "<<: ",
        "yes",
        "1e400",
        "!!binary ",
        "\\/",
        "é",
    ]
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(PIECES, max_size=12).map("".join))
@example("{a: b}\n---\nc: d")
def test_any_text_is_the_same_everywhere(text):
    # Indented, so that it cannot add a field or a document next to the value.
    value = text.replace("\n", "\n            ")
    assume(not has_repeated_keys(f"a:\n            value: {value}\n"))
    outcomes = {read.__name__: outcome(read, value) for read in ENTRY_POINTS}
    assert len(set(outcomes.values())) == 1, outcomes
