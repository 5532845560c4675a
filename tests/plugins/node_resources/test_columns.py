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


@pytest.mark.parametrize("count", [1, 12])
def test_bounds_follow_nodes_that_shrink(count: int) -> None:
    nodes = [make_node(f"n{number}").capacity(cpu=4, memory="8Gi", pods=2).obj() for number in range(48)]
    table = PluginHarness(NodeResourcesFit, nodes=nodes).table
    columns, cpu = FreeColumns(table), table.slots["cpu"]
    columns.refresh()
    assert columns.fits_everywhere([(cpu, 4000)])
    for number in range(count):
        table.update_node(make_node(f"n{number}").capacity(cpu=3, memory="8Gi", pods=2).obj())
    columns.refresh()
    assert not columns.fits_everywhere([(cpu, 4000)])
    assert columns.fits_everywhere([(cpu, 3000)])
    columns.flush()
    assert columns.amounts[cpu].tolist() == [3000] * count + [4000] * (48 - count)


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


def test_a_node_that_loses_a_resource_is_noticed() -> None:
    nodes = [make_node(f"n{number}").capacity(cpu=4, memory="8Gi", pods=2).obj() for number in range(8)]
    table = PluginHarness(NodeResourcesFit, nodes=nodes).table
    columns = ResourceColumns(table, ["cpu", "memory"], nonzero=False)
    columns.refresh()
    assert (columns.any_missing, columns.have_room(0, 4000)) == (False, True)
    table.update_node(make_node("n3").capacity(memory="4Gi", pods=2).obj())
    columns.refresh()
    assert (columns.any_missing, columns.missing) == (True, [True, False])
    assert not columns.have_room(0, 4000)
    assert columns.capacity[:, 3].tolist() == [0, 4 << 30]


def test_amounts_beyond_floats_are_not_exact(harness: PluginHarness) -> None:
    columns = ResourceColumns(harness.table, ["memory"], nonzero=False)
    columns.refresh()
    assert columns.exact
    harness.add(make_node("n3").capacity(cpu=1, memory=str(2 * EXACT_LIMIT), pods=1).obj())
    columns.refresh()
    assert not columns.exact
