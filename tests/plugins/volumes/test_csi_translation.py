"""In-tree volumes as CSI drivers see them."""

from __future__ import annotations

import pytest

from mooring.api.affinity import NodeSelector
from mooring.api.storage import PersistentVolume, VolumeNodeAffinity
from mooring.api.volumes import (
    AWSElasticBlockStore,
    AzureDisk,
    AzureFile,
    Cinder,
    EmptyDir,
    GCEPersistentDisk,
    PortworxVolume,
    Volume,
    VsphereVolume,
)
from mooring.plugins.volumes.csi_translation import (
    TranslationError,
    csi_affinity,
    inline_driver,
    inline_plugin,
    inline_volume,
    persistent_volume,
    volume_plugin,
)
from mooring.testing import make_pv
from mooring.testing.builders import Expression, node_term

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
CINDER = "topology.cinder.csi.openstack.org/zone"

EBS_ID = "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume"


def ebs(volume_id: str) -> Volume:
    return Volume(aws_elastic_block_store=AWSElasticBlockStore(volume_id=volume_id))


def gce(name: str = "d", labels: dict[str, str] | None = None) -> PersistentVolume:
    return make_pv("v").spec(gce_persistent_disk=GCEPersistentDisk(pd_name=name)).label(labels or {}).obj()


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (ebs("vol-1"), ("ebs.csi.aws.com", "vol-1")),
        (ebs("anything"), ("ebs.csi.aws.com", "anything")),
        (ebs("aws://us-east-1a/vol-1"), ("ebs.csi.aws.com", "vol-1")),
        (ebs("aws:///vol-1/"), ("ebs.csi.aws.com", "vol-1")),
        (
            Volume(gce_persistent_disk=GCEPersistentDisk(pd_name="d")),
            ("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ),
        (Volume(azure_disk=AzureDisk(disk_uri="/d", kind="MANAGED")), ("disk.csi.azure.com", "/d")),
        (Volume(cinder=Cinder(volume_id="c")), ("cinder.csi.openstack.org", "c")),
        (Volume(portworx_volume=PortworxVolume(volume_id="p")), ("pxd.portworx.com", "p")),
        # Known to have moved to CSI, but the scheduler does not count them.
        (Volume(vsphere_volume=VsphereVolume(volume_path="v")), None),
        (Volume(azure_file=AzureFile(share_name="f")), None),
        (Volume(empty_dir=EmptyDir()), None),
    ],
)
def test_inline_volumes(volume, expected):
    assert inline_volume(volume) == expected


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        (ebs("aws://us-east-1a/disk"), f"{EBS_ID} (aws://us-east-1a/disk)"),
        (ebs("aws://vol-1"), f"{EBS_ID} (aws://vol-1)"),
        (ebs("aws://z/vol-1/more"), f"{EBS_ID} (aws://z/vol-1/more)"),
        (Volume(azure_disk=AzureDisk(kind="Shared")), "kind(Shared) is not supported in csi migration"),
    ],
)
def test_inline_volumes_that_no_driver_can_serve(volume, text):
    for call in (inline_volume, inline_driver):
        with pytest.raises(TranslationError) as failure:
            call(volume)
        assert str(failure.value) == text


@pytest.mark.parametrize(
    ("volume", "plugin", "driver"),
    [
        (Volume(vsphere_volume=VsphereVolume()), "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com"),
        (Volume(azure_file=AzureFile()), "kubernetes.io/azure-file", "file.csi.azure.com"),
        (ebs("vol-1"), "kubernetes.io/aws-ebs", "ebs.csi.aws.com"),
        (Volume(), None, None),
    ],
)
def test_plugins_and_their_drivers(volume, plugin, driver):
    assert (inline_plugin(volume), inline_driver(volume)) == (plugin, driver)


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({}, "zones/UNSPECIFIED"),
        ({ZONE: "us-east1-b"}, "zones/us-east1-b"),
        ({ZONE: "ignored", OLD_ZONE: "us-east1-b"}, "zones/us-east1-b"),
        ({ZONE: "us-east1-b__us-east1-c"}, "regions/us-east1"),
    ],
)
def test_a_gce_volume_is_named_by_its_place(labels, place):
    expected = ("pd.csi.storage.gke.io", f"projects/UNSPECIFIED/{place}/disks/d")
    assert persistent_volume(gce(labels=labels)) == expected


