"""Translation of in-tree volumes to the CSI drivers that replaced them.

Kubernetes once had built-in drivers for cloud disks. CSI drivers serve those volumes now, and the scheduler counts them
and checks their topology under the drivers' names. Only what the scheduler reads is translated: driver, volume handle
and node affinity.

"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote

import msgspec

from mooring.api.affinity import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from mooring.api.storage import PersistentVolume, VolumeNodeAffinity
from mooring.api.volumes import AzureDisk, GCEPersistentDisk, Volume

ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
#: Separates the zones in the label of a volume in several zones.
ZONE_DELIMITER: Final = "__"

EBS: Final = "kubernetes.io/aws-ebs"
GCE: Final = "kubernetes.io/gce-pd"
CINDER: Final = "kubernetes.io/cinder"
AZURE_DISK: Final = "kubernetes.io/azure-disk"
AZURE_FILE: Final = "kubernetes.io/azure-file"
VSPHERE: Final = "kubernetes.io/vsphere-volume"
PORTWORX: Final = "kubernetes.io/portworx-volume"

#: In-tree plugin -> the CSI driver that replaced it.
DRIVERS: Final = {
    GCE: "pd.csi.storage.gke.io",
    EBS: "ebs.csi.aws.com",
    CINDER: "cinder.csi.openstack.org",
    AZURE_DISK: "disk.csi.azure.com",
    AZURE_FILE: "file.csi.azure.com",
    VSPHERE: "csi.vsphere.vmware.com",
    PORTWORX: "pxd.portworx.com",
}

#: The plugins whose migration the scheduler supports; it does not count or translate volumes of the others.
MIGRATED: Final = frozenset({EBS, GCE, AZURE_DISK, CINDER, PORTWORX})

#: Field of a volume (in pods and in persistent volumes) -> in-tree plugin.
_FIELDS: Final = {
    "gce_persistent_disk": GCE,
    "aws_elastic_block_store": EBS,
    "cinder": CINDER,
    "azure_disk": AZURE_DISK,
    "azure_file": AZURE_FILE,
    "vsphere_volume": VSPHERE,
    "portworx_volume": PORTWORX,
}

#: Plugins whose drivers have zones -> the driver's zone label of nodes.
_ZONE_KEYS: Final = {
    GCE: "topology.gke.io/zone",
    EBS: "topology.ebs.csi.aws.com/zone",
    CINDER: "topology.cinder.csi.openstack.org/zone",
}

_EBS_ID: Final = re.compile(r"vol-[^/]*")
_UNSPECIFIED: Final = "UNSPECIFIED"


class TranslationError(ValueError):
    """The CSI driver cannot serve the volume; the text is Kubernetes'."""


def inline_plugin(volume: Volume) -> str | None:
    """Return the in-tree plugin of an inline volume, if it is migrated."""
    return next((plugin for field, plugin in _FIELDS.items() if getattr(volume, field) is not None), None)


def volume_plugin(volume: PersistentVolume) -> str | None:
    """Return the in-tree plugin of a persistent volume, if it is migrated."""
    spec = volume.spec
    return next((plugin for field, plugin in _FIELDS.items() if getattr(spec, field) is not None), None)


def inline_driver(volume: Volume) -> str | None:
    """Return the CSI driver of an inline in-tree volume. Raises TranslationError."""
    plugin = inline_plugin(volume)
    if plugin is None:
        return None
    if plugin in MIGRATED:
        inline_volume(volume)
    return DRIVERS[plugin]


def inline_volume(volume: Volume) -> tuple[str, str] | None:
    """Return the CSI driver and handle of an inline in-tree volume; None if it is not counted."""
    plugin = inline_plugin(volume)
    if plugin not in MIGRATED:
        return None
    driver = DRIVERS[plugin]
    if volume.gce_persistent_disk is not None:
        return driver, _gce_handle(volume.gce_persistent_disk, "")
    if volume.azure_disk is not None:
        return driver, _azure_handle(volume.azure_disk)
    if volume.aws_elastic_block_store is not None:
        return driver, _ebs_handle(volume.aws_elastic_block_store.volume_id)
    source = volume.cinder or volume.portworx_volume
    return driver, source.volume_id if source is not None else ""


def persistent_volume(volume: PersistentVolume) -> tuple[str, str] | None:
    """Return the CSI driver and handle of an in-tree persistent volume; None if its plugin is not migrated."""
    plugin, spec = volume_plugin(volume), volume.spec
    if plugin not in MIGRATED:
        return None
    driver = DRIVERS[plugin]
    if spec.gce_persistent_disk is not None:
        labels = volume.labels
        return driver, _gce_handle(spec.gce_persistent_disk, labels.get(BETA_ZONE) or labels.get(ZONE, ""))
    if spec.azure_disk is not None:
        return driver, _azure_handle(spec.azure_disk)
    if spec.aws_elastic_block_store is not None:
        return driver, _ebs_handle(spec.aws_elastic_block_store.volume_id)
    source = spec.cinder or spec.portworx_volume
    return driver, source.volume_id if source is not None else ""


