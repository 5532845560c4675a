"""VolumeZone: tables of volumes' labels against nodes' labels, claims that are not as they should be, and hints."""

from __future__ import annotations

import msgspec
import pytest

from mooring.framework import ActionType, Code, CycleState, Hint, Status
from mooring.plugins.volume_zone import VolumeZone, after_class_added, after_volume_changed
from mooring.testing import (
    PluginHarness,
    check_what_if,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
    run_plugin,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE, OLD_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
CONFLICT = Status.unresolvable("node(s) had no available volume zone")

POD = make_pod("p").pvc("data").obj()


@pytest.mark.parametrize(
    ("volume", "node", "fits"),
    [
        ({ZONE: "a"}, {ZONE: "a"}, True),
        ({ZONE: "a"}, {ZONE: "b"}, False),
        ({ZONE: "a"}, {}, True),
        ({ZONE: "a"}, {"other": "b"}, True),
        ({ZONE: "a"}, {REGION: "r"}, False),
        ({ZONE: "a__b"}, {ZONE: "b"}, True),
        ({ZONE: "a__ b "}, {ZONE: "b"}, True),
        ({ZONE: "a__b"}, {ZONE: "c"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
        ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "r", OLD_ZONE: "z"}, True),
        ({OLD_ZONE: "a"}, {ZONE: "a"}, True),
        ({OLD_ZONE: "a"}, {ZONE: "b"}, False),
        ({OLD_ZONE: "a"}, {OLD_ZONE: "b", ZONE: "a"}, False),
        ({OLD_REGION: "r"}, {REGION: "r"}, True),
        ({ZONE: "a"}, {OLD_ZONE: "a"}, False),
        # A label with an empty zone in it is ignored.
        ({ZONE: "a__", REGION: "r"}, {ZONE: "b", REGION: "r"}, True),
    ],
)
def test_labels(volume, node, fits):
    objects = [make_pvc("data").bound("v").obj(), make_pv("v").label(volume).obj()]
    nodes = [make_node("n").label(node).obj(), make_node("plain").obj()]
    result = run_plugin(VolumeZone, POD, nodes=nodes, objects=objects)
    assert result.filter == {"n": Status() if fits else CONFLICT, "plain": Status()}


def test_every_volume_counts():
    objects = [
        make_pvc("data").bound("v").obj(),
        make_pvc("logs").bound("w").obj(),
        make_pv("v").label({ZONE: "a__b"}).obj(),
        make_pv("w").label({ZONE: "b__c"}).obj(),
    ]
    nodes = [make_node(zone).zone(zone).obj() for zone in "abc"]
    result = run_plugin(VolumeZone, make_pod("p").pvc("data").pvc("logs").obj(), nodes=nodes, objects=objects)
    assert result.feasible == ["b"]


def without_mode(name: str):
    return msgspec.structs.replace(make_storage_class(name).obj(), volume_binding_mode=None)


@pytest.mark.parametrize(
    ("objects", "pod", "expected"),
    [
        ([], make_pod("p").obj(), Code.SKIP),
        ([], make_pod("p").ephemeral("e").csi("d").obj(), Code.SKIP),
        ([make_pvc("data").bound("v").obj(), make_pv("v").obj()], POD, Code.SKIP),
        ([make_pvc("data").bound("v").obj(), make_pv("v").label({ZONE: "a__"}).obj()], POD, Code.SKIP),
        ([make_pvc("data", storage_class="s").obj(), make_storage_class("s").obj()], POD, Code.SKIP),
        ([], make_pod("p").pvc("").obj(), "PersistentVolumeClaim had no name"),
        ([], POD, 'persistentvolumeclaim "data" not found'),
        ([make_pvc("data").bound("v").obj()], POD, 'persistentvolume "v" not found'),
        ([make_pvc("data").obj()], POD, "PersistentVolumeClaim had no pv name and storageClass name"),
        ([make_pvc("data", storage_class="s").obj()], POD, 'storageclass.storage.k8s.io "s" not found'),
        (
            [make_pvc("data", storage_class="s").obj(), without_mode("s")],
            POD,
            'VolumeBindingMode not set for StorageClass "s"',
        ),
        (
            [make_pvc("data", storage_class="s").obj(), make_storage_class("s", wait=False).obj()],
            POD,
            "PersistentVolume had no name",
        ),
        (
            [
                make_pvc("data", storage_class="s").annotation({"volume.beta.kubernetes.io/storage-class": "t"}).obj(),
                make_storage_class("s").obj(),
            ],
            POD,
            'storageclass.storage.k8s.io "t" not found',
        ),
    ],
)
def test_pre_filter(objects, pod, expected):
    found = run_plugin(VolumeZone, pod, nodes=[make_node("n").obj()], objects=objects).pre_filter
    assert found.code is expected if isinstance(expected, Code) else found == Status.unresolvable(expected)


def test_without_pre_filter_it_looks_itself():
    objects = [make_pvc("data").bound("v").obj(), make_pv("v").label({ZONE: "a"}).obj()]
    harness = PluginHarness(VolumeZone, nodes=[make_node("n").zone("b").obj()], objects=objects)
    assert harness.filter(CycleState(), POD, harness.nodes()) == {"n": CONFLICT}
    gone = make_pod("p").pvc("gone").obj()
    expected = Status.unresolvable('persistentvolumeclaim "gone" not found')
    assert harness.filter(CycleState(), gone, harness.nodes()) == {"n": expected}


def test_nodes_that_change_their_labels():
    objects = [make_pvc("data").bound("v").obj(), make_pv("v").label({ZONE: "a"}).obj()]
    harness = PluginHarness(VolumeZone, nodes=[make_node("n").obj(), make_node("m").zone("b").obj()], objects=objects)
    assert harness.run(POD).feasible == ["n"]
    harness.add(make_node("n").zone("b").obj(), make_node("m").zone("a").obj())
    assert harness.run(POD).feasible == ["m"]
    harness.table.remove_node("n")
    assert harness.run(POD).feasible == ["m"]


def test_other_pods_make_no_difference():
    objects = [make_pvc("data").bound("v").obj(), make_pv("v").label({ZONE: "a"}).obj()]
    nodes = [make_node("n").zone("b").obj(), make_node("m").zone("a").obj()]
    pods = [make_pod("q").pvc("data").node("n").obj()]
    harness = PluginHarness(VolumeZone, nodes=nodes, pods=pods, objects=objects)
    check_what_if(harness, POD, {"m": [], "n": ["pod-default-q"]})


def test_events():
    events = PluginHarness(VolumeZone).plugin.events_to_register()
    change = ActionType.ADD | ActionType.UPDATE
    assert [(event.resource, event.actions, event.hint is not None) for event in events] == [
        ("StorageClass", ActionType.ADD, True),
        ("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL, False),
        ("PersistentVolumeClaim", change, True),
        ("PersistentVolume", change, True),
    ]


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (make_storage_class("s").obj(), Hint.QUEUE),
        (make_storage_class("s", wait=False).obj(), Hint.SKIP),
        (without_mode("s"), Hint.SKIP),
    ],
)
def test_hint_for_classes(new, expected):
    assert after_class_added(POD, None, new) is expected


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, {}, Hint.QUEUE),
        ({ZONE: "a"}, {ZONE: "b"}, Hint.QUEUE),
        ({ZONE: "a"}, {ZONE: "a", "other": "x"}, Hint.SKIP),
        ({ZONE: "a__b"}, {ZONE: "b__a"}, Hint.SKIP),
    ],
)
def test_hint_for_volumes(old, new, expected):
    before = None if old is None else make_pv("v").label(old).obj()
    assert after_volume_changed(POD, before, make_pv("v").label(new).obj()) is expected
