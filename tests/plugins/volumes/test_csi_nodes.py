"""CSINode objects in columns."""

from __future__ import annotations

from mooring.plugins.node_volume_limits import NodeVolumeLimits
from mooring.plugins.volumes.csi_nodes import (
    MIGRATED_PLUGINS,
    NO_LIMIT,
    CSINodeColumns,
    migrated_plugins,
    volume_limits,
)
from mooring.testing import PluginHarness, make_csi_node, make_node


def test_drivers_without_a_count_have_no_limit() -> None:
    assert volume_limits(make_csi_node("n", {"d": 3, "e": None, "f": 0}).obj()) == {"d": 3, "f": 0}


def test_migrated_plugins_are_listed_in_an_annotation() -> None:
    node = make_csi_node("n", {}).annotation({MIGRATED_PLUGINS: "kubernetes.io/gce-pd,kubernetes.io/aws-ebs,"}).obj()
    assert migrated_plugins(node) == {"kubernetes.io/gce-pd", "kubernetes.io/aws-ebs"}
    assert migrated_plugins(make_csi_node("n", {}).obj()) == frozenset()


def test_columns_follow_the_objects() -> None:
    harness = PluginHarness(NodeVolumeLimits, nodes=[make_node(name).obj() for name in ("n1", "n2")])
    columns = CSINodeColumns(harness.handle)
    columns.sync()
    assert columns.exists[:2].tolist() == [False, False]
    harness.add(make_csi_node("n2", {"d": 3}).annotation({MIGRATED_PLUGINS: "x"}).obj())
    columns.sync()
    assert columns.exists[:2].tolist() == [False, True]
    assert columns.limited[:2].tolist() == [False, True]
    assert columns.limits["d"][:2].tolist() == [NO_LIMIT, 3]
    assert columns.migrated["x"][:2].tolist() == [False, True]
    harness.add(make_csi_node("n2", {}).obj())
    columns.sync()
    assert columns.limited[:2].tolist() == [False, False]
    assert columns.limits["d"][:2].tolist() == [NO_LIMIT, NO_LIMIT]
    assert columns.migrated["x"][:2].tolist() == [False, False]


def test_columns_grow_with_the_cluster() -> None:
    harness = PluginHarness(NodeVolumeLimits, nodes=[make_node("n0").obj()])
    columns = CSINodeColumns(harness.handle)
    harness.add(make_csi_node("n0", {"d": 1}).obj())
    columns.sync()
    harness.add(*(make_node(f"n{number}").obj() for number in range(1, 100)), make_csi_node("n99", {"d": 2}).obj())
    columns.sync()
    rows = harness.table.row_of
    assert (columns.limits["d"][rows["n0"]], columns.limits["d"][rows["n99"]]) == (1, 2)
    assert columns.limits["d"][rows["n50"]] == NO_LIMIT
