"""Whether what a user's plugin answered makes sense, asked right after the call so that the plugin is blamed for it.

A check raises what whoever reads the answer would raise, or says what else is wrong: an Error of the plugin's own, or
a score that is out of range, which the reader words as kube-scheduler does.
"""

from __future__ import annotations

import inspect
from typing import Any

from mooring.framework.preemption.candidate import AskExtenders
from mooring.framework.status import Code, Status
from mooring.loading.circuit_breaker import Check
from mooring.scheduler.answers import (
    Ints,
    as_score,
    as_status,
    check_columns,
    checked_scores,
    permit_answer,
    post_filter_answer,
    pre_filter_answer,
)

_MAX_SCORE = 100


def check_of(method: str, *, ranged: bool = False) -> Check | None:
    """The check for the answers of a method, if there is one."""
    return _RANGED.get(method) or _CHECKS.get(method) if ranged else _CHECKS.get(method)


def _status(answer: object, _args: tuple[Any, ...]) -> str | None:
    if answer is None:
        return None
    return _error(as_status(answer))


def _error(status: Status) -> str | None:
    return status.message if status.code is Code.ERROR else None


def _pre_filter(answer: object, _args: tuple[Any, ...]) -> str | None:
    return _error(pre_filter_answer(answer)[0])


def _post_filter(answer: object, _args: tuple[Any, ...]) -> str | None:
    if isinstance(answer, AskExtenders):
        return None  # what comes of it is read when the extenders have answered
    return _error(post_filter_answer(answer)[1])


def _permit(answer: object, _args: tuple[Any, ...]) -> str | None:
    status = permit_answer(answer)
    return _error(status) if isinstance(status, Status) else None


def _outside(answer: object, args: tuple[Any, ...]) -> str | None:
    """In the binding cycle a method that is not ``async`` may answer with something to await all the same."""
    return None if inspect.isawaitable(answer) else _status(answer, args)


def _columns(answer: object, args: tuple[Any, ...]) -> str | None:
    check_columns(answer, len(args[2]))
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
    return _in_range(checked_scores(answer, len(args[2])))


def _normalized(answer: object, args: tuple[Any, ...]) -> str | None:
    return _in_range(checked_scores(answer, len(args[2]), "normalize_scores"))


def _in_range(scores: Ints | int) -> str | None:
    low, high = (scores, scores) if isinstance(scores, int) else (int(scores.min()), int(scores.max()))
    wrong = low if low < 0 else high if high > _MAX_SCORE else None
    return None if wrong is None else f"invalid score {wrong}"


_CHECKS: dict[str, Check] = {
    **dict.fromkeys(("pre_enqueue", "add_pod", "remove_pod", "filter", "pre_score", "reserve", "unreserve"), _status),
    **dict.fromkeys(("pre_bind_pre_flight", "pre_bind", "bind", "post_bind"), _outside),
    "pre_filter": _pre_filter,
    "post_filter": _post_filter,
    "permit": _permit,
    "filter_nodes": _columns,
    "score": _score,
    "score_nodes": _scores,
    "normalize_scores": _normalized,
}
_RANGED: dict[str, Check] = {
    "score": _ranged_score,
    "score_nodes": _ranged_scores,
}
