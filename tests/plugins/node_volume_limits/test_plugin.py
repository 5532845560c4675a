"""NodeVolumeLimits: tables of what is attached, what is new and what the limit is; events that change that; hints."""

from __future__ import annotations

import pytest

from mooring.api.pod import Pod
from mooring.api.volumes import (
    AWSElasticBlockStore,
    AzureDisk,
    EmptyDir,
    GCEPersistentDisk,
    Volume,
    VsphereVolume,
)
from mooring.framework import Code, CycleState, Hint, Status
from mooring.plugins.node_volume_limits.plugin import (
    NodeVolumeLimits,
    after_detached,
    after_limits_changed,
    after_pod_deleted,
)
from mooring.testing import (
    PluginHarness,
    check_what_if,
    make_csi_node,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
    make_volume_attachment,
    run_plugin,
)

FULL = Status.unschedulable("node(s) exceed max volume count")
EBS, A, B = "ebs.csi.aws.com", "a.csi", "b.csi"


def ebs(volume_id: str) -> Volume:
    return Volume(aws_elastic_block_store=AWSElasticBlockStore(volume_id=volume_id))


def bound(claim: str, driver: str, handle: str | None = None) -> list[object]:
    """A claim with its volume."""
    volume = make_pv(f"pv-{claim}").csi(driver, handle or f"handle-{claim}").obj()
    return [make_pvc(claim).bound(f"pv-{claim}").obj(), volume]


OBJECTS = [
    *bound("a1", A),
    *bound("a2", A),
    *bound("a3", A),
    *bound("same-as-a1", A, "handle-a1"),
    *bound("b1", B),
    *bound("ebs1", EBS, "vol-1"),
    make_pvc("unbound", storage_class="a").obj(),
    make_storage_class("a", provisioner=A).obj(),
    make_pvc("in-tree", storage_class="ebs").obj(),
    make_storage_class("ebs", provisioner="kubernetes.io/aws-ebs").obj(),
    make_pvc("in-tree-file", storage_class="file").obj(),
    make_storage_class("file", provisioner="kubernetes.io/azure-file").obj(),
    make_pvc("classless").obj(),
    make_pvc("lost-class", storage_class="gone").obj(),
    make_pvc("lost-volume", storage_class="a").bound("gone").obj(),
    make_pvc("migrated").bound("pv-migrated").obj(),
    make_pv("pv-migrated").spec(aws_elastic_block_store=AWSElasticBlockStore(volume_id="aws://z/vol-1")).obj(),
    make_pvc("local").bound("pv-local").obj(),
    make_pv("pv-local").obj(),
]


def pod(name: str, *claims: str, node: str = "") -> Pod:
    made = make_pod(name)
    for claim in claims:
        made = made.pvc(claim)
    return (made.node(node) if node else made).obj()


