"""Random storage for property tests: few names, so that things meet, go and come back."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
from hypothesis import strategies as st

from mooring.api.affinity import NodeSelector, NodeSelectorTerm
from mooring.api.meta import KubeObject, LabelSelector, ObjectMeta, ObjectReference, OwnerReference
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
from mooring.testing.builder import node_term
from tests.plugins.reference.storage import Storage

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
GKE_ZONE, HOST = "topology.gke.io/zone", "kubernetes.io/hostname"
NODES = ("n1", "n2", "n3", "n4")
NAMESPACES = ("default", "other")
CLAIMS = ("c1", "c2", "c3", "p1-e", "p2-e", "new-e")
VOLUMES = ("v1", "v2", "v3", "v4", "v5", "v6")
CLASSES = ("s1", "s2")
DRIVERS = ("a.csi", "b.csi", "pd.csi.storage.gke.io")
PLUGINS = ("kubernetes.io/gce-pd", "kubernetes.io/aws-ebs", "kubernetes.io/vsphere-volume")
ZONES = ("x", "y")

some = st.sampled_from
_versions = itertools.count(1)


def replace(item: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(item, **changes)


def versioned(item: Any) -> Any:
    """The object as if just written: anything assumed of an older one no longer counts."""
    return replace(item, metadata=replace(item.metadata, resource_version=str(next(_versions))))


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    labels = {key: draw(some(ZONES)) for key in (ZONE, REGION, OLD_ZONE, GKE_ZONE) if draw(st.booleans())}
    return make_node(draw(some(NODES))).label(labels).obj()


@st.composite
def terms(draw: st.DrawFn) -> NodeSelectorTerm:
    expressions = draw(
        st.lists(
            st.one_of(
                st.tuples(some((ZONE, GKE_ZONE, REGION, OLD_ZONE)), some(("In", "NotIn")), some(ZONES)),
                st.tuples(st.just(HOST), st.just("In"), some(NODES), some(NODES)),
                st.tuples(some((ZONE, OLD_ZONE)), some(("Exists", "DoesNotExist", "Odd"))),
            ),
            max_size=2,
        )
    )
    fields = [("metadata.name", "In", draw(some(NODES)))] if draw(st.integers(0, 9)) == 0 else []
    return node_term(expressions, fields)


affinities = st.one_of(
    st.none(),
    st.lists(terms(), min_size=1, max_size=2).map(
        lambda each: VolumeNodeAffinity(required=NodeSelector(node_selector_terms=tuple(each)))
    ),
)

sizes = some(("1Gi", "2Gi", "1500M", "3Gi"))
modes = st.lists(some(("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod")), min_size=1, max_size=2, unique=True)
rarely = st.integers(0, 9).map(lambda number: number == 0)


@st.composite
def sources(draw: st.DrawFn) -> dict[str, Any]:
    return draw(
        some(
            (
                {"csi": CSIPersistentVolume(driver=draw(some(DRIVERS)), volume_handle=draw(some(("h1", "h2", ""))))},
                {"gce_persistent_disk": GCEPersistentDisk(pd_name=draw(some(("d1", "d2"))))},
                {"aws_elastic_block_store": AWSElasticBlockStore(volume_id=draw(some(("vol-1", "aws://x/no"))))},
                {"vsphere_volume": VsphereVolume(volume_path="path")},
                {},
            )
        )
    )


@st.composite
def volumes(draw: st.DrawFn) -> PersistentVolume:
    made = make_pv(draw(some(VOLUMES)), storage_class=draw(some((*CLASSES, ""))), size=draw(sizes))
    made = made.spec(access_modes=tuple(draw(modes)), node_affinity=draw(affinities), **draw(sources()))
    labels = {ZONE: ("x", "y", "x__y", "x__"), OLD_ZONE: ("x", "a-b-c__a-b-d", "a-b-c__d-e-f"), "tier": ("gold",)}
    made = made.label({key: draw(some(values)) for key, values in labels.items() if draw(st.integers(0, 3)) == 0})
    if draw(st.booleans()):
        ref = ObjectReference(namespace="default", name=draw(some(CLAIMS)), uid=draw(some(("", "", "wrong"))))
        made = made.spec(claim_ref=ref)
    made = made.phase(draw(some(("Available", "Available", "Available", "Released"))))
    if draw(rarely):
        made = made.spec(volume_mode="Block")
    if draw(rarely):
        made = made.spec(volume_attributes_class_name="fast")
    return versioned((made.terminating() if draw(rarely) else made).obj())


@st.composite
def claims(draw: st.DrawFn) -> PersistentVolumeClaim:
    name = draw(some(CLAIMS))
    made = make_pvc(name, draw(some((*NAMESPACES, "default"))), storage_class=draw(some((*CLASSES, None, "gone"))))
    made = made.spec(access_modes=tuple(draw(modes)))
    if draw(st.integers(0, 20)):
        made = made.spec(resources=replace(made.obj().spec.resources, requests={"storage": draw(sizes)}))
    kind = draw(st.integers(0, 9))
    if kind < 3:
        made = made.bound(draw(some((*VOLUMES, "gone"))))
    elif kind == 3:
        made = made.selected_node(draw(some(NODES)))
    elif kind == 4:
        made = made.select(draw(some(({"tier": "gold"}, selector({}, ("tier", "Odd"))))))
    elif kind == 5:
        made = made.spec(volume_name=draw(some(VOLUMES)))
    if draw(rarely):
        made = made.phase("Lost")
    if draw(rarely):
        made = made.spec(volume_mode="Block")
    item = (made.terminating() if draw(rarely) else made).obj()
    if name.endswith("-e") and draw(st.integers(0, 9)):
        owner = OwnerReference(kind="Pod", uid=f"pod-{item.namespace}-{name[:-2]}", controller=True)
        item = replace(item, metadata=replace(item.metadata, owner_references=(owner,)))
    return versioned(item)


@st.composite
def classes(draw: st.DrawFn) -> StorageClass:
    topologies = draw(some(((), (), ({ZONE: ("x",)},), ({ZONE: ("x",), REGION: ("y",)}, {}), ({ZONE: ("bad!",)},))))
    provisioner = draw(some((*DRIVERS, *PLUGINS, "kubernetes.io/no-provisioner", "")))
    made = make_storage_class(
        draw(some(CLASSES)), provisioner=provisioner, wait=draw(st.integers(0, 5)) > 0, topologies=topologies
    ).obj()
    return replace(made, volume_binding_mode=None) if draw(st.integers(0, 30)) == 0 else made


@st.composite
def csi_nodes(draw: st.DrawFn) -> CSINode:
    limits = {driver: draw(some((0, 1, 2, 3, None))) for driver in DRIVERS if draw(st.booleans())}
    plugins = ",".join(plugin for plugin in PLUGINS if draw(st.booleans()))
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": plugins} if draw(st.booleans()) else {}
    return make_csi_node(draw(some(NODES)), limits).annotation(annotations).obj()


drivers: st.SearchStrategy[CSIDriver] = st.builds(
    lambda name, capacity: make_csi_driver(name, storage_capacity=capacity).obj(),
    some(DRIVERS),
    some((True, True, False, None)),
)

topologies: st.SearchStrategy[LabelSelector | None] = some(
    (
        None,
        selector(),
        selector({ZONE: "x"}),
        selector({ZONE: "y"}),
        selector({HOST: "n1"}),
        selector({ZONE: "x", REGION: "y"}),
        selector({}, (ZONE, "Exists")),
        selector({}, (ZONE, "Odd")),
    )
)

capacities: st.SearchStrategy[CSIStorageCapacity] = st.builds(
    lambda name, of, capacity, maximum, topology: make_csi_capacity(
        name, storage_class=of, capacity=capacity, maximum=maximum, topology=topology
    ).obj(),
    some(("k1", "k2", "k3")),
    some(CLASSES),
    some((None, "1Gi", "2Gi", "3Gi")),
    some((None, None, "1500M")),
    topologies,
)

attachments: st.SearchStrategy[VolumeAttachment] = st.builds(
    lambda name, driver, node, volume: make_volume_attachment(name, attacher=driver, node=node, volume=volume).obj(),
    some(("t1", "t2", "t3")),
    some((*DRIVERS, "")),
    some(NODES),
    some(VOLUMES),
)


@st.composite
def inline(draw: st.DrawFn) -> Volume:
    name, read_only = draw(some(("vol-1", "vol-2"))), draw(st.booleans())
    monitors = draw(st.lists(some(("m1", "m2", "m3")), max_size=2))
    kinds = (
        Volume(gce_persistent_disk=GCEPersistentDisk(pd_name=name, read_only=read_only)),
        Volume(aws_elastic_block_store=AWSElasticBlockStore(volume_id=name)),
        Volume(iscsi=ISCSI(iqn=name, read_only=read_only)),
        Volume(rbd=RBD(monitors=tuple(monitors), image=name, pool="rbd", read_only=read_only)),
        Volume(azure_disk=AzureDisk(disk_uri="uri", kind=draw(some((None, "Managed", "Managed", "Shared"))))),
        Volume(cinder=Cinder(volume_id="c")),
        Volume(portworx_volume=PortworxVolume()),
        Volume(empty_dir=EmptyDir()),
    )
    return draw(some(kinds))


@st.composite
def pods(draw: st.DrawFn, name: str) -> Pod:
    made = make_pod(name, draw(some((*NAMESPACES, "default"))))
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.integers(0, 9))
        if kind < 6:
            made = made.pvc(draw(some(CLAIMS[:3])) if draw(st.integers(0, 30)) else "")
        elif kind == 6:
            made = made.ephemeral("e") if not any(v.name == "e" for v in made.obj().spec.volumes) else made
        else:
            made = made.volume(draw(inline()))
    return made.obj()


def placed(name: str) -> st.SearchStrategy[Pod]:
    return st.builds(lambda pod, node: replace(pod, spec=replace(pod.spec, node_name=node)), pods(name), some(NODES))


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


NEW: ObjectMeta = ObjectMeta(name="new")
