"""Whatever the text, loading and migrating it gives a configuration or a ConfigError, and nothing else."""

from __future__ import annotations

import contextlib
import json
import re
from decimal import Decimal
from typing import Any

import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from mooring.api.yaml_nodes import ReadError, plain
from mooring.api.yaml_reader import read_yaml
from mooring.api.yaml_writer import yaml_text
from mooring.config import ConfigError, effective, load_config, written
from mooring.config.config_migration import migrate
from mooring.config.schema import POINTS, VERSIONS, configuration
from mooring.releases import NEWEST
from tests.config.golden_compare import cases
from tests.config.helpers import STUBS

GOLDEN = [case["config"] for case, _ in cases()]
MANY = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])

YAML_PIECES = [*"-:,[]{}#&*!|>'\"%@`?\t\n ~\\", "  ", "\n- ", ": ", "<<: ", "&a ", "*a", "---\n", "yes", "010", "1e3"]
ODD_PIECES = ["\x01", "\ufeff", "\u2028", "\x85", chr(0xD800), "\0", "9" * 30]
WORDS = ["null", "name", "enabled", "plugins", "v1beta3", "kind", "5s", "-1"]
PIECES = st.sampled_from([*YAML_PIECES, *ODD_PIECES, *WORDS])


def check(text: str) -> None:
    """Load, write out and migrate; only ConfigError may come of it."""
    with contextlib.suppress(ConfigError):
        config = load_config(text, source="f", plugins=STUBS)
        json.dumps(effective(config))
        yaml_text(written(config))
    with contextlib.suppress(ConfigError):
        migrate(text, source="f", plugins=STUBS)


@MANY
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    check(text)


@MANY
@given(st.lists(PIECES, max_size=30))
def test_pieces_of_yaml(pieces: list[str]) -> None:
    check("".join(pieces))


@MANY
@given(st.sampled_from(GOLDEN), st.lists(st.tuples(st.integers(0, 10**6), PIECES, st.booleans()), max_size=4))
def test_golden_files_with_changes(text: str, changes: list[tuple[int, str, bool]]) -> None:
    for place, piece, replace in changes:
        at = place % (len(text) + 1)
        text = text[:at] + piece + text[at + replace :]
    check(text)


@MANY
@given(st.sampled_from(GOLDEN), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), max_size=3))
def test_golden_files_with_words_swapped(text: str, swaps: list[tuple[int, int]]) -> None:
    words = re.findall(r"\w+|\W", text) or [""]
    for one, other in swaps:
        words[one % len(words)] = words[other % len(words)]
    check("".join(words))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-1e15, 1e15) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
PLUGIN = st.fixed_dictionaries(
    {}, optional={"name": st.sampled_from(["*", "NodeName", "ScoreByName", "EBSLimits"]) | JSON, "weight": JSON}
)
PLUGIN_SET = st.fixed_dictionaries({}, optional={"enabled": st.lists(PLUGIN, max_size=2), "disabled": JSON})
PROFILE = st.fixed_dictionaries(
    {},
    optional={
        "schedulerName": st.text(max_size=3) | JSON,
        "plugins": st.dictionaries(st.sampled_from([*POINTS, "multiPoint"]), PLUGIN_SET | JSON, max_size=3),
        "pluginConfig": st.lists(
            st.fixed_dictionaries(
                {"name": st.sampled_from(["NodeAffinity", "NodeResourcesFit", "PodTopologySpread", "X"])},
                optional={"args": JSON},
            ),
            max_size=2,
        ),
    },
)


@MANY
@given(
    st.sampled_from(VERSIONS),
    st.dictionaries(st.sampled_from(sorted(configuration("v1", NEWEST).fields)), JSON, max_size=4),
    st.lists(PROFILE | JSON, max_size=2),
    st.booleans(),
)
def test_trees_of_fields(version: str, fields: dict[str, Any], profiles: list[Any], as_json: bool) -> None:
    head = {"apiVersion": f"kubescheduler.config.k8s.io/{version}", "kind": "KubeSchedulerConfiguration"}
    data = {**fields, **head, "profiles": profiles}
    check(json.dumps(data) if as_json else yaml.safe_dump(data))


@MANY
@given(JSON)
@example(-(2**63) - 1)
@example([2**64 - 1, 2**64, 10**30])
def test_what_is_written_as_yaml_is_read_as_the_same(value: Any) -> None:
    assert plain(read_yaml(yaml_text({"a": value}))) == {"a": as_go_holds(value)}


def as_go_holds(value: Any) -> Any:
    """Whole numbers that no integer of Go holds are floats there, written in full below 1e21."""
    if isinstance(value, list):
        return [as_go_holds(each) for each in value]
    if isinstance(value, dict):
        return {key: as_go_holds(each) for key, each in value.items()}
    if isinstance(value, bool) or not isinstance(value, int) or -(2**63) <= value < 2**64:
        return value
    return int(Decimal(repr(float(value)))) if abs(value) < 10**21 else float(value)


@MANY
@given(st.lists(PIECES, max_size=40))
def test_reading_yaml_gives_plain_data_or_a_read_error(pieces: list[str]) -> None:
    with contextlib.suppress(ReadError):
        json.dumps(plain(read_yaml("".join(pieces))))