@pytest.mark.parametrize(
    ("there", "new", "limits", "fits"),
    [
        pytest.param([], ["a1"], {A: 1}, True, id="room for one"),
        pytest.param([], ["a1"], {A: 0}, False, id="room for none"),
        pytest.param(["a1"], ["a2"], {A: 1}, False, id="one is there"),
        pytest.param(["a1"], ["a2"], {A: 2}, True, id="one is there, two may"),
        pytest.param(["a1", "a2"], ["a3"], {A: 2}, False, id="two are there"),
        pytest.param(["a1"], ["a1"], {A: 1}, True, id="the same claim is no new volume"),
        pytest.param(["a1"], ["same-as-a1"], {A: 1}, True, id="nor is the same volume by another claim"),
        pytest.param(["a1", "a2"], ["a1"], {A: 1}, True, id="a full node takes what it has"),
        pytest.param(["a1", "same-as-a1"], ["a2"], {A: 2}, True, id="a volume counts once"),
        pytest.param([], ["a1", "a1"], {A: 1}, True, id="also of the new pod"),
        pytest.param([], ["a1", "a2"], {A: 1}, False, id="two new ones"),
        pytest.param(["a1"], ["b1"], {A: 1, B: 1}, True, id="drivers are counted apart"),
        pytest.param(["b1"], ["a1", "b1"], {A: 0, B: 5}, False, id="one driver's limit is enough"),
        pytest.param(["a1"], ["a2"], {B: 0}, True, id="a driver without a limit"),
        pytest.param(["a1"], ["a2"], {A: None}, True, id="a driver that gives none"),
        pytest.param(["a1"], ["a2"], {}, True, id="no drivers"),
        pytest.param(["a1"], ["a2"], None, True, id="no CSINode"),
        pytest.param(["a1"], ["unbound"], {A: 1}, False, id="a volume to be made counts by its class"),
        pytest.param(["unbound"], ["unbound"], {A: 1}, True, id="and is the same for every pod"),
        pytest.param(["lost-volume"], ["unbound"], {A: 1}, False, id="so does one that is gone"),
        pytest.param([], ["in-tree"], {EBS: 0}, False, id="an in-tree class counts for its driver"),
        pytest.param([], ["in-tree-file"], {"file.csi.azure.com": 0}, True, id="unless that is not counted"),
        pytest.param(["migrated"], ["ebs1"], {EBS: 1}, True, id="an in-tree volume is its driver's"),
        pytest.param(["in-tree"], ["migrated"], {EBS: 1}, False, id="and counts"),
        pytest.param([], ["classless", "lost-class", "local"], {A: 0}, True, id="these cannot be counted"),
    ],
)
def test_limits(there, new, limits, fits):
    csi_nodes = [] if limits is None else [make_csi_node("n", limits).obj()]
    pods = [pod(f"q{number}", claim, node="n") for number, claim in enumerate(there)]
    result = run_plugin(
        NodeVolumeLimits,
        pod("p", *new),
        nodes=[make_node("n").obj(), make_node("m").obj()],
        pods=pods,
        objects=[*OBJECTS, *csi_nodes],
    )
    assert result.filter == {"n": Status() if fits else FULL, "m": Status()}


@pytest.mark.parametrize(
    ("volumes", "expected"),
    [
        ([], Code.SKIP),
        ([Volume(empty_dir=EmptyDir())], Code.SKIP),
        ([ebs("vol-1")], Code.SUCCESS),
        ([Volume(vsphere_volume=VsphereVolume())], Code.SUCCESS),
    ],
)
def test_pods_that_are_evaluated(volumes, expected):
    made = make_pod("p")
    for volume in volumes:
        made = made.volume(volume)
    assert run_plugin(NodeVolumeLimits, made.obj(), nodes=[make_node("n").obj()]).pre_filter.code is expected


class TestAttachments:
    @pytest.mark.parametrize(
        ("attached", "there", "new", "limit", "fits"),
        [
            pytest.param(["a1"], [], ["a2"], 1, False, id="an attached volume counts"),
            pytest.param(["a1"], ["a1"], ["a2"], 2, True, id="but not twice"),
            pytest.param(["a1"], [], ["a1"], 1, False, id="and as new as well if no pod has it"),
            pytest.param(["a1"], ["a1"], ["a1"], 1, True, id="not if one has"),
            pytest.param(["gone", "local"], [], ["a1"], 1, True, id="unknown and non-CSI volumes do not count"),
        ],
    )
    def test_they_count(self, attached, there, new, limit, fits):
        objects = [
            *OBJECTS,
            make_csi_node("n", {A: limit}).obj(),
            *(make_volume_attachment(f"t-{c}", attacher=A, node="n", volume=f"pv-{c}").obj() for c in attached),
        ]
        result = run_plugin(
            NodeVolumeLimits,
            pod("p", *new),
            nodes=[make_node("n").obj()],
            pods=[pod("q", *there, node="n")],
            objects=objects,
        )
        assert result.filter["n"] == (Status() if fits else FULL)

    def test_they_come_and_go(self):
        harness = PluginHarness(NodeVolumeLimits, nodes=[make_node("n").obj()], objects=OBJECTS)
        harness.add(make_csi_node("n", {A: 1}).obj())
        new = pod("p", "a2")
        assert harness.run(new).feasible == ["n"]
        attachment = make_volume_attachment("t", attacher=A, node="n", volume="pv-a1").obj()
        harness.add(attachment)
        assert harness.run(new).feasible == []
        harness.handle.objects.remove(make_pv("pv-a1").obj())
        assert harness.run(new).feasible == ["n"], "its volume is not known any more"
        harness.add(make_pv("pv-a1").csi(A, "h").obj())
        assert harness.run(new).feasible == []
        harness.handle.objects.remove(attachment)
        assert harness.run(new).feasible == ["n"]

    def test_they_stay_with_their_node_when_rows_move(self):
        names = ("n1", "n2", "n3")
        harness = PluginHarness(NodeVolumeLimits, nodes=[make_node(name).obj() for name in names], objects=OBJECTS)
        harness.add(*(make_csi_node(name, {A: 1}).obj() for name in names))
        harness.add(make_volume_attachment("t", attacher=A, node="n3", volume="pv-a1").obj())
        assert harness.run(pod("p", "a2")).feasible == ["n1", "n2"]
        harness.table.remove_node("n1")
        assert harness.run(pod("p", "a2")).feasible == ["n2"]
        harness.table.remove_node("n3")
        assert harness.run(pod("p", "a2")).feasible == ["n2"]
        harness.add(make_node("n3").obj())
        assert harness.run(pod("p", "a2")).feasible == ["n2"]


