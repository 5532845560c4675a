"""Plugins' answers: conversion to one form, and validation of what a user's plugin returns."""

from __future__ import annotations

import inspect
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from mooring.columns.table import NodeTable
from mooring.framework.events import Hint
from mooring.framework.placements import Placements
from mooring.framework.plugin_errors import failure_text
from mooring.framework.preemption.candidate import AskExtenders
from mooring.framework.status import SUCCESS, Code, PermitWait, PostFilterResult, PreFilterResult, Status
from mooring.framework.verdicts import Verdicts
from mooring.loading.circuit_breaker import Check

Ints = npt.NDArray[np.int64]


class BadAnswerError(TypeError):
    """An answer that the extension point does not accept."""


def as_status(answer: object) -> Status:
    """Convert None (success), a string (a reason to reject) or a Status to a Status."""
    if answer is None:
        return SUCCESS
    if isinstance(answer, Status):
        return answer
    if isinstance(answer, str):
        return Status.unschedulable(answer)
    raise BadAnswerError(f"returned {type(answer).__name__}; return None, a reason (str) or a Status")


def pre_filter_answer(answer: object) -> tuple[Status, PreFilterResult | None]:
    """Convert an answer of PreFilter: a status, or the remaining nodes."""
    if isinstance(answer, PreFilterResult):
        return SUCCESS, answer
    return as_status(answer), None


def post_filter_answer(answer: object) -> tuple[PostFilterResult, Status]:
    """Convert an answer of PostFilter: a status, a result, or both."""
    if isinstance(answer, tuple) and len(answer) == 2:
        result, status = answer
        if isinstance(result, PostFilterResult):
            return result, as_status(status)
        if result is None:
            return PostFilterResult(), as_status(status)
    if isinstance(answer, PostFilterResult):
        return answer, SUCCESS
    if answer is None or isinstance(answer, (str, Status)):
        return PostFilterResult(), as_status(answer)
    raise BadAnswerError("post_filter must return a Status, a PostFilterResult, or both as a tuple")


def permit_answer(answer: object) -> Status | PermitWait:
    """Convert an answer of Permit: a status, or how long to wait."""
    if isinstance(answer, tuple) and len(answer) == 2:  # (Status.wait(...), seconds), as in Go
        status, seconds = answer
        if isinstance(status, Status) and status.code is Code.WAIT:
            answer = PermitWait(seconds)
    if not isinstance(answer, PermitWait):
        return as_status(answer)
    given: tuple[object, ...] = (answer.seconds, *(() if answer.allow_after is None else (answer.allow_after,)))
    for seconds in given:
        if not isinstance(seconds, (int, float, np.integer)) or not math.isfinite(seconds):
            raise BadAnswerError(f"asked to wait {seconds!r}; give a number of seconds")
    return answer


def as_score(answer: object) -> int:
    """Convert a per-node score to an integer; floats are truncated."""
    if type(answer) is int:
        return answer
    if isinstance(answer, (int, float, np.integer, np.floating)) and not isinstance(answer, bool):
        if math.isfinite(answer):
            return int(answer)
        raise BadAnswerError(f"score returned {answer}; return a number")
    raise BadAnswerError(f"score returned {type(answer).__name__}; return a number")


def checked_scores(answer: object, count: int, method: str = "score_nodes") -> Ints | int:
    """Validate the scores of nodes: one integer for all, or a vector with one score per node (floats are truncated)."""
    if isinstance(answer, int):
        return answer
    if not isinstance(answer, np.ndarray) or answer.shape != (count,):
        shape = getattr(answer, "shape", None)
        given = f"{type(answer).__name__} {shape}" if shape else type(answer).__name__
        raise BadAnswerError(f"{method} returned {given}; return {count} numbers in an array, or a whole one")
    if answer.dtype != np.int64:
        if answer.dtype.kind not in "iufb" or (answer.dtype.kind == "f" and not np.isfinite(answer).all()):
            raise BadAnswerError(f"{method} returned values that are no numbers ({answer.dtype})")
        return answer.astype(np.int64)
    return answer


def check_columns(answer: object, count: int) -> None:
    """Validate the answer of ``filter_nodes`` for a number of nodes."""
    if answer is not None and (type(answer) is not Verdicts or len(answer.codes) != count):
        size = f" of {len(answer)}" if hasattr(answer, "__len__") else ""
        raise BadAnswerError(
            f"filter_nodes returned {type(answer).__name__}{size}; return None or Verdicts with one entry per node"
        )


def placements_answer(answer: object, table: NodeTable) -> Placements | Status:
    """Convert an answer of PlacementGenerate: placements that are valid, or why there are none."""
    if not isinstance(answer, Placements):
        if answer is not None and not isinstance(answer, (str, Status)):
            text = f"generate_placements returned {type(answer).__name__}; return Placements, None or a reason"
            raise BadAnswerError(text)
        status = as_status(answer)
        return Placements.whole(table) if status.is_success else status
    rows, starts = answer.rows, answer.starts
    sizes = np.diff(np.append(starts, len(rows)))
    if len(starts) != len(answer.names) or (len(starts) and (starts[0] != 0 or sizes.min() < 1)):
        raise BadAnswerError("generate_placements returned placements without nodes, or not one start for each name")
    if len(rows) and (rows.min() < 0 or rows.max() >= len(table)):
        raise BadAnswerError("generate_placements returned rows that are not in the node table")
    if answer.disjoint and len(np.unique(rows)) != len(rows):
        raise BadAnswerError("generate_placements returned placements that share nodes; set disjoint=False")
    return answer