def csi_affinity(volume: PersistentVolume) -> VolumeNodeAffinity | None:
    """Return the node affinity of an in-tree persistent volume in terms of the CSI driver's labels.

    Zones in the volume's affinity are translated to the driver's zone label; without any, the zones come from the
    volume's labels. Raises TranslationError if the driver cannot serve the volume.
    """
    persistent_volume(volume)
    affinity = volume.spec.node_affinity
    key = _ZONE_KEYS.get(volume_plugin(volume) or "")
    if key is None:
        return affinity
    zone, region = _labels_in_use(volume)
    if _values(affinity, zone):
        affinity = _rekeyed(affinity, zone, key)
    elif zone in volume.labels:
        affinity = _narrowed(affinity, key, volume.labels[zone].split(ZONE_DELIMITER))
    if region == BETA_REGION and _values(affinity, region):
        affinity = _rekeyed(affinity, region, REGION)
    return affinity


# Handles


def _ebs_handle(volume_id: str) -> str:
    """Return ``vol-1`` for ``aws://zone/vol-1``; anything else unchanged."""
    if not volume_id.startswith("aws://"):
        return volume_id
    address = re.split(r"[?#]", volume_id.removeprefix("aws://"), maxsplit=1)[0]
    _, slash, path = address.partition("/")
    identifier = unquote(slash + path).strip("/")
    if not _EBS_ID.fullmatch(identifier):
        text = f"Invalid format for AWS volume ({volume_id})"
        raise TranslationError(f"failed to translate Kubernetes ID to EBS Volume ID {text}")
    return identifier


def _gce_handle(disk: GCEPersistentDisk, zones_label: str) -> str:
    zones = zones_label.split(ZONE_DELIMITER)
    place = f"regions/{_gce_region(zones)}" if len(zones) > 1 else f"zones/{zones[0] or _UNSPECIFIED}"
    return f"projects/{_UNSPECIFIED}/{place}/disks/{disk.pd_name}"


def _gce_region(zones: list[str]) -> str:
    regions: set[str] = set()
    for zone in zones:
        pieces = zone.split("-")
        if len(pieces) != 3:
            text = f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            raise TranslationError(f"failed to get region from zones: {text}")
        regions.add("-".join(pieces[:2]))
    if len(regions) != 1:
        shown = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{shown}]"
        )
    return regions.pop()


def _azure_handle(disk: AzureDisk) -> str:
    if disk.kind is not None and disk.kind.lower() != "managed":
        raise TranslationError(f"kind({disk.kind}) is not supported in csi migration")
    return disk.disk_uri


# Affinity


def _labels_in_use(volume: PersistentVolume) -> tuple[str, str]:
    """Return the zone and region labels, current or deprecated, that the volume uses; its affinity takes precedence."""
    affinity, labels = volume.spec.node_affinity, volume.labels
    current, former = (ZONE, REGION), (BETA_ZONE, BETA_REGION)
    if _mentions(affinity, ZONE):
        return current
    if _mentions(affinity, BETA_ZONE):
        return former
    return former if ZONE not in labels and BETA_ZONE in labels else current


def _terms(affinity: VolumeNodeAffinity | None) -> tuple[NodeSelectorTerm, ...]:
    return affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()


def _mentions(affinity: VolumeNodeAffinity | None, key: str) -> bool:
    return any(each.key == key for term in _terms(affinity) for each in term.match_expressions)


def _values(affinity: VolumeNodeAffinity | None, key: str) -> set[str]:
    return {
        value
        for term in _terms(affinity)
        for each in term.match_expressions
        if each.key == key
        for value in each.values
    }


def _rekeyed(affinity: VolumeNodeAffinity | None, old: str, new: str) -> VolumeNodeAffinity:
    def rename(each: NodeSelectorRequirement) -> NodeSelectorRequirement:
        return msgspec.structs.replace(each, key=new) if each.key == old else each

    return _with_expressions(affinity, lambda expressions: tuple(map(rename, expressions)))


def _narrowed(affinity: VolumeNodeAffinity | None, key: str, zones: list[str]) -> VolumeNodeAffinity | None:
    known = sorted({zone.strip() for zone in zones} - {""})
    if not known:
        return affinity
    extra = NodeSelectorRequirement(key=key, operator="In", values=tuple(known))
    return _with_expressions(affinity, lambda expressions: (*expressions, extra))


_Expressions = tuple[NodeSelectorRequirement, ...]


def _with_expressions(
    affinity: VolumeNodeAffinity | None, change: Callable[[_Expressions], _Expressions]
) -> VolumeNodeAffinity:
    terms = _terms(affinity) or (NodeSelectorTerm(),)
    changed = tuple(msgspec.structs.replace(t, match_expressions=change(t.match_expressions)) for t in terms)
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=changed))
