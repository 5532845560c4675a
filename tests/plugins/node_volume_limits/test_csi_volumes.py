"""VolumeResolver: the CSI volumes of claims and pods."""

from __future__ import annotations

import pytest

from mooring.api.meta import KubeObject
from mooring.api.volumes import GCEPersistentDisk
from mooring.plugins.node_volume_limits import NodeVolumeLimits
from mooring.plugins.node_volume_limits.csi_volumes import CSIVolume, FaultyUseError, VolumeResolver
from mooring.plugins.volumes.pod_volumes import ClaimUse, InlineUse
from mooring.testing import PluginHarness, make_pod, make_pv, make_pvc, make_storage_class

POD = make_pod("p").obj()


def resolver_of(*objects: KubeObject) -> VolumeResolver:
    return VolumeResolver(PluginHarness(NodeVolumeLimits, objects=objects).handle)


def test_the_volume_of_a_bound_claim() -> None:
    claim = make_pvc("data").bound("v").obj()
    assert resolver_of(make_pv("v").csi("d.csi", "h").obj()).of_claim(claim) == CSIVolume("d.csi", "h")


def test_in_tree_volumes_are_translated() -> None:
    volume = make_pv("v").spec(gce_persistent_disk=GCEPersistentDisk(pd_name="disk")).obj()
    found = resolver_of(volume).of_claim(make_pvc("data").bound("v").obj())
    assert found is not None
    assert found.driver == "pd.csi.storage.gke.io"
    assert "disk" in found.handle


def test_claims_that_will_be_provisioned_count_once_each() -> None:
    resolver = resolver_of(make_storage_class("s", provisioner="d.csi").obj())
    first, second = (resolver.of_claim(make_pvc(name, storage_class="s").obj()) for name in ("a", "b"))
    assert first is not None
    assert second is not None
    assert (first.driver, second.driver) == ("d.csi", "d.csi")
    assert first != second
    assert resolver.of_claim(make_pvc("a", storage_class="missing").obj()) is None


def test_a_claim_that_does_not_exist_has_no_volume() -> None:
    assert resolver_of().of_pod(POD, (ClaimUse("missing"),)) == set()


def test_a_volume_that_is_used_twice_counts_once() -> None:
    resolver = resolver_of(make_pvc("data").bound("v").obj(), make_pv("v").csi("d.csi", "h").obj())
    uses = (ClaimUse("data"), InlineUse("d.csi", "h"), ClaimUse("data"))
    assert resolver.of_pod(POD, uses) == {CSIVolume("d.csi", "h")}


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (ClaimUse(""), "PersistentVolumeClaim had no name"),
        (InlineUse("", "", "converting failed"), "converting failed"),
        (ClaimUse("data", ephemeral=True), "was not created for pod default/p"),
    ],
)
def test_invalid_uses_are_errors(use: ClaimUse | InlineUse, message: str) -> None:
    with pytest.raises(FaultyUseError, match=message):
        resolver_of(make_pvc("p-data").obj()).of_use(POD, use)
