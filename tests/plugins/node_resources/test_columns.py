"""FreeColumns and ResourceColumns follow the node table."""

from __future__ import annotations

import pytest

from mooring.plugins.node_resources.columns import EXACT_LIMIT, FreeColumns, ResourceColumns
from mooring.plugins.node_resources.fit import NodeResourcesFit
from mooring.testing import PluginHarness, make_node, make_pod


@pytest.fixture
def harness() -> PluginHarness:
    nodes = [make_node(name).capacity(cpu=4, memory="8Gi", pods=2).obj() for name in ("n1", "n2")]
    return PluginHarness(NodeResourcesFit, nodes=nodes)


def free_cpu(columns: FreeColumns) -> list[int]:
    columns.refresh()
    columns.flush()
    return columns.amounts[columns.table.slots["cpu"]].tolist()


def test_free_amounts_follow_pods(harness: PluginHarness) -> None:
    columns = FreeColumns(harness.table)
    assert free_cpu(columns) == [4000, 4000]
    pod = make_pod("p").req(cpu="3").node("n2").obj()
    harness.add(pod)
    assert free_cpu(columns) == [4000, 1000]
    assert columns.pods.tolist() == [2, 1]
    harness.table.remove_pod(pod.uid)
    assert free_cpu(columns) == [4000, 4000]


def test_a_pod_fits_everywhere_only_if_every_node_has_room(harness: PluginHarness) -> None:
    columns = FreeColumns(harness.table)
    columns.refresh()
    cpu = harness.table.slots["cpu"]
    assert columns.fits_everywhere([(cpu, 4000)])
    assert not columns.fits_everywhere([(cpu, 4001)])
    pods = [make_pod(name).req(cpu="1").node("n1").obj() for name in "ab"]
    harness.add(pods[0])
    columns.refresh()
    assert columns.fits_everywhere([(cpu, 3000)])
    assert not columns.fits_everywhere([(cpu, 4000)])
    harness.add(pods[1])
    columns.refresh()
    assert not columns.fits_everywhere([]), "n1 has its maximum number of pods"
    harness.table.remove_pod(pods[0].uid)
    columns.refresh()
    assert columns.fits_everywhere([(cpu, 3000)])


def test_a_new_resource_adds_a_column(harness: PluginHarness) -> None:
    columns = FreeColumns(harness.table)
    columns.refresh()
    harness.add(make_node("n3").capacity({"example.com/gpu": 2}, cpu=1, pods=1).obj())
    columns.refresh()
    columns.flush()
    assert columns.amounts[harness.table.slots["example.com/gpu"]].tolist() == [0, 0, 2]


def test_capacity_and_use_of_chosen_resources(harness: PluginHarness) -> None:
    columns = ResourceColumns(harness.table, ["cpu", "example.com/gpu"], nonzero=False)
    harness.add(make_pod("p").req(cpu="1").node("n1").obj())
    columns.refresh()
    assert columns.capacity.tolist() == [[4000, 4000], [0, 0]]
    assert columns.used.tolist() == [[1000, 0], [0, 0]]
    assert columns.missing == [False, True]
    assert columns.amounts_at(0, harness.table.row_of["n1"]) == (4000, 1000)


def test_amounts_beyond_floats_are_not_exact(harness: PluginHarness) -> None:
    columns = ResourceColumns(harness.table, ["memory"], nonzero=False)
    columns.refresh()
    assert columns.exact
    harness.add(make_node("n3").capacity(cpu=1, memory=str(2 * EXACT_LIMIT), pods=1).obj())
    columns.refresh()
    assert not columns.exact