def feasible_answer(answer: object) -> Status:
    """Convert an answer of PlacementFeasible: success, Wait or Unschedulable."""
    status = as_status(answer)
    if status.is_success or status.code in (Code.WAIT, Code.UNSCHEDULABLE, Code.ERROR):
        return status
    text = "return None, Status.wait(reason) or Status.unschedulable(reason)"
    raise BadAnswerError(f"placement_feasible returned {status.code.title}; {text}")


def hint_result(answer: object) -> str:
    """Return the name of a hint's answer in metrics."""
    if answer is Hint.SKIP:
        return "QueueSkip"
    if answer is Hint.QUEUE:
        return "Queue"
    raise BadAnswerError(f"hint returned {type(answer).__name__}; return Hint.QUEUE or Hint.SKIP")


class PluginFailure(Exception):
    """The failure of an attempt because a plugin raised or returned an Error."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class FilterError(PluginFailure):
    """A filter returned an Error for a node, which an earlier filter may reject."""


def failure(where: str, plugin: str, error: BaseException) -> PluginFailure:
    """Convert an exception of a plugin to the failure of the attempt."""
    if isinstance(error, PluginFailure):
        return error
    return PluginFailure(Status.error(f"{where}: {failure_text(error)}").by(plugin))


# Checks run right after a user's plugin returns, so that errors are attributed to it. They raise the exception that the
# conversion of the answer would raise, or return a message: the plugin's own Error, or a score that is out of range.

_MAX_SCORE = 100


def check_of(method: str, *, ranged: bool = False) -> Check | None:
    """Return the check of a method's answers, if there is one."""
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
        return None  # its result is checked once the extenders have replied
    return _error(post_filter_answer(answer)[1])


def _permit(answer: object, _args: tuple[Any, ...]) -> str | None:
    status = permit_answer(answer)
    return _error(status) if isinstance(status, Status) else None


def _outside(answer: object, args: tuple[Any, ...]) -> str | None:
    """Check an answer in the binding cycle, where a method that is not ``async`` may return an awaitable."""
    return None if inspect.isawaitable(answer) else _status(answer, args)


def _yes_or_no(answer: object, _args: tuple[Any, ...]) -> str | None:
    if not isinstance(answer, (bool, np.bool_)):
        raise BadAnswerError(f"may_evict returned {type(answer).__name__}; return True or False")
    return None


def _columns(answer: object, args: tuple[Any, ...]) -> str | None:
    check_columns(answer, len(args[2]))
    return None


def _score(answer: object, _args: tuple[Any, ...]) -> str | None:
    as_score(answer)
    return None


def _ranged_score(answer: object, _args: tuple[Any, ...]) -> str | None:
    score = as_score(answer)
    return None if 0 <= score <= _MAX_SCORE else _invalid(score)


def _scores(answer: object, args: tuple[Any, ...]) -> str | None:
    checked_scores(answer, len(args[2]))
    return None


def _ranged_scores(answer: object, args: tuple[Any, ...]) -> str | None:
    return scores_in_range(checked_scores(answer, len(args[2])))


def _normalized(answer: object, args: tuple[Any, ...]) -> str | None:
    return scores_in_range(checked_scores(answer, len(args[2]), "normalize_scores"))


def scores_in_range(scores: Ints | int) -> str | None:
    """Return the error of scores that are not in the range of scores, or None."""
    low, high = (scores, scores) if isinstance(scores, int) else (int(scores.min()), int(scores.max()))
    wrong = low if low < 0 else high if high > _MAX_SCORE else None
    return None if wrong is None else _invalid(wrong)


def _invalid(score: int) -> str:
    return f"invalid score {score}; return 0 to {_MAX_SCORE}"


def _placements(answer: object, args: tuple[Any, ...]) -> str | None:
    found = placements_answer(answer, args[2].table)
    return _error(found) if isinstance(found, Status) else None


def _feasible(answer: object, _args: tuple[Any, ...]) -> str | None:
    return _error(feasible_answer(answer))


def _placement_scores(answer: object, args: tuple[Any, ...]) -> str | None:
    return scores_in_range(checked_scores(answer, len(args[0].placements), "score_placements"))


def _hint(answer: object, _args: tuple[Any, ...]) -> str | None:
    hint_result(answer)
    return None


_CHECKS: dict[str, Check] = {
    **dict.fromkeys(("pre_enqueue", "add_pod", "remove_pod", "filter", "pre_score", "reserve", "unreserve"), _status),
    **dict.fromkeys(("pre_bind_pre_flight", "pre_bind", "bind", "post_bind"), _outside),
    "pre_filter": _pre_filter,
    "post_filter": _post_filter,
    "permit": _permit,
    "may_evict": _yes_or_no,
    "hint": _hint,
    "filter_nodes": _columns,
    "score": _score,
    "score_allocation": _score,
    "score_nodes": _scores,
    "normalize_scores": _normalized,
    "generate_placements": _placements,
    "placement_feasible": _feasible,
    "score_placements": _placement_scores,
}
_RANGED: dict[str, Check] = {
    "score": _ranged_score,
    "score_allocation": _ranged_score,
    "score_nodes": _ranged_scores,
}
