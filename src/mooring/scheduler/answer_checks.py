"""Whether what a user's plugin answered makes sense, asked right after the call so that the plugin is blamed for it.

A check raises what whoever reads the answer would raise, or says what else is wrong: an Error of the plugin's own, or
a score that is out of range, which the reader words as kube-scheduler does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.framework.status import Code
from mooring.framework.verdicts import Verdicts
from mooring.scheduler.answers import BadAnswerError, as_score, as_status, checked_scores

Check = Callable[[object, tuple[Any, ...]], str | None]
_MAX_SCORE = 100


class PluginSaysError(RuntimeError):
    """A plugin answered with an Error of its own, or with scores out of range."""


def check_of(method: str, *, ranged: bool = False) -> Check | None:
    """The check for the answers of a method, if there is one."""
    return _RANGED.get(method) or _CHECKS.get(method) if ranged else _CHECKS.get(method)


def _status(answer: object, _args: tuple[Any, ...]) -> str | None:
    if answer is None:
        return None
    status = as_status(answer)
    return status.message if status.code is Code.ERROR else None


def _columns(answer: object, args: tuple[Any, ...]) -> str | None:
    if answer is not None and (type(answer) is not Verdicts or len(answer.codes) != len(args[2])):
        size = f" of {len(answer)}" if hasattr(answer, "__len__") else ""
        raise BadAnswerError(
            f"filter_nodes returned {type(answer).__name__}{size}; return None or Verdicts, one a node"
        )
    return None


def _score(answer: object, _args: tuple[Any, ...]) -> str | None:
    as_score(answer)
    return None


def _ranged_score(answer: object, _args: tuple[Any, ...]) -> str | None:
    score = as_score(answer)
    return None if 0 <= score <= _MAX_SCORE else f"invalid score {score}"


def _scores(answer: object, args: tuple[Any, ...]) -> str | None:
    checked_scores(answer, len(args[2]))
    return None


def _ranged_scores(answer: object, args: tuple[Any, ...]) -> str | None:
    scores = checked_scores(answer, len(args[2]))
    low, high = (scores, scores) if isinstance(scores, int) else (int(scores.min()), int(scores.max()))
    wrong = low if low < 0 else high if high > _MAX_SCORE else None
    return None if wrong is None else f"invalid score {wrong}"


_CHECKS: dict[str, Check] = {
    **dict.fromkeys(("pre_enqueue", "filter", "pre_score", "reserve", "unreserve"), _status),
    "filter_nodes": _columns,
    "score": _score,
    "score_nodes": _scores,
    "normalize_scores": _scores,
}
_RANGED: dict[str, Check] = {
    "score": _ranged_score,
    "score_nodes": _ranged_scores,
    "normalize_scores": _ranged_scores,
}
