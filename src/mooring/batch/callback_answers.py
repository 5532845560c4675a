"""Validation of the answers of users' callbacks, and the fallback answers for calls that fail.

Built-in plugins are not checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any, Final

import numpy as np

from mooring.batch.callbacks import ABSTAIN, Invalid
from mooring.batch.hyper_nodes import Domain
from mooring.batch.session_nodes import SessionNode
from mooring.batch.task import TaskInfo
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts
from mooring.loading.circuit_breaker import Check


class NoSimulation:
    """The fallback for a Simulation that failed: nothing can be simulated."""

    def remove(self, *_: object) -> bool:
        """Return False."""
        return False

    add = allocatable = predicate = remove


#: The fallback answers for calls that fail. A failed predicate rejects the nodes, and a failed reservation the task.
FALLBACK: Final[Mapping[str, Any]] = {
    "job_order": 0,
    "queue_order": 0,
    "victim_queue_order": 0,
    "task_order": 0,
    "node_order": 0.0,
    "batch_node_order": {},
    "best_node": None,
    "preemptable": ([], ABSTAIN),
    "reclaimable": ([], ABSTAIN),
    "unified_evictable": ([], ABSTAIN),
    "may_evict": False,
    "overused": False,
    "preemptive": True,
    "allocatable": True,
    "job_ready": True,
    "job_pipelined": ABSTAIN,
    "job_enqueueable": ABSTAIN,
    "job_enqueued": None,
    "job_starving": True,
    "job_valid": None,
    "victim_tasks": [],
    "pre_predicate": None,
    "simulation": NoSimulation(),
    "hyper_node_order": 0.0,
    "hyper_node_gradient": [],
    "sub_job_ready": True,
    "sub_job_pipelined": ABSTAIN,
    "sub_job_order": 0,
}


def check_of(kind: str, *, columns: bool = False) -> Check | None:
    """Return the check of a callback's answers; None if any answer is valid."""
    return (_COLUMN_CHECKS if columns and kind in _COLUMN_CHECKS else _CHECKS).get(kind)


def _unless(is_valid: Callable[[Any], bool], expected: str) -> Check:
    def check(answer: Any, _arguments: tuple[Any, ...]) -> str | None:
        return None if is_valid(answer) else f"returned {_shown(answer)}; return {expected}"

    return check


def _shown(answer: object) -> str:
    if answer is None:
        return "None"
    kind = type(answer).__name__
    # Without values that differ from call to call, so that equal failures are logged once.
    return f"{kind} {answer!r:.60}" if isinstance(answer, str | bool | float) else kind


def _is_number(answer: object) -> bool:
    return isinstance(answer, Real | np.bool_) and answer == answer  # noqa: PLR0124  # NaN is no score


def _is_truth(answer: object) -> bool:
    return isinstance(answer, bool | np.bool_ | int)


def _is_text(answer: object) -> bool:
    return answer is None or isinstance(answer, str)


def _are_tasks(answer: object) -> bool:
    return isinstance(answer, list | tuple) and all(isinstance(each, TaskInfo) for each in answer)


def _are_domains(answer: object) -> bool:
    return isinstance(answer, list) and all(
        isinstance(group, list) and all(isinstance(each, Domain) for each in group) for group in answer
    )


def _are_victims(answer: object) -> bool:
    return isinstance(answer, tuple) and len(answer) == 2 and _are_tasks(answer[0]) and isinstance(answer[1], int)


def _are_scores(answer: object) -> bool:
    if isinstance(answer, Mapping):
        return all(map(_is_number, answer.values()))
    return _is_text(answer)


def _vector(answer: Any, arguments: tuple[Any, ...]) -> str | None:
    """Check the scores of all nodes; the last argument is the nodes."""
    if isinstance(answer, str):
        return None
    values, count = np.asarray(answer[0] if isinstance(answer, tuple) else answer), len(arguments[-1])
    if values.dtype.kind not in "biuf" or values.shape not in ((), (count,)):
        return f"returned {_shown(answer)}; return a NumPy array of {count} numbers, one for each"
    return (
        "returned a score that is not a number (NaN)" if values.dtype.kind == "f" and np.isnan(values).any() else None
    )


def _verdicts(answer: Any, arguments: tuple[Any, ...]) -> str | None:
    count = len(arguments[-1])
    if answer is None or (isinstance(answer, Verdicts) and len(answer.codes) == count):
        return None
    return f"returned {_shown(answer)}; return None or Verdicts of {count} nodes"


_ORDER = _unless(_is_number, "a negative number, 0 or a positive number")
_TRUTH = _unless(_is_truth, "True or False")
_VOTE = _unless(_is_truth, "1, 0 or -1")
_VICTIMS = _unless(_are_victims, "the tasks that may be evicted and a vote, such as (candidates, 1)")
_ERROR_TEXT = _unless(_is_text, "None or an error text")
_CHECKS: Final[Mapping[str, Check]] = {
    **dict.fromkeys(("job_order", "queue_order", "victim_queue_order", "task_order", "sub_job_order"), _ORDER),
    **dict.fromkeys(("may_evict", "overused", "preemptive", "allocatable", "job_ready", "job_starving"), _TRUTH),
    **dict.fromkeys(("job_pipelined", "job_enqueueable", "sub_job_pipelined"), _VOTE),
    "sub_job_ready": _TRUTH,
    "hyper_node_order": _vector,
    **dict.fromkeys(("preemptable", "reclaimable", "unified_evictable"), _VICTIMS),
    **dict.fromkeys(("pre_predicate", "allocate_handler", "reservation"), _ERROR_TEXT),
    "predicate": _unless(lambda answer: _is_text(answer) or isinstance(answer, Status), "None, a reason or a Status"),
    "node_order": _unless(_is_number, "a number"),
    "batch_node_order": _unless(_are_scores, "numbers by node name"),
    "best_node": _unless(lambda answer: answer is None or isinstance(answer, SessionNode), "a node or None"),
    "job_valid": _unless(lambda answer: answer is None or isinstance(answer, Invalid), "None or Invalid"),
    "hyper_node_gradient": _unless(_are_domains, "lists of domains, in a list"),
    "victim_tasks": _unless(_are_tasks, "a list of tasks"),
    "simulation": _unless(
        lambda answer: all(hasattr(answer, name) for name in ("remove", "add", "allocatable", "predicate")),
        "an object with the methods remove, add, allocatable and predicate",
    ),
}
#: The checks of callbacks that evaluate all nodes at once.
_COLUMN_CHECKS: Final[Mapping[str, Check]] = {
    "predicate": _verdicts,
    "node_order": _vector,
    "batch_node_order": _vector,
}
