"""Why no node is feasible: verdicts of several stages, and the message."""

from __future__ import annotations

import numpy as np
import pytest

from mooring.batch.fit_errors import Everywhere, FitErrors
from mooring.framework.status import Status

CPU, TAINT, NEVER = (
    Status.unschedulable("Insufficient cpu"),
    Status.unschedulable("taint"),
    Status.unresolvable("never"),
)


def stage(rows: list[int], *verdict: Status) -> Everywhere:
    failed = np.zeros(4, dtype=np.bool_)
    failed[rows] = True
    return Everywhere(failed, verdict)


@pytest.mark.parametrize(
    ("stages", "text"),
    [
        ([], "0/0 nodes are unavailable"),
        ([stage([0, 1], CPU)], "0/2 nodes are unavailable: 2 Insufficient cpu."),
        ([stage([0], CPU), stage([1, 2], TAINT)], "0/3 nodes are unavailable: 1 Insufficient cpu, 2 taint."),
        ([stage([0, 1], CPU), stage([1, 2], TAINT)], "0/3 nodes are unavailable: 1 taint, 2 Insufficient cpu."),
        ([stage([0], CPU, TAINT)], "0/1 nodes are unavailable: 1 Insufficient cpu, 1 taint."),
    ],
    ids=["none", "one stage", "two stages", "the first stage of a node counts", "several reasons"],
)
def test_the_message_counts_reasons(stages: list[Everywhere], text: str) -> None:
    assert FitErrors(stages).text() == text


def test_groups_have_the_rows_of_each_verdict_from_the_first_stage_that_rejected_them() -> None:
    errors = FitErrors([stage([2, 3], CPU), stage([0, 2], TAINT, NEVER), stage([0], CPU)])
    found = [([status.message for status in verdict], rows.tolist()) for verdict, rows in errors.groups()]
    assert found == [(["Insufficient cpu"], [2, 3]), (["taint", "never"], [0])]
    assert {row: verdict for verdict, rows in errors.groups() for row in rows.tolist()} == dict(errors.verdicts())


def test_a_message_replaces_the_count_of_nodes() -> None:
    assert FitErrors(message="skipped").text() == "skipped"
    assert FitErrors([stage([0], CPU)], "why").text() == "why: 1 Insufficient cpu."


def test_unresolvable_rows() -> None:
    found = FitErrors([stage([0], CPU), stage([0, 1], NEVER), stage([2], TAINT, NEVER)]).unresolvable()
    assert found is not None
    assert found.tolist() == [False, True, True, False], "row 0 failed for another reason first"
    assert FitErrors([stage([0], CPU)]).unresolvable() is None
    assert FitErrors().unresolvable() is None
