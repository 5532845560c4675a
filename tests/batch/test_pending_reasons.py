"""Messages about pending jobs and tasks."""

from __future__ import annotations

import pytest

from mooring.batch.fit_errors import FitErrors
from mooring.batch.pending_reasons import job_message, task_reason
from mooring.batch.task import Transaction
from tests.batch.cases import job, task


@pytest.mark.parametrize(
    ("status", "evicted", "reason", "message", "nominated"),
    [
        ("Allocated", False, "Schedulable", "can possibly be assigned to a, once minAvailable is satisfied", ""),
        ("Pipelined", False, "Unschedulable",
         "can possibly be assigned to a, once resource is released and minAvailable is satisfied", ""),
        ("Pipelined", True, "Unschedulable",
         "can possibly be assigned to a, once resource is released and minAvailable is satisfied", "a"),
        ("Pending", False, "Unschedulable", "0/3 nodes", ""),
        ("Running", False, "Running", "the job's error", ""),
    ],
)  # fmt: skip
def test_task_reason(status: str, evicted: bool, reason: str, message: str, nominated: str) -> None:
    made = task("p")
    one = job(1, made)
    one.fit_error = "the job's error"
    one.fit_errors[made.uid] = FitErrors(message="0/3 nodes")
    made.last = Transaction(status, "a", evicted)  # type: ignore[arg-type]
    found = task_reason(one, made)
    assert (found.reason, found.nominated_node) == (reason, nominated)
    assert found.message.removeprefix("Pod default/p ") == message


def test_job_message() -> None:
    first, second = task("p"), task("q")
    one = job(2, first, second)
    text = "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable"
    assert job_message(one) == text
    one.fit_errors[second.uid] = FitErrors(message="why")
    assert job_message(one) == f"{text}. Origin reason is q: why"
    one.fit_error = "all of it"
    assert job_message(one) == f"{text}. Origin reason is: all of it"
    one.set_status(first, "Running")
    one.set_status(second, "Running")
    one.fit_error = ""
    one.fit_errors.clear()
    assert job_message(one) == "pod group is ready, 2 Running, 2 minAvailable"
