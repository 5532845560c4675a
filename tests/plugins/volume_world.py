"""Random storage for property tests: few names, so that things meet, go and come back."""

from __future__ import annotations

import itertools
import random
from typing import Any

import msgspec

from mooring.api.affinity import NodeSelector, NodeSelectorTerm
from mooring.api.meta import KubeObject, ObjectReference, OwnerReference
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.api.storage import (
    CSIDriver,
    CSINode,
    CSIPersistentVolume,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
    VolumeNodeAffinity,
)
from mooring.api.volumes import (
    ISCSI,
    RBD,
    AWSElasticBlockStore,
    AzureDisk,
    Cinder,
    EmptyDir,
    GCEPersistentDisk,
    PortworxVolume,
    Volume,
    VsphereVolume,
)
from mooring.framework.plugin import Plugin
from mooring.testing import (
    PluginHarness,
    make_csi_capacity,
    make_csi_driver,
    make_csi_node,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
    make_volume_attachment,
    selector,
)
from mooring.testing.builders import node_term
from tests.plugins.reference.storage import Storage

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
GKE_ZONE, HOST = "topology.gke.io/zone", "kubernetes.io/hostname"
NODES = ("n1", "n2", "n3", "n4")
NAMESPACES = ("default", "other")
PODS = ("p1", "p2", "p3", "p4", "p5", "p6")
CLAIMS = ("c1", "c2", "c3", "c4", "p1-e", "p2-e", "new-e")
MODES = ("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod")
VOLUMES = ("v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8")
CLASSES = ("s1", "s2")
DRIVERS = ("a.csi", "b.csi", "pd.csi.storage.gke.io")
PLUGINS = ("kubernetes.io/gce-pd", "kubernetes.io/aws-ebs", "kubernetes.io/vsphere-volume")
ZONES = ("x", "y")

_versions = itertools.count(1)


