"""ClaimSorter: which claims of a pod are invalid, bound, or wait for the pod to be placed."""

from __future__ import annotations

import msgspec
import pytest

from mooring.api.meta import KubeObject, OwnerReference
from mooring.api.pod import Pod
from mooring.api.storage import PersistentVolumeClaim, StorageClass
from mooring.framework import Code, Status
from mooring.plugins.volume_binding import VolumeBinding
from mooring.plugins.volume_binding.assume_cache import AssumeCache
from mooring.plugins.volume_binding.claims import ClaimSorter, is_bound
from mooring.plugins.volumes.pod_volumes import summarise
from mooring.testing import PluginHarness, make_pod, make_pvc, make_storage_class

POD = make_pod("p").pvc("data").obj()
EPHEMERAL = make_pod("p").ephemeral("data").obj()


def sorter_of(*objects: KubeObject) -> ClaimSorter:
    handle = PluginHarness(VolumeBinding, objects=objects).handle
    claims = handle.lister(PersistentVolumeClaim)
    return ClaimSorter(claims, AssumeCache(claims, "persistentvolumeclaims"), handle.lister(StorageClass))


def check(pod: Pod, *objects: KubeObject) -> str | None:
    return sorter_of(*objects).check(pod, summarise(pod).uses)


def owned_by(pod: Pod) -> PersistentVolumeClaim:
    claim = make_pvc(f"{pod.name}-data").obj()
    owners = (OwnerReference(kind="Pod", uid=pod.uid, controller=True),)
    return msgspec.structs.replace(claim, metadata=msgspec.structs.replace(claim.metadata, owner_references=owners))


def test_a_claim_is_bound_when_the_controller_has_finished_binding_it() -> None:
    assert is_bound(make_pvc("data").bound("v").obj())
    assert not is_bound(make_pvc("data").spec(volume_name="v").obj())
    assert not is_bound(make_pvc("data").obj())


@pytest.mark.parametrize(
    ("pod", "claims", "fault"),
    [
        (POD, [make_pvc("data").obj()], None),
        (POD, [], 'persistentvolumeclaim "data" not found'),
        (POD, [make_pvc("data", "other").obj()], 'persistentvolumeclaim "data" not found'),
        (
            POD,
            [make_pvc("data").spec(volume_name="v").phase("Lost").obj()],
            'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
        ),
        (POD, [make_pvc("data").terminating().obj()], 'persistentvolumeclaim "data" is being deleted'),
        (EPHEMERAL, [], 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-data"'),
        (EPHEMERAL, [owned_by(EPHEMERAL)], None),
        (
            EPHEMERAL,
            [make_pvc("p-data").obj()],
            "PVC default/p-data was not created for pod default/p (pod is not owner)",
        ),
    ],
)
def test_invalid_claims(pod: Pod, claims: list[PersistentVolumeClaim], fault: str | None) -> None:
    assert check(pod, *claims) == fault


def test_bound_claims_and_claims_that_wait_for_the_pod_are_separated() -> None:
    pod = make_pod("p").pvc("old").pvc("new").obj()
    objects = [
        make_pvc("old").bound("v").obj(),
        make_pvc("new", storage_class="s").obj(),
        make_storage_class("s").obj(),
    ]
    found = sorter_of(*objects).sort(pod, summarise(pod).uses)
    assert not isinstance(found, Status)
    assert [[claim.name for claim in each] for each in found] == [["old"], ["new"]]


@pytest.mark.parametrize(
    "objects",
    [
        [make_pvc("data", storage_class="s").obj(), make_storage_class("s", wait=False).obj()],
        [make_pvc("data", storage_class="missing").obj()],
        [make_pvc("data", storage_class="s").spec(volume_name="v").obj(), make_storage_class("s").obj()],
    ],
)
def test_unbound_immediate_claims_reject_the_pod(objects: list[KubeObject]) -> None:
    status = sorter_of(*objects).sort(POD, summarise(POD).uses)
    assert status == Status.unresolvable("pod has unbound immediate PersistentVolumeClaims")


def test_a_class_without_a_binding_mode_is_an_error() -> None:
    broken = msgspec.structs.replace(make_storage_class("s").obj(), volume_binding_mode=None)
    status = sorter_of(make_pvc("data", storage_class="s").obj(), broken).sort(POD, summarise(POD).uses)
    assert isinstance(status, Status)
    assert (status.code, status.message) == (Code.ERROR, 'VolumeBindingMode not set for StorageClass "s"')
