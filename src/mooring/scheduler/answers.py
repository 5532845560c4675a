"""What plugins may answer, made one: None, a string, a Status."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from mooring.framework.status import SUCCESS, Status

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


def as_score(answer: object) -> int:
    """A per-node score: a whole number, or one that truncates to it."""
    if type(answer) is int:
        return answer
    if isinstance(answer, (int, float, np.integer, np.floating)) and not isinstance(answer, bool):
        if math.isfinite(answer):
            return int(answer)
        raise BadAnswerError(f"score returned {answer}; return a number")
    raise BadAnswerError(f"score returned {type(answer).__name__}; return a number")


def checked_scores(answer: object, count: int) -> Ints | int:
    """Scores of many nodes: an integer for all, or a vector with one a node (floats are truncated)."""
    if isinstance(answer, int):
        return answer
    if not isinstance(answer, np.ndarray) or answer.shape != (count,):
        shape = getattr(answer, "shape", None)
        raise BadAnswerError(f"score_nodes returned {type(answer).__name__} {shape or ''}; return {count} numbers")
    if answer.dtype != np.int64:
        if answer.dtype.kind not in "iufb" or (answer.dtype.kind == "f" and not np.isfinite(answer).all()):
            raise BadAnswerError(f"score_nodes returned values that are no numbers ({answer.dtype})")
        return answer.astype(np.int64)
    return answer


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
