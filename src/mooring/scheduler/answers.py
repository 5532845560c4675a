"""What plugins may answer, made one: None, a string, a Status."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from mooring.framework.status import SUCCESS, Code, PermitWait, PostFilterResult, PreFilterResult, Status
from mooring.framework.verdicts import Verdicts

Ints = npt.NDArray[np.int64]


class BadAnswerError(TypeError):
    """A plugin answered something that its extension point does not know."""


def as_status(answer: object) -> Status:
    """None is fine, a string is a reason not to, a Status is what it says."""
    if answer is None:
        return SUCCESS
    if isinstance(answer, Status):
        return answer
    if isinstance(answer, str):
        return Status.unschedulable(answer)
    raise BadAnswerError(f"returned {type(answer).__name__}; return None, a reason (str) or a Status")


def pre_filter_answer(answer: object) -> tuple[Status, PreFilterResult | None]:
    """What PreFilter may answer: a status, or the nodes that are left."""
    if isinstance(answer, PreFilterResult):
        return SUCCESS, answer
    return as_status(answer), None


def post_filter_answer(answer: object) -> tuple[PostFilterResult, Status]:
    """What PostFilter may answer: a status, a result, or both."""
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
    """What Permit may answer: a status, or how long to wait."""
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
    """A per-node score: a whole number, or one that truncates to it."""
    if type(answer) is int:
        return answer
    if isinstance(answer, (int, float, np.integer, np.floating)) and not isinstance(answer, bool):
        if math.isfinite(answer):
            return int(answer)
        raise BadAnswerError(f"score returned {answer}; return a number")
    raise BadAnswerError(f"score returned {type(answer).__name__}; return a number")


def checked_scores(answer: object, count: int, method: str = "score_nodes") -> Ints | int:
    """Scores of many nodes: an integer for all, or a vector with one a node (floats are truncated)."""
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
    """Refuse what ``filter_nodes`` must not answer about so many nodes."""
    if answer is not None and (type(answer) is not Verdicts or len(answer.codes) != count):
        size = f" of {len(answer)}" if hasattr(answer, "__len__") else ""
        raise BadAnswerError(
            f"filter_nodes returned {type(answer).__name__}{size}; return None or Verdicts, one a node"
        )


class PluginFailure(Exception):
    """A plugin broke or gave an Error: the attempt is over."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


def failure(where: str, plugin: str, error: Exception) -> PluginFailure:
    """An exception in a plugin, as the status that ends the attempt."""
    if isinstance(error, PluginFailure):
        return error
    return PluginFailure(Status.error(f"{where}: {type(error).__name__}: {error}").by(plugin))