class TestChanges:
    def harness(self, limit: int = 1) -> PluginHarness:
        harness = PluginHarness(NodeVolumeLimits, nodes=[make_node("n").obj()], objects=OBJECTS)
        harness.add(make_csi_node("n", {A: limit, B: limit}).obj())
        return harness

    def test_claims_volumes_and_classes_that_change(self):
        harness = self.harness()
        harness.add(pod("q", "unbound", node="n"))
        assert harness.run(pod("p", "a1")).feasible == [], "a volume of the class is to be made"
        harness.add(make_storage_class("a", provisioner=B).obj())
        assert harness.run(pod("p", "a1")).feasible == ["n"]
        harness.add(make_pvc("unbound", storage_class="a").bound("late").obj())
        assert harness.run(pod("p", "b1")).feasible == [], "the volume is not known yet"
        harness.add(make_pv("late").csi(A, "handle-a1").obj())
        assert harness.run(pod("p", "b1")).feasible == ["n"]
        assert harness.run(pod("p", "a1")).feasible == ["n"], "it is the same volume"
        assert harness.run(pod("p", "a2")).feasible == []
        harness.handle.objects.remove(make_pvc("unbound").obj())
        assert harness.run(pod("p", "a2")).feasible == ["n"]

    def test_limits_that_change(self):
        harness = self.harness()
        harness.add(pod("q", "a1", node="n"))
        assert harness.run(pod("p", "a2")).feasible == []
        harness.add(make_csi_node("n", {A: 2}).obj())
        assert harness.run(pod("p", "a2")).feasible == ["n"]
        harness.handle.objects.remove(make_csi_node("n", {}).obj())
        assert harness.run(pod("p", "a1", "a2", "a3")).feasible == ["n"]

    def test_pods_before_their_claims(self):
        harness = PluginHarness(NodeVolumeLimits, nodes=[make_node("n").obj()])
        harness.add(pod("q", "a1", node="n"), make_csi_node("n", {A: 1}).obj(), *bound("a2", A))
        assert harness.run(pod("p", "a2")).feasible == ["n"]
        harness.add(*bound("a1", A))
        assert harness.run(pod("p", "a2")).feasible == []

    def test_pods_that_go(self):
        harness = self.harness()
        harness.add(pod("q", "a1", node="n"), pod("r", "a1", node="n"))
        harness.table.remove_pod("pod-default-q")
        assert harness.run(pod("p", "a2")).feasible == []
        harness.table.remove_pod("pod-default-r")
        assert harness.run(pod("p", "a2")).feasible == ["n"]


