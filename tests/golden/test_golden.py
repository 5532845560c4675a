"""Every golden decision, session and configuration is ours too; one test a theme, so that a failure tells where."""

from __future__ import annotations

import pytest

from tests.golden import decisions, run, sessions

DECISIONS = decisions.themes()
SESSIONS = sessions.themes()
CONFIGS = run.config_themes()


def shown(theme: run.Theme) -> str:
    return "\n".join(f"{case}: {'; '.join(found[:4])}" for case, found in theme.mismatches.items())


@pytest.mark.parametrize(("data", "name"), DECISIONS, ids=str)
def test_decisions(data: str, name: str) -> None:
    theme = run.decision_theme(data, name, DECISIONS[data, name])
    assert not theme.mismatches, shown(theme)


@pytest.mark.parametrize("name", SESSIONS)
def test_sessions(name: str) -> None:
    theme = run.session_theme(name, SESSIONS[name])
    assert not theme.mismatches, shown(theme)


@pytest.mark.parametrize(("data", "name"), CONFIGS, ids=str)
def test_configurations(data: str, name: str) -> None:
    theme = run.config_theme(data, name, CONFIGS[data, name])
    assert not theme.mismatches, shown(theme)


def test_nothing_is_left_out() -> None:
    assert sum(map(len, DECISIONS.values())) == 1686 + 725 + 304 + 376
    assert sum(map(len, SESSIONS.values())) == 684 + 160 + 64 + 234 + 163 + 228 + 120 + 200
    assert sum(map(len, CONFIGS.values())) == 532 + 270


@pytest.mark.parametrize(
    ("expected", "answer", "same"),
    [
        ({"filter": {"n": {"reasons": ["x", "y"]}}}, {"filter": {"n": {"reasons": ["y", "x"]}}}, True),
        ({"filter": {"n": {"code": "A", "reasons": []}}}, {"filter": {"n": {"code": "A"}}}, True),
        ({"id": "a", "totals": {"n": 1}}, {"totals": {"n": 1}}, True),
        ({"totals": {"n": 1}}, {"totals": {"n": 2}}, False),
        ({"totals": {"n": 1}}, {}, False),
        ({"filter": {"n": {"reasons": ["x"]}}}, {"filter": {"n": {"reasons": ["x", "y"]}}}, False),
        ({"preemption": {"victims": ["a", "b"]}}, {"preemption": {"victims": ["b", "a"]}}, False),
        ({"filter": {}}, {"filter": {"n": {"code": "A"}}}, False),
    ],
)
def test_comparison(expected: decisions.Case, answer: decisions.Case, same: bool) -> None:
    assert (decisions.compare(expected, answer) == []) is same


@pytest.mark.parametrize(
    ("expected", "answer", "same"),
    [
        ({"bound": {"a": "n"}}, {"bound": {"a": "n"}}, True),
        ({"bound": {"a": "*"}}, {"bound": {"a": "n"}}, True),
        ({"bound": {"a": "*"}}, {"bound": {}}, False),
        ({"bound": {"a": "n"}}, {"bound": {"a": "m"}}, False),
        ({"bound": {}}, {"bound": {"a": "n"}}, False),
        ({}, {"evicted": ["a"]}, True),
        ({"evicted": []}, {"evicted": ["a"]}, False),
        (
            {"podGroups": {"g": {"phase": "P", "conditions": [{"type": "T"}]}}},
            {"podGroups": {"g": {"phase": "P", "conditions": [{"type": "T", "message": "varies"}]}}},
            True,
        ),
        ({"podGroups": {}}, {"podGroups": {"g": {"phase": "P"}}}, False),
        ({"next": {"evicted": ["a"]}}, {"next": {"evicted": []}}, False),
        ({"annotations": {"a": {"x": "1"}}}, {"annotations": {"a": {"x": "1", "y-time": "2"}}}, True),
        ({"annotations": {"a": {"x": "1"}}}, {}, False),
    ],
)
def test_session_comparison(expected: decisions.Case, answer: decisions.Case, same: bool) -> None:
    assert (sessions.compare(expected, answer) == []) is same
