"""``score_range``: the range of a plugin's own scores, which Mooring scales to 0 to 100.

    class Model(Plugin):
        score_range = (0.0, 1.0)

        def score(self, state, pod, node):
            return self.predict(pod, node)  # 0.0 to 1.0

The scale is linear: the lowest score becomes 0, the highest 100, and the result is rounded. Without a declared range
only the whole part of a score counts, so that 0.1 and 0.9 are both 0. ``are_fractions`` finds such scores.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mooring.framework.normalize import MAX_SCORE

Range = tuple[float, float]

#: By how much of the width of the range a score may be outside, because of floating-point errors. It counts as the
#: lowest or highest score.
_TOLERANCE = 1e-6
_REMEDY = "write the lowest and the highest score, for example  score_range = (0.0, 1.0)"


class ScoreRangeError(ValueError):
    """A score that is not in the declared range."""


def check_score_range(cls: type) -> str | None:
    """Return what is wrong with the ``score_range`` of a plugin class; None if nothing is."""
    declared = getattr(cls, "score_range", None)
    if declared is None:
        return None
    if not isinstance(declared, tuple | list) or len(declared) != 2 or not all(map(_is_number, declared)):
        return f"score_range is {declared!r}; {_REMEDY}"
    low, high = declared
    if not (math.isfinite(high - low) and low < high):
        return f"score_range is {declared!r}; {_REMEDY}"
    if not any(callable(getattr(cls, method, None)) for method in ("score", "score_nodes")):
        return "score_range has no effect without 'score' or 'score_nodes'"
    return None


def scaled_score(score: Callable[..., Any], declared: Range) -> Callable[..., Any]:
    """Return a ``score`` method with results from 0 to 100. A score outside of the range is an error.

    A result that is not a number is returned unchanged: the reader of the result reports it.
    """

    @functools.wraps(score)
    def scale(state: Any, pod: Any, node: Any) -> Any:
        answer = score(state, pod, node)
        if not _is_number(answer):
            return answer
        value = _scale(float(answer), declared)
        if value is None:
            raise _outside(f"score returned {float(answer)} for node {node.name}", declared)
        return value

    return scale


def scaled_scores(score_nodes: Callable[..., Any], declared: Range) -> Callable[..., Any]:
    """Return a ``score_nodes`` method with results from 0 to 100, like ``scaled_score``."""
    low, high = declared
    least, most = _limits(declared)

    @functools.wraps(score_nodes)
    def scale(state: Any, pod: Any, nodes: Any) -> Any:
        answer = score_nodes(state, pod, nodes)
        if _is_number(answer):  # all nodes have this score
            value = _scale(float(answer), declared)
            if value is None:
                raise _outside(f"score_nodes returned {float(answer)}", declared)
            return value
        if not isinstance(answer, np.ndarray) or answer.dtype.kind not in "iuf" or answer.shape != (len(nodes),):
            return answer
        values = answer.astype(np.float64)
        wrong = ~((values >= least) & (values <= most))
        if wrong.any():
            place = int(wrong.argmax())
            raise _outside(f"score_nodes returned {values.item(place)} for node {nodes.names[place]}", declared)
        return np.rint(MAX_SCORE * ((values - low) / (high - low)).clip(0.0, 1.0)).astype(np.int64)

    return scale


def _scale(score: float, declared: Range) -> int | None:
    """Return a score scaled to 0 to 100; None if it is outside of the range."""
    low, high = declared
    least, most = _limits(declared)
    if not least <= score <= most:  # NaN is outside too
        return None
    return round(MAX_SCORE * min(max((score - low) / (high - low), 0.0), 1.0))


def _limits(declared: Range) -> Range:
    low, high = declared
    slack = _TOLERANCE * (high - low)
    return low - slack, high + slack


def _outside(what: str, declared: Range) -> ScoreRangeError:
    low, high = declared
    return ScoreRangeError(
        f"{what}, which is outside of score_range = ({low}, {high}); return a score in this range, or change the range"
    )


def are_fractions(scores: object) -> bool:
    """Whether all scores are from 0 to 1 and some are between, so that their whole parts say little or nothing.

    ``scores`` is an array or a list with a number for each node.
    """
    if isinstance(scores, list):
        if not scores or not isinstance(scores[0], float | np.floating):
            return False
        scores = np.array(scores)
    if not isinstance(scores, np.ndarray) or scores.dtype.kind != "f" or not len(scores):
        return False
    return bool(scores.min() >= 0.0 and scores.max() <= 1.0 and (scores % 1.0).any())


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
