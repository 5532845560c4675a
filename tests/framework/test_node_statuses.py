"""The statuses of all nodes of an attempt, and the message made of them."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from mooring.columns.table import NodeTable
from mooring.framework import Code, NodeStatuses, Status
from mooring.framework.node_statuses import Rejections, fit_message
from mooring.testing import make_node

CPU, TAINT = Status.unschedulable("Insufficient cpu"), Status.unresolvable("node(s) had untolerated taint(s)")


@pytest.fixture
def statuses() -> NodeStatuses:
    table = NodeTable()
    for name in "abcd":
        table.add_node(make_node(name).obj())
    made = NodeStatuses(table)
    codes = np.array([1, 2], dtype=np.int8)
    made.add(Rejections("Fit", np.array([0, 1]), codes, lambda code: CPU if code == 1 else TAINT))
    return made


def test_a_node_has_the_status_of_the_plugin_that_rejected_it(statuses: NodeStatuses) -> None:
    assert statuses.get("a") == CPU.by("Fit")
    assert statuses.get("b") == TAINT.by("Fit")
    assert statuses.get("c").code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert statuses.get("unknown") == statuses.absent


def test_a_single_status_overrides_rejections(statuses: NodeStatuses) -> None:
    statuses.set_by_name("a", TAINT)
    assert statuses.get("a") == TAINT
    groups = {status: rows.tolist() for status, rows in statuses.groups()}
    assert groups == {TAINT.by("Fit"): [1], TAINT: [0], statuses.absent: [2, 3]}


def test_rows_with_a_code(statuses: NodeStatuses) -> None:
    assert statuses.rows_with(Code.UNSCHEDULABLE).tolist() == [0]
    assert statuses.rows_with(Code.UNSCHEDULABLE_AND_UNRESOLVABLE).tolist() == [1, 2, 3]
    assert statuses.rows_with(Code.ERROR).tolist() == []


def test_plugins_that_rejected_a_node(statuses: NodeStatuses) -> None:
    statuses.set(2, Status.pending("later").by("Other"))
    assert statuses.plugins() == {"Fit"}
    assert statuses.plugins(pending=True) == {"Other"}


def test_reasons_count_nodes_and_unknown_names(statuses: NodeStatuses) -> None:
    statuses.set_by_name("unknown", CPU)
    assert statuses.reasons() == Counter({"Insufficient cpu": 2, "node(s) had untolerated taint(s)": 1})


def test_the_message(statuses: NodeStatuses) -> None:
    expected = "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint(s)."
    assert fit_message(4, statuses) == expected
    assert fit_message(4, statuses, post_filter="preemption: no.") == f"{expected} preemption: no."
    assert fit_message(4, statuses, pre_filter="no claim") == "0/4 nodes are available: no claim."