@pytest.mark.parametrize(
    ("zones", "text"),
    [
        ("us-east1-b__us-west1-a", "multiple or no regions gotten from zones, got: map[us-east1:{} us-west1:{}]"),
        ("x__y", "zone in unexpected format, expected: {locale}-{region}-{zone}, got: x"),
    ],
)
def test_gce_zones_without_a_region(zones, text):
    with pytest.raises(TranslationError) as failure:
        persistent_volume(gce(labels={ZONE: zones}))
    assert str(failure.value) == f"failed to get region from zones: {text}"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"aws_elastic_block_store": AWSElasticBlockStore(volume_id="aws:///vol-1")}, ("ebs.csi.aws.com", "vol-1")),
        ({"azure_disk": AzureDisk(disk_uri="/d")}, ("disk.csi.azure.com", "/d")),
        ({"cinder": Cinder(volume_id="c")}, ("cinder.csi.openstack.org", "c")),
        ({"portworx_volume": PortworxVolume(volume_id="p")}, ("pxd.portworx.com", "p")),
        ({"vsphere_volume": VsphereVolume(volume_path="v")}, None),
        ({}, None),
    ],
)
def test_persistent_volumes(spec, expected):
    assert persistent_volume(make_pv("v").spec(**spec).obj()) == expected


def affinity(*terms: list[Expression]) -> VolumeNodeAffinity:
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=tuple(map(node_term, terms))))


@pytest.mark.parametrize(
    ("labels", "before", "after"),
    [
        pytest.param({}, None, None, id="nothing is known"),
        pytest.param({ZONE: "a"}, None, affinity([(CINDER, "In", "a")]), id="zone from the label"),
        pytest.param({OLD_ZONE: "b__a__"}, None, affinity([(CINDER, "In", "a", "b")]), id="zones from the old label"),
        pytest.param({ZONE: ""}, None, None, id="an empty label says nothing"),
        pytest.param(
            {ZONE: "a"},
            affinity([("disk", "In", "ssd")], []),
            affinity([("disk", "In", "ssd"), (CINDER, "In", "a")], [(CINDER, "In", "a")]),
            id="every term is narrowed by the label's zone",
        ),
        pytest.param(
            {ZONE: "ignored"},
            affinity([(ZONE, "In", "a")], [(ZONE, "NotIn", "b"), ("x", "Exists")]),
            affinity([(CINDER, "In", "a")], [(CINDER, "NotIn", "b"), ("x", "Exists")]),
            id="the affinity's zones become the driver's",
        ),
        pytest.param(
            {ZONE: "a"},
            affinity([(ZONE, "Exists")]),
            affinity([(ZONE, "Exists"), (CINDER, "In", "a")]),
            id="a key without values is left alone",
        ),
        pytest.param(
            {},
            affinity([(OLD_ZONE, "In", "a"), (OLD_REGION, "In", "r")]),
            affinity([(CINDER, "In", "a"), (REGION, "In", "r")]),
            id="the old region label becomes the new one",
        ),
        pytest.param(
            {},
            affinity([(ZONE, "In", "a"), (OLD_REGION, "In", "r")]),
            affinity([(CINDER, "In", "a"), (OLD_REGION, "In", "r")]),
            id="unless the zone's is the new one already",
        ),
    ],
)
def test_affinity_in_the_drivers_terms(labels, before, after):
    volume = make_pv("v").spec(cinder=Cinder(), node_affinity=before).label(labels).obj()
    assert volume_plugin(volume) == "kubernetes.io/cinder"
    assert csi_affinity(volume) == after


def test_drivers_without_zones_keep_the_affinity():
    given = affinity([(ZONE, "In", "a")])
    volume = make_pv("v").spec(azure_disk=AzureDisk(), node_affinity=given).label({ZONE: "a"}).obj()
    assert csi_affinity(volume) == given


@pytest.mark.parametrize(
    ("spec", "key"),
    [
        ({"gce_persistent_disk": GCEPersistentDisk()}, "topology.gke.io/zone"),
        ({"aws_elastic_block_store": AWSElasticBlockStore()}, "topology.ebs.csi.aws.com/zone"),
    ],
)
def test_drivers_have_labels_of_their_own(spec, key):
    volume = make_pv("v").spec(**spec, node_affinity=affinity([(ZONE, "In", "a")])).obj()
    assert csi_affinity(volume) == affinity([(key, "In", "a")])