def replace(item: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(item, **changes)


def versioned(item: Any) -> Any:
    """The object as if just written: anything assumed of an older one no longer counts."""
    return replace(item, metadata=replace(item.metadata, resource_version=str(next(_versions))))


class Dice(random.Random):
    """Random objects; the names are few."""

    def chance(self, percent: int) -> bool:
        return self.randrange(100) < percent

    def some(self, *values: Any) -> Any:
        return self.choice(values)

    def node(self, name: str) -> Node:
        keys = [key for key in (ZONE, REGION, OLD_ZONE, GKE_ZONE) if self.chance(60)]
        return make_node(name).label({key: self.some(*ZONES) for key in keys}).obj()

    def term(self) -> NodeSelectorTerm:
        expressions: list[tuple[str, ...]] = []
        for _ in range(self.some(0, 1, 1, 1, 1, 2)):
            kind = self.randrange(10)
            if kind < 5:
                key, operator = self.some(ZONE, GKE_ZONE, REGION, OLD_ZONE), self.some("In", "In", "In", "NotIn")
                expressions.append((key, operator, self.some(*ZONES)))
            elif kind < 8:
                expressions.append((HOST, "In", *self.sample(NODES, 2)))
            else:
                expressions.append((self.some(ZONE, OLD_ZONE), self.some("Exists", "DoesNotExist", "Odd")))
        fields = [("metadata.name", "In", self.some(*NODES))] if self.chance(8) else []
        return node_term(expressions, fields)

    def affinity(self) -> VolumeNodeAffinity | None:
        if self.chance(40):
            return None
        terms = tuple(self.term() for _ in range(self.some(1, 1, 2)))
        return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))

    def size(self) -> str:
        return str(self.some("1Gi", "2Gi", "1500M", "3Gi", "2500Mi"))

    def source(self) -> dict[str, Any]:
        return dict(
            self.some(
                {"csi": CSIPersistentVolume(driver=self.some(*DRIVERS), volume_handle=self.some("h1", "h2", "h3"))},
                {"csi": CSIPersistentVolume(driver=self.some(*DRIVERS), volume_handle=self.some("h1", "h2", ""))},
                {"gce_persistent_disk": GCEPersistentDisk(pd_name=self.some("vol-1", "vol-2"))},
                {"aws_elastic_block_store": AWSElasticBlockStore(volume_id=self.some("vol-1", "aws://x/no"))},
                {"vsphere_volume": VsphereVolume(volume_path="path")},
                {},
            )
        )

    def volume(self, name: str) -> PersistentVolume:
        made = make_pv(name, storage_class=self.some(*CLASSES, *CLASSES, ""), size=self.size())
        modes = tuple(self.sample(MODES, self.some(1, 2, 3)))
        made = made.spec(access_modes=modes, node_affinity=self.affinity(), **self.source())
        labels = {ZONE: ("x", "y", "x__y", "x__"), OLD_ZONE: ("x", "a-b-c__a-b-d", "a-b-c__d-e-f"), "tier": ("gold",)}
        made = made.label({key: self.some(*values) for key, values in labels.items() if self.chance(25)})
        if self.chance(25):
            ref = ObjectReference(namespace="default", name=self.some(*CLAIMS), uid=self.some("", "", "", "wrong"))
            made = made.spec(claim_ref=ref)
        if self.chance(5):
            made = made.spec(volume_mode="Block")
        if self.chance(5):
            made = made.spec(volume_attributes_class_name="fast")
        made = made.phase("Released") if self.chance(8) else made
        return versioned((made.terminating() if self.chance(4) else made).obj())

    def claim(self, namespace: str, name: str) -> PersistentVolumeClaim:
        made = make_pvc(name, namespace, storage_class=self.some(*CLASSES, *CLASSES, *CLASSES, None, "gone"))
        made = made.spec(access_modes=tuple(self.sample(MODES, self.some(1, 1, 2))))
        requests = {} if self.chance(3) else {"storage": self.size()}
        made = made.spec(resources=replace(made.obj().spec.resources, requests=requests))
        kind = self.randrange(20)
        if kind < 7:
            made = made.bound(self.some(*VOLUMES, *VOLUMES, "gone"))
        elif kind == 7:
            made = made.selected_node(self.some(*NODES))
        elif kind == 8:
            made = made.select(self.some({"tier": "gold"}, {"tier": "gold"}, selector({}, ("tier", "Odd"))))
        elif kind == 9:
            made = made.spec(volume_name=self.some(*VOLUMES))
        if self.chance(3):
            made = made.phase("Lost")
        if self.chance(5):
            made = made.spec(volume_mode="Block")
        item = (made.terminating() if self.chance(3) else made).obj()
        if name.endswith("-e") and self.chance(85):
            owner = OwnerReference(kind="Pod", uid=f"pod-{namespace}-{name[:-2]}", controller=True)
            item = replace(item, metadata=replace(item.metadata, owner_references=(owner,)))
        return versioned(item)

    def storage_class(self, name: str) -> StorageClass:
        topologies = self.some(
            (), (), (), ({ZONE: ("x",)},), ({ZONE: ("x",), REGION: ("y",)}, {}), ({ZONE: ("bad!",)},)
        )
        provisioner = self.some(*DRIVERS, *DRIVERS, *PLUGINS, "kubernetes.io/no-provisioner", "")
        made = make_storage_class(name, provisioner=provisioner, wait=self.chance(90), topologies=topologies).obj()
        return replace(made, volume_binding_mode=None) if self.chance(3) else made

    def csi_node(self, name: str) -> CSINode:
        limits = {driver: self.some(0, 1, 2, 2, 3, None) for driver in DRIVERS if self.chance(60)}
        plugins = ",".join(plugin for plugin in PLUGINS if self.chance(50))
        annotations = {"storage.alpha.kubernetes.io/migrated-plugins": plugins} if self.chance(70) else {}
        return make_csi_node(name, limits).annotation(annotations).obj()

    def driver(self, name: str) -> CSIDriver:
        return make_csi_driver(name, storage_capacity=self.some(True, True, False, None)).obj()

    def capacity(self, name: str) -> CSIStorageCapacity:
        topology = self.some(
            None,
            selector(),
            selector({ZONE: "x"}),
            selector({ZONE: "y"}),
            selector({HOST: self.some(*NODES)}),
            selector({ZONE: "x", REGION: "y"}),
            selector({}, (ZONE, "Exists")),
            selector({}, (ZONE, "Odd")),
        )
        capacity, maximum = self.some(None, "1Gi", "2Gi", "3Gi"), self.some(None, None, "1500M")
        made = make_csi_capacity(
            name, storage_class=self.some(*CLASSES), capacity=capacity, maximum=maximum, topology=topology
        )
        return made.obj()

    def attachment(self, name: str) -> VolumeAttachment:
        driver, node, volume = self.some(*DRIVERS, *DRIVERS, ""), self.some(*NODES), self.some(*VOLUMES)
        return make_volume_attachment(name, attacher=driver, node=node, volume=volume).obj()

    def inline(self) -> Volume:
        name, read_only = self.some("vol-1", "vol-2"), self.chance(50)
        monitors = tuple(self.sample(("m1", "m2", "m3"), self.some(0, 1, 1, 2)))
        return self.some(
            Volume(gce_persistent_disk=GCEPersistentDisk(pd_name=name, read_only=read_only)),
            Volume(aws_elastic_block_store=AWSElasticBlockStore(volume_id=name)),
            Volume(iscsi=ISCSI(iqn=name, read_only=read_only)),
            Volume(rbd=RBD(monitors=monitors, image=name, pool="rbd", read_only=read_only)),
            Volume(azure_disk=AzureDisk(disk_uri="uri", kind="Shared" if self.chance(5) else "Managed")),
            Volume(cinder=Cinder(volume_id="c")),
            Volume(portworx_volume=PortworxVolume()),
            Volume(empty_dir=EmptyDir()),
        )

    def pod(self, name: str, node: str = "") -> Pod:
        made = make_pod(name, self.some(*NAMESPACES, "default", "default"))
        for _ in range(self.some(1, 1, 2, 3)):
            kind = self.randrange(10)
            if kind < 6:
                made = made.pvc(self.some(*CLAIMS[:4]) if self.randrange(100) else "")
            elif kind == 6 and not any(v.name == "e" for v in made.obj().spec.volumes):
                made = made.ephemeral("e")
            elif kind > 6:
                made = made.volume(self.inline())
        return (made.node(node) if node else made).obj()

    def anything(self) -> KubeObject:
        """Some object, of any kind."""
        return self.some(
            lambda: self.node(self.some(*NODES)),
            lambda: self.pod(self.some(*PODS), self.some(*NODES)),
            lambda: self.pod(self.some(*PODS), self.some(*NODES)),
            lambda: self.claim(self.some(*NAMESPACES), self.some(*CLAIMS)),
            lambda: self.claim("default", self.some(*CLAIMS)),
            lambda: self.volume(self.some(*VOLUMES)),
            lambda: self.volume(self.some(*VOLUMES)),
            lambda: self.storage_class(self.some(*CLASSES)),
            lambda: self.csi_node(self.some(*NODES)),
            lambda: self.driver(self.some(*DRIVERS)),
            lambda: self.capacity(self.some("k1", "k2", "k3")),
            lambda: self.attachment(self.some("t1", "t2", "t3")),
        )()  # type: ignore[no-any-return]

    def everything(self) -> list[KubeObject]:
        """A whole cluster, with few things missing; what comes first differs."""
        found: list[KubeObject] = [self.node(name) for name in NODES]
        found += [self.claim(namespace, name) for namespace in NAMESPACES for name in CLAIMS]
        found += [self.volume(name) for name in VOLUMES]
        found += [self.storage_class(name) for name in CLASSES]
        found += [self.csi_node(name) for name in NODES]
        found += [self.driver(name) for name in DRIVERS]
        found += [self.capacity(name) for name in ("k1", "k2", "k3")]
        found += [self.attachment(name) for name in ("t1", "t2", "t3")]
        found += [self.pod(name, self.some(*NODES)) for name in PODS]
        self.shuffle(found)
        return [item for item in found if self.chance(93)]