class TestFaults:
    NODES = (make_node("csi").obj(), make_node("plain").obj())

    def harness(self, limits: dict[str, int | None] | None = None) -> PluginHarness:
        harness = PluginHarness(NodeVolumeLimits, nodes=self.NODES, objects=OBJECTS)
        harness.add(make_csi_node("csi", {A: 5} if limits is None else limits).obj())
        return harness

    def test_a_claim_that_is_not_there(self):
        expected = Status.unresolvable('looking up PVC default/gone: persistentvolumeclaim "gone" not found')
        assert self.harness().run(pod("p", "gone")).filter == {"csi": expected, "plain": expected}

    def test_a_claim_without_a_name(self):
        expected = Status.error("PersistentVolumeClaim had no name")
        assert self.harness().run(pod("p", "", "gone")).filter == {"csi": expected, "plain": expected}

    def test_an_ephemeral_claim_of_another_pod(self):
        harness = self.harness()
        harness.add(make_pvc("p-e").obj())
        expected = Status.error("PVC default/p-e was not created for pod default/p (pod is not owner)")
        assert harness.run(make_pod("p").ephemeral("e").obj()).filter == {"csi": expected, "plain": expected}

    def test_an_inline_volume_counts_only_where_there_is_a_csi_node(self):
        bad = make_pod("p").volume(Volume(azure_disk=AzureDisk(kind="Shared"))).obj()
        expected = Status.error(
            "converting volume(v1) from inline to csi: kind(Shared) is not supported in csi migration"
        )
        assert self.harness().run(bad).filter == {"csi": expected, "plain": Status()}

    def test_the_first_fault_counts(self):
        bad = make_pod("p").volume(Volume(azure_disk=AzureDisk(kind="Shared"))).pvc("gone").obj()
        found = self.harness().run(bad).filter
        assert found["csi"].code is Code.ERROR
        assert found["plain"].code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE

    def test_faults_of_pods_on_a_node_with_limits(self):
        harness = self.harness()
        harness.add(make_pod("q").pvc("").node("csi").obj(), make_pod("r").pvc("").node("plain").obj())
        expected = Status.error("PersistentVolumeClaim had no name")
        assert harness.run(pod("p", "a1")).filter == {"csi": expected, "plain": Status()}
        assert harness.run(pod("p", "local")).filter == {"csi": Status(), "plain": Status()}
        harness.table.remove_pod("pod-default-q")
        assert harness.run(pod("p", "a1")).feasible == ["csi", "plain"]

    def test_they_do_not_matter_without_limits(self):
        harness = self.harness({A: None})
        harness.add(make_pod("q").pvc("").node("csi").obj())
        assert harness.run(pod("p", "a1")).feasible == ["csi", "plain"]

    def test_an_ephemeral_claim_that_changes_hands(self):
        harness = self.harness()
        harness.add(make_pod("q").ephemeral("e").node("csi").obj())
        assert harness.run(pod("p", "a1")).feasible == ["csi", "plain"], "there is no claim yet"
        harness.add(make_pvc("q-e").obj())
        assert harness.run(pod("p", "a1")).filter["csi"].code is Code.ERROR
        harness.add(make_pvc("q-e").owner("Pod", "q", uid="pod-default-q").obj())
        assert harness.run(pod("p", "a1")).feasible == ["csi", "plain"]


