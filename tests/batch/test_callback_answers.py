"""Answers of users' callbacks that are not valid count as failures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from mooring.batch.callback_answers import FALLBACK, check_of
from mooring.batch.callbacks import _FLAG, Invalid
from mooring.framework.status import Status
from mooring.framework.verdicts import Verdicts
from tests.batch.cases import task

NODES = ("task", ["node-0", "node-1"])
TASK = task()


@pytest.mark.parametrize(
    ("kind", "columns", "answer"),
    [
        *[(kind, False, answer) for kind in ("job_order", "task_order") for answer in (-1, 0, 1.5, True, np.int64(1))],
        *[(kind, False, answer) for kind in ("overused", "job_ready") for answer in (True, np.bool_(False), 1)],
        ("job_pipelined", False, -1),
        ("predicate", False, None),
        ("predicate", False, "no room"),
        ("predicate", False, Status.unschedulable("no")),
        ("predicate", True, None),
        ("predicate", True, Verdicts.of([Status(), Status()])),
        ("node_order", False, np.float64(2)),
        ("node_order", True, np.zeros(2)),
        ("node_order", True, 1.0),
        ("node_order", True, [1, 2]),
        ("batch_node_order", False, {"node-0": 1}),
        ("batch_node_order", False, None),
        ("batch_node_order", True, np.ones(2)),
        ("best_node", False, None),
        ("reclaimable", False, ([TASK], 1)),
        ("job_valid", False, Invalid("reason", "message")),
        ("victim_tasks", False, [TASK]),
        ("job_enqueued", False, "anything"),
    ],
)
def test_valid(kind: str, columns: bool, answer: Any) -> None:
    check = check_of(kind, columns=columns)
    assert check is None or check(answer, NODES) is None


@pytest.mark.parametrize(
    ("kind", "columns", "answer", "text"),
    [
        ("job_order", False, None, "returned None; return a negative number, 0 or a positive number"),
        ("queue_order", False, "first", "returned str 'first'; return a negative number, 0 or a positive number"),
        ("overused", False, None, "returned None; return True or False"),
        ("job_enqueueable", False, None, "returned None; return 1, 0 or -1"),
        ("predicate", False, False, "returned bool False; return None, a reason or a Status"),
        ("predicate", True, [None, None], "returned list; return None or Verdicts of 2 nodes"),
        ("node_order", False, float("nan"), "returned float nan; return a number"),
        ("node_order", True, np.zeros(3), "returned ndarray; return a NumPy array of 2 numbers"),
        ("node_order", True, np.array([1.0, np.nan]), "returned a score that is not a number (NaN)"),
        ("batch_node_order", False, {"node-0": "high"}, "return numbers by node name"),
        ("best_node", False, "node-0", "returned str 'node-0'; return a node or None"),
        ("preemptable", False, [TASK], "return the tasks that may be evicted and a vote, such as (candidates, 1)"),
        ("job_valid", False, "no", "returned str 'no'; return None or Invalid"),
        ("victim_tasks", False, None, "returned None; return a list of tasks"),
        ("simulation", False, None, "return an object with the methods remove, add, allocatable and predicate"),
    ],
)
def test_invalid(kind: str, columns: bool, answer: Any, text: str) -> None:
    check = check_of(kind, columns=columns)
    assert check is not None
    assert text in (check(answer, NODES) or "")


def test_every_kind_of_callback_has_a_replacement_for_failed_calls() -> None:
    assert set(_FLAG) - {"predicate"} == set(FALLBACK)
    for kind, answer in FALLBACK.items():
        check = check_of(kind)
        assert check is None or check(answer, NODES) is None, kind
