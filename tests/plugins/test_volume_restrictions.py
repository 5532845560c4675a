"""VolumeRestrictions: tables of disks, ReadWriteOncePod claims, hypothetical pods, and hints."""

from __future__ import annotations

import pytest

from mooring.api.volumes import ISCSI, RBD, AWSElasticBlockStore, EmptyDir, GCEPersistentDisk, Volume
from mooring.framework import Code, CycleState, Hint, PodInfo, Status
from mooring.plugins.volume_restrictions import VolumeRestrictions, after_pod_deleted
from mooring.testing import PluginHarness, check_what_if, make_node, make_pod, make_pvc, run_plugin

DISK = "node(s) had no available disk"
CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def gce(name: str, read_only: bool = False) -> Volume:
    return Volume(gce_persistent_disk=GCEPersistentDisk(pd_name=name, read_only=read_only))


def ebs(name: str, read_only: bool = False) -> Volume:
    return Volume(aws_elastic_block_store=AWSElasticBlockStore(volume_id=name, read_only=read_only))


def iscsi(iqn: str, read_only: bool = False) -> Volume:
    return Volume(iscsi=ISCSI(target_portal="ignored", iqn=iqn, read_only=read_only))


def rbd(*monitors: str, image: str = "i", pool: str = "p", read_only: bool = False) -> Volume:
    return Volume(rbd=RBD(monitors=monitors, image=image, pool=pool, read_only=read_only))


NODES = [make_node("a").obj(), make_node("b").obj()]


@pytest.mark.parametrize(
    ("mine", "theirs", "conflict"),
    [
        (gce("d"), gce("d"), True),
        (gce("d"), gce("e"), False),
        (gce("d", True), gce("d", True), False),
        (gce("d", True), gce("d"), True),
        (gce("d"), gce("d", True), True),
        (ebs("v"), ebs("v"), True),
        (ebs("v", True), ebs("v", True), True),
        (ebs("v"), ebs("w"), False),
        (ebs("d"), gce("d"), False),
        (iscsi("i"), iscsi("i"), True),
        (iscsi("i", True), iscsi("i", True), False),
        (iscsi("i", True), iscsi("i"), True),
        (iscsi("i"), iscsi("j"), False),
        (rbd("m", "n"), rbd("n", "o"), True),
        (rbd("m"), rbd("n"), False),
        (rbd("m"), rbd("m", image="other"), False),
        (rbd("m"), rbd("m", pool="other"), False),
        (rbd("m", read_only=True), rbd("m", read_only=True), False),
        (rbd("m", read_only=True), rbd("m"), True),
        (rbd(), rbd(), False),
    ],
)
def test_disks_of_two_pods(mine, theirs, conflict):
    there = make_pod("there").volume(theirs).node("a").obj()
    result = run_plugin(VolumeRestrictions, make_pod("p").volume(mine).obj(), nodes=NODES, pods=[there])
    assert result.pre_filter.is_success
    assert result.rejected == ({"a": (DISK,)} if conflict else {})
    if conflict:
        assert result.filter["a"].code is Code.UNSCHEDULABLE


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(make_pod("p").obj(), id="no volumes"),
        pytest.param(make_pod("p").volume(Volume(empty_dir=EmptyDir())).csi("driver").obj(), id="none that matter"),
        pytest.param(make_pod("p").pvc("shared").obj(), id="a claim that many may use"),
        pytest.param(make_pod("p").pvc("alone").obj(), id="a claim that nobody uses"),
        pytest.param(make_pod("p").ephemeral("absent").obj(), id="ephemeral volumes are not looked at"),
    ],
)
def test_nothing_to_do(pod):
    claims = [make_pvc("shared").obj(), make_pvc("alone", access_modes=("ReadWriteOncePod",)).obj()]
    there = make_pod("there").pvc("shared").node("a").obj()
    result = run_plugin(VolumeRestrictions, pod, nodes=NODES, pods=[there], objects=claims)
    assert result.pre_filter.code is Code.SKIP


def test_a_claim_that_is_not_there():
    result = run_plugin(VolumeRestrictions, make_pod("p").pvc("gone").obj(), nodes=NODES)
    assert result.pre_filter == Status.unresolvable('persistentvolumeclaim "gone" not found')


def once(name: str, namespace: str = "default"):
    return make_pvc(name, namespace, access_modes=("ReadWriteOncePod",)).obj()


def test_a_claim_in_use_rules_out_every_node():
    there = make_pod("there").pvc("data").node("a").obj()
    result = run_plugin(
        VolumeRestrictions, make_pod("p").pvc("data").obj(), nodes=NODES, pods=[there], objects=[once("data")]
    )
    assert result.rejected == {"a": (CLAIM,), "b": (CLAIM,)}


def test_a_disk_in_use_is_named_first():
    there = make_pod("there").pvc("data").volume(gce("d")).node("a").obj()
    pod = make_pod("p").pvc("data").volume(gce("d")).obj()
    result = run_plugin(VolumeRestrictions, pod, nodes=NODES, pods=[there], objects=[once("data")])
    assert result.rejected == {"a": (DISK,), "b": (CLAIM,)}