class TestHypotheticalPods:
    def harness(self, limit: int) -> PluginHarness:
        pods = [
            pod("q1", "a1", node="n"),
            pod("q2", "a1", "b1", node="n"),
            pod("q3", "a2", node="n"),
            pod("q4", "a2", "same-as-a1", node="m"),
            make_pod("q5").volume(Volume(gce_persistent_disk=GCEPersistentDisk(pd_name="d"))).node("m").obj(),
        ]
        nodes = [make_node("n").obj(), make_node("m").obj()]
        harness = PluginHarness(NodeVolumeLimits, nodes=nodes, pods=pods, objects=OBJECTS)
        harness.add(*(make_csi_node(name, {A: limit, B: 1}).obj() for name in ("n", "m")))
        harness.add(make_volume_attachment("t", attacher=A, node="m", volume="pv-a2").obj())
        return harness

    @pytest.mark.parametrize(
        ("without", "fits"),
        [([], False), (["q1"], False), (["q1", "q2"], True), (["q3"], True), (["q2", "q3"], True)],
    )
    def test_pods_less(self, without, fits):
        harness, state = self.harness(2), CycleState()
        uids = [f"pod-default-{name}" for name in without]
        verdict = harness.filter_what_if(state, pod("p", "a3"), "n", without=uids)
        assert verdict == (Status() if fits else FULL)

    def test_pods_more(self):
        harness, state = self.harness(3), CycleState()
        new = pod("p", "a3")
        assert harness.filter_what_if(state, new, "n") == Status()
        assert harness.filter_what_if(state, new, "n", with_pods=[pod("r", "a1")]) == Status()
        assert harness.filter_what_if(state, new, "n", with_pods=[pod("r", "unbound")]) == FULL

    @pytest.mark.parametrize("limit", [0, 1, 2, 3])
    @pytest.mark.parametrize("claims", [("a3",), ("a1",), ("a2", "b1"), ("a1", "a2", "a3")])
    def test_many_at_once(self, limit, claims):
        harness = self.harness(limit)
        victims = {name: [info.pod.uid for info in harness.info(name).pods] for name in ("n", "m")}
        check_what_if(harness, pod("p", *claims), victims, trials=10)

    def test_many_at_once_when_some_stay(self):
        check_what_if(self.harness(2), pod("p", "a3"), {"n": ["pod-default-q1", "pod-default-q3"], "m": []}, trials=10)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({A: 1}, {A: 2}, Hint.QUEUE),
        ({A: 2}, {A: 1}, Hint.SKIP),
        ({A: 1}, {A: 1, B: 1}, Hint.QUEUE),
        ({A: 1}, {A: None}, Hint.SKIP),
        ({A: None}, {A: 1}, Hint.QUEUE),
        ({A: 1}, {}, Hint.SKIP),
    ],
)
def test_hint_for_limits(old, new, expected):
    before, after = make_csi_node("n", old).obj(), make_csi_node("n", new).obj()
    assert after_limits_changed(pod("p", "a1"), before, after) is expected


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (make_pod("q").pvc("x").node("n").obj(), Hint.QUEUE),
        (make_pod("q").ephemeral("x").node("n").obj(), Hint.QUEUE),
        (make_pod("q").volume(ebs("x")).node("n").obj(), Hint.QUEUE),
        (make_pod("q").pvc("x").nominated("n").obj(), Hint.QUEUE),
        (make_pod("q").pvc("x").obj(), Hint.SKIP),
        (make_pod("q").csi("x").node("n").obj(), Hint.SKIP),
        (make_pod("q").node("n").obj(), Hint.SKIP),
    ],
)
def test_hint_when_a_pod_goes(gone, expected):
    assert after_pod_deleted(pod("p", "a1"), gone, None) is expected


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [
        (make_pod("p").pvc("x").obj(), Hint.QUEUE),
        (make_pod("p").volume(ebs("x")).obj(), Hint.QUEUE),
        (make_pod("p").volume(Volume(gce_persistent_disk=GCEPersistentDisk())).obj(), Hint.SKIP),
        (make_pod("p").ephemeral("x").obj(), Hint.SKIP),
        (make_pod("p").obj(), Hint.SKIP),
    ],
)
def test_hint_when_a_volume_is_detached(waiting, expected):
    gone = make_volume_attachment("t", attacher=EBS, node="n", volume="v").obj()
    assert after_detached(waiting, gone, None) is expected


def test_events():
    events = PluginHarness(NodeVolumeLimits).plugin.events_to_register()
    assert [(event.resource, event.hint is None) for event in events] == [
        ("CSINode", True),
        ("CSINode", False),
        ("Pod", False),
        ("PersistentVolumeClaim", False),
        ("VolumeAttachment", False),
    ]
    hint = events[3].hint
    waiting = make_pod("p").pvc("x").ephemeral("e").obj()
    assert hint(waiting, None, make_pvc("p-e").obj()) is Hint.QUEUE
    assert hint(waiting, None, make_pvc("other").obj()) is Hint.SKIP
    assert hint(waiting, None, make_pvc("x", "other").obj()) is Hint.SKIP
