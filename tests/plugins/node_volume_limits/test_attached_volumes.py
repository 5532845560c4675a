"""AttachedVolumes: the number of volumes by driver and node, and the pods that use a volume."""

from __future__ import annotations

import pytest

from mooring.plugins.node_volume_limits import NodeVolumeLimits
from mooring.plugins.node_volume_limits.attached_volumes import AttachedVolumes
from mooring.plugins.node_volume_limits.csi_volumes import CSIVolume
from mooring.testing import PluginHarness, make_node, make_pod, make_pv, make_pvc, make_volume_attachment

VOLUME = CSIVolume("d.csi", "h")
CLAIM, PV = make_pvc("data").bound("v").obj(), make_pv("v").csi("d.csi", "h").obj()


@pytest.fixture
def harness() -> PluginHarness:
    nodes = [make_node(name).obj() for name in ("n1", "n2")]
    return PluginHarness(NodeVolumeLimits, nodes=nodes, objects=[CLAIM, PV])


def counted(volumes: AttachedVolumes, harness: PluginHarness) -> list[int]:
    """Return the number of volumes of the driver on each node."""
    volumes.sync()
    counts = volumes.counts.get("d.csi")
    return [0 if counts is None else counts.get(harness.table.row_of[name]) for name in ("n1", "n2")]


def test_pods_that_share_a_volume_count_once_on_a_node(harness: PluginHarness) -> None:
    volumes = AttachedVolumes(harness.handle)
    pods = [make_pod(name).pvc("data").node(node).obj() for name, node in (("a", "n1"), ("b", "n1"), ("c", "n2"))]
    harness.add(*pods)
    assert counted(volumes, harness) == [1, 1]
    users = volumes.pods_with(VOLUME)
    assert users is not None
    assert users.get(harness.table.row_of["n1"]) == 2
    harness.table.remove_pod(pods[0].uid)
    assert counted(volumes, harness) == [1, 1]
    harness.table.remove_pod(pods[1].uid)
    assert counted(volumes, harness) == [0, 1]
    harness.table.remove_pod(pods[2].uid)
    assert volumes.pods_with(VOLUME) is None


def test_a_claim_that_is_bound_later_is_counted_then(harness: PluginHarness) -> None:
    harness.add(make_pvc("data").obj(), make_pod("a").pvc("data").node("n1").obj())
    volumes = AttachedVolumes(harness.handle)
    assert counted(volumes, harness) == [0, 0]
    harness.add(CLAIM)
    assert counted(volumes, harness) == [1, 0]
    harness.handle.objects.remove(PV)
    assert counted(volumes, harness) == [0, 0]


def test_an_attachment_counts_without_a_pod(harness: PluginHarness) -> None:
    attachment = make_volume_attachment("t", attacher="d.csi", node="n2", volume="v").obj()
    harness.add(attachment)
    volumes = AttachedVolumes(harness.handle)
    assert counted(volumes, harness) == [0, 1]
    harness.add(make_pod("a").pvc("data").node("n2").obj())
    assert counted(volumes, harness) == [0, 1], "the pod uses the attached volume"
    harness.handle.objects.remove(attachment)
    assert counted(volumes, harness) == [0, 1], "the pod still uses it"


def test_invalid_uses_are_counted_by_node(harness: PluginHarness) -> None:
    volumes = AttachedVolumes(harness.handle)
    harness.add(make_pvc("a-data").obj(), make_pod("a").ephemeral("data").node("n1").obj())
    volumes.sync()
    row = harness.table.row_of["n1"]
    assert volumes.faults.get(row) == 1, "the claim belongs to no pod"
    harness.handle.objects.remove(make_pvc("a-data").obj())
    volumes.sync()
    assert volumes.faults.get(row) == 0
