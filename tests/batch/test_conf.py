"""volcano-scheduler.conf: what is read, what is wrong, and what is warned about."""

from __future__ import annotations

import pytest

from mooring.batch.actions import ACTIONS
from mooring.batch.conf import DEFAULT_CONF, FLAGS, BatchConf, read_conf
from mooring.batch.plugins import PLUGINS
from mooring.config import ConfigError


def read(text: str, *, both: bool = True) -> BatchConf:
    return read_conf(text, source="conf", actions=ACTIONS, plugins=PLUGINS, both_spellings=both)


def option(text: str, *, both: bool = True) -> BatchConf:
    return read(f'actions: "allocate"\ntiers:\n- plugins:\n  - {text}\n', both=both)


def test_the_default() -> None:
    conf = read(DEFAULT_CONF)
    assert conf.actions == ("enqueue", "allocate", "backfill")
    assert [[each.name for each in tier] for tier in conf.tiers] == [
        ["priority", "gang", "conformance"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder"],
    ]
    assert conf.warnings == ()


def test_flags_are_on_by_default_but_for_two() -> None:
    (gang,) = option("name: gang").options()
    assert {flag for flag in FLAGS if not gang.enabled(flag)} == {"Hierarchy", "ClusterOrder"}


@pytest.mark.parametrize(
    ("key", "both", "enabled", "warning"),
    [
        ("enableJobOrder", True, False, ""),
        ("enabledJobOrder", True, False, "the key is enableJobOrder in Volcano, which Volcano ignores"),
        ("enabledJobOrder", False, True, "the key is enableJobOrder in Volcano, so it has no effect"),
    ],
)
def test_the_two_spellings_of_flags(key: str, both: bool, enabled: bool, warning: str) -> None:
    conf = option(f"{{name: gang, {key}: false}}", both=both)
    (gang,) = conf.options()
    assert gang.enabled("JobOrder") is enabled
    assert [text.split(": ", 2)[2] for text in conf.warnings] == ([warning] if warning else [])


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ('actions: "allocate"\ntier: []', 'tier: unknown key; did you mean "tiers"?'),
        ('actions: "allocate"\ntiers:\n- {plugins: [], x: 1}', "tiers[0].x: unknown key"),
        (
            'actions: "allocate"\ntiers:\n- plugins:\n  - {name: gang, enableJobOrdr: true}',
            "enableJobOrdr: unknown key",
        ),
        ('actions: "allocate"\ntiers:\n- plugins:\n  - name: gangg', 'there is no plugin "gangg"'),
        (
            'actions: "allocate"\nconfigurations:\n- {name: allocat}',
            'there is no action "allocat"; did you mean "allocate"?',
        ),
    ],
)
def test_warnings(text: str, warning: str) -> None:
    (found,) = read(text).warnings
    assert warning in found


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "actions: is missing"),
        ("[]", "expected a configuration"),
        ('actions: "alocate"', 'there is no action "alocate"'),
        ('actions: "allocate, "', 'there is no action ""'),
        ("actions: [allocate]", "expected text"),
        ('actions: "allocate"\ntiers: 5', "expected a list"),
        ('actions: "allocate"\ntiers: [5]', "expected a mapping with plugins"),
        ('actions: "allocate"\ntiers:\n- plugins: [{}]', "the plugin has no name"),
        ('actions: "allocate"\ntiers:\n- plugins: [{name: gang, enableJobOrder: 5}]', "expected true or false"),
        ('actions: "allocate"\ntiers:\n- plugins: [{name: gang, arguments: 5}]', "expected a mapping"),
        (
            'actions: "allocate"\ntiers:\n- plugins: [{name: drf, enableHierarchy: true}, {name: proportion}]',
            "conflict",
        ),
    ],
)
def test_errors(text: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        read(text)
    assert error in str(raised.value)


def test_the_conflict_is_checked_within_a_tier_only() -> None:
    """As in Volcano."""
    tiers = "- plugins: [{name: drf, enableHierarchy: true}]\n- plugins: [{name: proportion}]"
    assert len(read(f'actions: "allocate"\ntiers:\n{tiers}').tiers) == 2


def test_arguments_of_actions() -> None:
    entries = "- {name: allocate, arguments: {predicateErrorCacheEnable: false}}\n- {name: allocate, arguments: {x: 1}}"
    conf = read(f'actions: "allocate"\nconfigurations:\n{entries}')
    assert dict(conf.arguments("allocate")) == {"predicateErrorCacheEnable": False}, "the first one counts"
    assert dict(conf.arguments("preempt")) == {}
