"""The summary of a pod's volumes: claims, attachable volumes and inline disks."""

from __future__ import annotations

import pytest

from mooring.api.volumes import ISCSI, RBD, AWSElasticBlockStore, EmptyDir, GCEPersistentDisk, Volume
from mooring.framework import Hint
from mooring.plugins.volumes.pod_volumes import (
    NO_VOLUMES,
    ClaimUse,
    InlineUse,
    claim_class,
    conflicts,
    disks_of,
    own_claim,
    own_named_claim,
    summarise,
    uses_claim,
)
from mooring.testing import make_pod, make_pvc


def gce(name: str, *, read_only: bool = False) -> Volume:
    return Volume(gce_persistent_disk=GCEPersistentDisk(pd_name=name, read_only=read_only))


def test_a_pod_without_volumes() -> None:
    assert summarise(make_pod("p").obj()) is NO_VOLUMES


def test_claims_and_ephemeral_volumes_in_order() -> None:
    found = summarise(make_pod("p").pvc("data").ephemeral("scratch").volume(Volume(empty_dir=EmptyDir())).obj())
    assert found.claims == ("data",)
    assert found.uses == (ClaimUse("data"), ClaimUse("scratch", ephemeral=True))
    assert (found.claimed, found.attachable, found.names_disks) == (True, True, False)


def test_in_tree_volumes_are_translated_to_csi() -> None:
    found = summarise(make_pod("p").volume(gce("disk")).obj())
    (use,) = found.uses
    assert isinstance(use, InlineUse)
    assert (use.driver, use.fault) == ("pd.csi.storage.gke.io", "")
    assert (found.claimed, found.attachable, found.names_disks) == (False, True, True)


def test_an_ephemeral_claim_is_named_after_the_pod_and_the_volume() -> None:
    pod = make_pod("p").ephemeral("scratch").obj()
    assert uses_claim(pod, "p-scratch")
    assert not uses_claim(pod, "scratch")


@pytest.mark.parametrize(
    ("mine", "other", "count"),
    [
        (gce("d"), gce("d"), 1),
        (gce("d"), gce("e"), 0),
        (gce("d", read_only=True), gce("d", read_only=True), 0),
        (gce("d", read_only=True), gce("d"), 1),
        (
            Volume(aws_elastic_block_store=AWSElasticBlockStore(volume_id="d", read_only=True)),
            Volume(aws_elastic_block_store=AWSElasticBlockStore(volume_id="d", read_only=True)),
            1,
        ),
        (Volume(iscsi=ISCSI(iqn="d")), gce("d"), 0),
        (Volume(rbd=RBD(monitors=("a", "b"), image="i")), Volume(rbd=RBD(monitors=("b", "c"), image="i")), 1),
        (Volume(rbd=RBD(monitors=("a",), image="i")), Volume(rbd=RBD(monitors=("c",), image="i")), 0),
    ],
)
def test_conflicts_of_disks(mine: Volume, other: Volume, count: int) -> None:
    assert conflicts(tuple(disks_of(mine)), tuple(disks_of(other))) == count


def test_the_class_annotation_overrides_the_field() -> None:
    annotated = make_pvc("c", storage_class="new").annotation({"volume.beta.kubernetes.io/storage-class": "old"})
    assert (claim_class(annotated.obj()), claim_class(make_pvc("c", storage_class="new").obj())) == ("old", "new")
    assert claim_class(make_pvc("c", storage_class=None).obj()) == ""


def test_hints_for_claims_of_the_pod() -> None:
    pod = make_pod("p").pvc("data").ephemeral("scratch").obj()
    cases = {"data": (Hint.QUEUE, Hint.QUEUE), "p-scratch": (Hint.SKIP, Hint.QUEUE), "other": (Hint.SKIP, Hint.SKIP)}
    for name, expected in cases.items():
        claim = make_pvc(name).obj()
        assert (own_named_claim(pod, None, claim), own_claim(pod, None, claim)) == expected, name
    assert own_claim(pod, None, make_pvc("data", "other").obj()) is Hint.SKIP