class VolumeWorld:
    """The same storage twice: around the plugins, and as plain objects for the references."""

    _SHELVES = (
        (PersistentVolumeClaim, "claims"),
        (PersistentVolume, "volumes"),
        (StorageClass, "classes"),
        (CSINode, "csi_nodes"),
        (CSIDriver, "drivers"),
        (CSIStorageCapacity, "capacities"),
        (VolumeAttachment, "attachments"),
    )

    def __init__(self, *plugins: type[Plugin]) -> None:
        self.plain = Storage()
        self.harness = PluginHarness(plugins[0])
        self.plugins: list[Any] = [
            self.harness.plugin,
            *(plugin(None, self.harness.handle) for plugin in plugins[1:]),
        ]

    def put(self, item: KubeObject) -> None:
        if isinstance(item, Node):
            self.plain.nodes[item.name] = item
        elif isinstance(item, Pod):
            self.plain.pods.pop(item.uid, None)  # a pod that is put again comes last on its node
            self.plain.pods[item.uid] = item
        else:
            self._shelf(item)[_key(item)] = item
            self._forget(item)
        self.harness.add(item)

    def remove(self, item: KubeObject) -> None:
        if isinstance(item, Node):
            self.plain.nodes.pop(item.name, None)
            self.harness.table.remove_node(item.name)
        elif isinstance(item, Pod):
            self.plain.pods.pop(item.uid, None)
            self.harness.table.remove_pod(item.uid)
        else:
            self._shelf(item).pop(_key(item), None)
            self._forget(item)
            self.harness.handle.objects.remove(item)

    def everything(self) -> list[KubeObject]:
        plain = self.plain
        shelves = (plain.nodes, plain.pods, *(getattr(plain, shelf) for _, shelf in self._SHELVES))
        return [item for shelf in shelves for item in shelf.values()]

    def _shelf(self, item: KubeObject) -> dict[Any, Any]:
        return next(getattr(self.plain, shelf) for kind, shelf in self._SHELVES if isinstance(item, kind))

    def _forget(self, item: KubeObject) -> None:
        if isinstance(item, PersistentVolumeClaim):
            self.plain.assumed_claims.pop(_key(item), None)
        elif isinstance(item, PersistentVolume):
            self.plain.assumed_volumes.pop(_key(item), None)

    def pods_on(self, node: str) -> list[Pod]:
        """In the order in which the table has them."""
        return [info.pod for info in self.harness.info(node).pods]


def _key(item: KubeObject) -> Any:
    return (item.namespace, item.name) if isinstance(item, PersistentVolumeClaim | CSIStorageCapacity) else item.name
