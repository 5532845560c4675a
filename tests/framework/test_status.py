"""Statuses and the results of extension points."""

from __future__ import annotations

import pytest

from mooring.framework import Code, PostFilterResult, PreFilterResult, Status
from mooring.framework.status import NO_NOMINATION


@pytest.mark.parametrize(
    ("status", "code", "title", "rejected"),
    [
        (Status(), Code.SUCCESS, "Success", False),
        (Status.unschedulable("a"), Code.UNSCHEDULABLE, "Unschedulable", True),
        (Status.unresolvable("a"), Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "UnschedulableAndUnresolvable", True),
        (Status.pending("a"), Code.PENDING, "Pending", True),
        (Status.error("a"), Code.ERROR, "Error", False),
        (Status.wait(), Code.WAIT, "Wait", False),
        (Status.skip(), Code.SKIP, "Skip", False),
    ],
)
def test_codes(status: Status, code: Code, title: str, rejected: bool) -> None:
    assert (status.code, status.code.title, status.is_rejected) == (code, title, rejected)
    assert status.is_success is (code is Code.SUCCESS)


def test_reasons_are_joined_and_attributed() -> None:
    status = Status.unschedulable("a", "b").by("Fit")
    assert (status.message, status.plugin) == ("a, b", "Fit")
    assert status.by("Fit") is status


def test_results() -> None:
    assert PreFilterResult.only(["a", "b"]).node_names == {"a", "b"}
    assert PreFilterResult().node_names is None
    assert PostFilterResult().nominated_node is None
    assert NO_NOMINATION.nominated_node == ""