def test_the_claim_of_another_namespace_is_another_claim():
    there = make_pod("there", "other").pvc("data").node("a").obj()
    objects = [once("data"), once("data", "other")]
    result = run_plugin(VolumeRestrictions, make_pod("p").pvc("data").obj(), nodes=NODES, pods=[there], objects=objects)
    assert result.pre_filter.code is Code.SKIP


def test_pods_that_leave_make_room():
    harness = PluginHarness(VolumeRestrictions, nodes=NODES, objects=[once("data")])
    harness.add(make_pod("there").pvc("data").volume(gce("d")).node("a").obj())
    pod = make_pod("p").pvc("data").volume(gce("d")).obj()
    assert harness.run(pod).rejected == {"a": (DISK,), "b": (CLAIM,)}
    harness.table.remove_pod("pod-default-there")
    assert harness.run(pod).rejected == {}


class TestHypotheticalPods:
    def harness(self) -> PluginHarness:
        pods = [
            make_pod("disk").volume(gce("d")).node("a").obj(),
            make_pod("claim").pvc("data").node("a").obj(),
            make_pod("both").pvc("data").volume(gce("d", True)).volume(ebs("v")).node("b").obj(),
            make_pod("namesake", "other").pvc("data").node("b").obj(),
            make_pod("none").node("a").obj(),
        ]
        return PluginHarness(VolumeRestrictions, nodes=NODES, pods=pods, objects=[once("data")])

    @pytest.mark.parametrize(
        ("node", "without", "expected"),
        [
            ("a", [], DISK),
            ("a", ["pod-default-disk"], CLAIM),
            ("a", ["pod-default-claim"], DISK),
            ("a", ["pod-default-disk", "pod-default-claim"], None),
            ("b", [], DISK),
            # PreFilter counted the claim once; each pod that goes counts, of whatever namespace.
            ("b", ["pod-default-both"], None),
            ("b", ["pod-other-namesake"], DISK),
        ],
    )
    def test_pods_less(self, node, without, expected):
        harness, state = self.harness(), CycleState()
        pod = make_pod("p").pvc("data").volume(gce("d")).obj()
        assert harness.pre_filter(state, pod)[0].is_success
        verdict = harness.filter_what_if(state, pod, node, without=without)
        assert verdict == (Status.unschedulable(expected) if expected else Status())
        assert harness.filter(state, pod, harness.nodes())[node].reasons == (DISK,), "the real state is untouched"

    def test_pods_more(self):
        harness, state = PluginHarness(VolumeRestrictions, nodes=NODES, objects=[once("data")]), CycleState()
        pod = make_pod("p").pvc("data").volume(gce("d")).obj()
        harness.pre_filter(state, pod)
        more = make_pod("q").pvc("data").obj()
        assert harness.filter_what_if(state, pod, "a", with_pods=[more]).reasons == (CLAIM,)
        more = make_pod("q").volume(gce("d")).obj()
        assert harness.filter_what_if(state, pod, "a", with_pods=[more]).reasons == (DISK,)

    def test_many_at_once(self):
        harness = self.harness()
        victims = {name: [info.pod.uid for info in harness.info(name).pods] for name in ("b", "a")}
        check_what_if(harness, make_pod("p").pvc("data").volume(gce("d")).volume(ebs("v")).obj(), victims)


def test_without_pre_filter_it_is_an_error():
    harness = PluginHarness(VolumeRestrictions, nodes=NODES, pods=[make_pod("q").volume(gce("d")).node("a").obj()])
    pod = make_pod("p").volume(gce("d")).obj()
    missing = Status.error('cannot read "PreFilterVolumeRestrictions" from cycleState')
    found = harness.filter(CycleState(), pod, harness.nodes())
    assert found == {"a": Status.unschedulable(DISK), "b": missing}
    info = PodInfo(pod, harness.handle.template(pod))
    assert harness.plugin.add_pod(CycleState(), pod, info, harness.info("a")) == missing


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (make_pod("q").volume(gce("d")).obj(), Hint.QUEUE),
        (make_pod("q").volume(gce("e")).obj(), Hint.SKIP),
        (make_pod("q").pvc("data").obj(), Hint.QUEUE),
        (make_pod("q").pvc("other").obj(), Hint.SKIP),
        (make_pod("q", "other").volume(gce("d")).obj(), Hint.SKIP),
        (make_pod("q").obj(), Hint.SKIP),
    ],
)
def test_hint_when_a_pod_goes(gone, expected):
    assert after_pod_deleted(make_pod("p").volume(gce("d")).pvc("data").obj(), gone, None) is expected


def test_events():
    events = PluginHarness(VolumeRestrictions).plugin.events_to_register()
    assert [(event.resource, event.actions.name) for event in events] == [
        ("Pod", "DELETE"),
        ("Node", "ADD"),
        ("PersistentVolumeClaim", "ADD"),
    ]
    pod, hint = make_pod("p").pvc("data").ephemeral("x").obj(), events[2].hint
    assert hint(pod, None, make_pvc("data").obj()) is Hint.QUEUE
    assert hint(pod, None, make_pvc("p-x").obj()) is Hint.SKIP
    assert hint(pod, None, make_pvc("data", "other").obj()) is Hint.SKIP
