"""``score_range``: scores in a plugin's own range, scaled to 0 to 100 in both forms."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.framework import Plugin, depends_on
from mooring.framework.plugin import dependence
from mooring.framework.score_range import ScoreRangeError, are_fractions, check_score_range, scaled_score, scaled_scores
from mooring.testing import PluginHarness, make_node

NODES = [make_node(name).obj() for name in ("a", "b", "c")]


def per_node(value: Any, declared: tuple[float, float] = (0.0, 1.0)) -> Any:
    def score(state: Any, pod: Any, node: Any) -> Any:
        return value

    return scaled_score(score, declared)(None, None, PluginHarness(Plugin, nodes=NODES).info("b"))


def in_columns(values: Any, declared: tuple[float, float] = (0.0, 1.0)) -> Any:
    def score_nodes(state: Any, pod: Any, nodes: Any) -> Any:
        return values

    return scaled_scores(score_nodes, declared)(None, None, PluginHarness(Plugin, nodes=NODES).nodes())


@pytest.mark.parametrize(
    ("value", "declared", "score"),
    [
        (0.0, (0.0, 1.0), 0),
        (1.0, (0.0, 1.0), 100),
        (0.1, (0.0, 1.0), 10),
        (0.29, (0.0, 1.0), 29),  # 0.29 * 100 is less than 29
        (0.9, (0.0, 1.0), 90),
        (1, (0.0, 1.0), 100),
        (np.float32(0.5), (0.0, 1.0), 50),
        (np.int64(3), (1, 5), 50),
        (-1.0, (-1.0, 1.0), 0),
        (0.0, (-1.0, 1.0), 50),
        (1.0000001, (0.0, 1.0), 100),  # a rounding error of a model
        (-0.0000001, (0.0, 1.0), 0),
    ],
)
def test_a_score_is_scaled_linearly(value: Any, declared: tuple[float, float], score: int) -> None:
    assert per_node(value, declared) == score
    assert in_columns(np.array([value] * 3), declared).tolist() == [score] * 3
    assert in_columns(value, declared) == score, "one score for all nodes"


@given(st.floats(-5, 5), st.floats(-5, 4), st.floats(0.1, 9))
def test_both_forms_agree(value: float, low: float, width: float) -> None:
    declared = (low, low + width)
    try:
        expected = per_node(value, declared)
    except ScoreRangeError:
        with pytest.raises(ScoreRangeError):
            in_columns(np.array([low, value, low]), declared)
    else:
        assert in_columns(np.array([low, value, low]), declared).tolist() == [0, expected, 0]
        assert 0 <= expected <= 100


@pytest.mark.parametrize("value", [1.5, -0.5, math.nan, math.inf, -math.inf, 100.0])
def test_a_score_outside_of_the_range_is_an_error_that_names_it(value: float) -> None:
    text = f"score returned {value} for node b, which is outside of score_range = (0.0, 1.0)"
    with pytest.raises(ScoreRangeError, match=re.escape(text)):
        per_node(value)
    text = f"score_nodes returned {value} for node b, which is outside of score_range = (0.0, 1.0)"
    with pytest.raises(ScoreRangeError, match=re.escape(text)):
        in_columns(np.array([0.5, value, 0.5]))


@pytest.mark.parametrize("answer", ["0.5", None, True, [0.5], np.zeros(7), np.array(["a", "b", "c"])])
def test_what_is_no_score_is_left_to_the_reader(answer: Any) -> None:
    assert per_node(answer) is answer
    assert in_columns(answer) is answer


def test_what_a_method_declares_is_kept() -> None:
    @depends_on("node")
    def score(state: Any, pod: Any, node: Any) -> float:
        return 0.5

    assert dependence(scaled_score(score, (0.0, 1.0))) == "node"


@pytest.mark.parametrize(
    "declared",
    [(1.0, 0.0), (1.0, 1.0), (0.0,), (0.0, 1.0, 2.0), (0.0, math.inf), (math.nan, 1.0), ("0", "1"), 1.0, True],
)
def test_a_wrong_declaration_is_reported(declared: Any) -> None:
    cls = type("Mine", (Plugin,), {"score_range": declared, "score": lambda self, state, pod, node: 0})
    problem = check_score_range(cls)
    assert problem is not None
    assert "score_range = (0.0, 1.0)" in problem


def test_a_range_without_scores_is_reported() -> None:
    cls = type("Mine", (Plugin,), {"score_range": (0.0, 1.0), "filter": lambda self, state, pod, node: None})
    assert check_score_range(cls) == "score_range has no effect without 'score' or 'score_nodes'"


@pytest.mark.parametrize(
    ("scores", "fractions"),
    [
        ([0.9, 0.1], True),
        ([np.float32(0.9), np.float32(0.1)], True),
        (np.array([0.9, 0.1]), True),
        ([0.0, 1.0], False),
        ([0, 1], False),
        ([0.5, 7.5], False),
        ([0.5, -0.5], False),
        ([], False),
        (np.array([1, 0]), False),
        (np.array([90.0, 10.5]), False),
        (np.zeros(0), False),
        (7, False),
    ],
)
def test_fractions_are_found(scores: Any, fractions: bool) -> None:
    assert are_fractions(scores) is fractions
