"""DefaultPreemption: the number of candidates, and the wording of its statuses."""

from __future__ import annotations

import pytest

from mooring.framework import ActionType, Code, CycleState, Hint, NodeStatuses, Status
from mooring.plugins.default_preemption import DefaultPreemption
from mooring.testing import PluginHarness, make_node, make_pod

PREEMPTOR = make_pod("high").priority(10).req(cpu="1").obj()


@pytest.mark.parametrize(("nodes", "wanted"), [(0, 0), (50, 50), (100, 100), (500, 100), (1000, 100), (5000, 500)])
def test_a_tenth_of_the_nodes_but_at_least_a_hundred(nodes: int, wanted: int) -> None:
    assert PluginHarness(DefaultPreemption).plugin._wanted(nodes) == wanted


def test_the_number_of_candidates_is_configurable() -> None:
    args = {"minCandidateNodesPercentage": 50, "minCandidateNodesAbsolute": 2}
    assert PluginHarness(DefaultPreemption, args=args).plugin._wanted(10) == 5


def test_a_deleted_pod_does_not_requeue_by_itself() -> None:
    (event,) = PluginHarness(DefaultPreemption).plugin.events_to_register()
    assert (event.resource, event.actions) == ("Pod", ActionType.DELETE)
    assert event.hint is not None
    assert event.hint(PREEMPTOR, PREEMPTOR, None) is Hint.SKIP


def test_a_rejection_names_preemption() -> None:
    harness = PluginHarness(DefaultPreemption, nodes=[make_node("n").capacity(cpu=1, pods=1).obj()])
    statuses = NodeStatuses(harness.table)
    statuses.default = Status.unresolvable("the node is wrong")
    _, status = harness.plugin.post_filter(CycleState(), PREEMPTOR, statuses)
    assert status.code is Code.UNSCHEDULABLE
    assert status.message.startswith("preemption: 0/1 nodes are available")
