"""VolumeBinding: tables of claims, volumes and nodes; volumes that can be made; what Reserve assumes; hints."""

from __future__ import annotations

import msgspec
import pytest

from mooring.api.affinity import NodeSelector
from mooring.api.storage import VolumeNodeAffinity
from mooring.api.volumes import AWSElasticBlockStore
from mooring.framework import ActionType, Code, CycleState, Hint, Status
from mooring.plugins.volume_binding import VolumeBinding
from mooring.plugins.volume_binding.plugin import (
    after_capacity_changed,
    after_class_changed,
    after_csi_node_changed,
    after_driver_changed,
)
from mooring.releases import V1_36
from mooring.testing import (
    PluginHarness,
    check_what_if,
    make_csi_capacity,
    make_csi_driver,
    make_csi_node,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
    run_plugin,
    selector,
)
from mooring.testing.builders import node_term

ZONE = "topology.kubernetes.io/zone"
MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

POD = make_pod("p").pvc("data").obj()
TWO = make_pod("p").pvc("data").pvc("logs").obj()
NODES = [make_node(zone).zone(zone).obj() for zone in "abc"]
#: Classes whose volumes wait for a pod: free ones only, or made by a driver.
STATIC = make_storage_class("static").obj()
MADE = make_storage_class("made", provisioner="d.csi").obj()


def run(pod, *objects, nodes=NODES):
    return run_plugin(VolumeBinding, pod, nodes=nodes, objects=[STATIC, MADE, *objects])


def rejected(*names: str, reasons: tuple[str, ...] = (NO_VOLUME,)) -> dict[str, tuple[str, ...]]:
    return dict.fromkeys(names, reasons)


def claim(name: str = "data", storage_class: str | None = "static", size: str = "1Gi"):
    return make_pvc(name, storage_class=storage_class, size=size)


def free(name: str, size: str = "1Gi", zone: str = ""):
    made = make_pv(name, storage_class="static", size=size)
    return made.node_affinity((ZONE, "In", zone)) if zone else made


class TestPreFilter:
    @pytest.mark.parametrize(
        "pod", [make_pod("p").obj(), make_pod("p").csi("driver").image_volume("i").obj()], ids=["none", "no claims"]
    )
    def test_nothing_to_do(self, pod):
        assert run(pod).pre_filter.code is Code.SKIP

    @pytest.mark.parametrize(
        ("objects", "reason"),
        [
            ([], 'persistentvolumeclaim "data" not found'),
            (
                [claim().phase("Lost").spec(volume_name="v").obj()],
                'persistentvolumeclaim "data" bound to non-existent persistentvolume "v"',
            ),
            ([claim().terminating().obj()], 'persistentvolumeclaim "data" is being deleted'),
            ([claim(storage_class=None).obj()], "pod has unbound immediate PersistentVolumeClaims"),
            ([claim(storage_class="gone").obj()], "pod has unbound immediate PersistentVolumeClaims"),
            ([claim().spec(volume_name="v").obj()], "pod has unbound immediate PersistentVolumeClaims"),
        ],
    )
    def test_claims_that_will_not_do(self, objects, reason):
        assert run(POD, *objects).pre_filter == Status.unresolvable(reason)

    def test_a_class_that_does_not_wait(self):
        now = make_storage_class("now", wait=False).obj()
        expected = Status.unresolvable("pod has unbound immediate PersistentVolumeClaims")
        assert run(POD, now, claim(storage_class="now").obj()).pre_filter == expected

    def test_a_class_without_a_mode_is_an_error(self):
        odd = msgspec.structs.replace(make_storage_class("odd").obj(), volume_binding_mode=None)
        expected = Status.error('VolumeBindingMode not set for StorageClass "odd"')
        assert run(POD, odd, claim(storage_class="odd").obj()).pre_filter == expected

    def test_ephemeral_volumes(self):
        pod = make_pod("p").ephemeral("e", storage_class="made").obj()
        waiting = 'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"'
        assert run(pod).pre_filter == Status.unresolvable(waiting)
        foreign = "PVC default/p-e was not created for pod default/p (pod is not owner)"
        assert run(pod, make_pvc("p-e", storage_class="made").obj()).pre_filter == Status.unresolvable(foreign)
        own = make_pvc("p-e", storage_class="made").owner("Pod", "p", uid="pod-default-p").obj()
        assert run(pod, own).feasible == ["a", "b", "c"]


class TestBoundClaims:
    @pytest.mark.parametrize(
        ("affinity", "feasible"),
        [
            (None, ["a", "b", "c"]),
            (VolumeNodeAffinity(), ["a", "b", "c"]),
            (VolumeNodeAffinity(required=NodeSelector()), []),
            ([[(ZONE, "In", "a", "b")]], ["a", "b"]),
            ([[(ZONE, "NotIn", "a")]], ["b", "c"]),
            ([[(ZONE, "In", "a")], [("kubernetes.io/hostname", "In", "c")]], ["a", "c"]),
            ([[(ZONE, "In", "a"), ("disk", "Exists")]], []),
            ([[]], []),
            # A term that makes no sense matches nothing; others still count.
            ([[(ZONE, "Odd")], [(ZONE, "In", "b")]], ["b"]),
        ],
    )
    def test_node_affinity(self, affinity, feasible):
        if isinstance(affinity, list):
            required = NodeSelector(node_selector_terms=tuple(map(node_term, affinity)))
            affinity = VolumeNodeAffinity(required=required)
        result = run(POD, claim().bound("v").obj(), make_pv("v").spec(node_affinity=affinity).obj())
        assert result.feasible == feasible
        assert set(result.rejected.values()) <= {(CONFLICT,)}
        assert all(each.code is not Code.UNSCHEDULABLE for each in result.filter.values())

    def test_match_fields_alone_hold_everywhere(self):
        required = NodeSelector(node_selector_terms=(node_term([], [("metadata.name", "In", "a")]),))
        volume = make_pv("v").spec(node_affinity=VolumeNodeAffinity(required=required)).obj()
        assert run(POD, claim().bound("v").obj(), volume).feasible == ["a", "b", "c"]

    def test_a_volume_that_is_gone(self):
        assert run(POD, claim().bound("v").obj()).rejected == rejected("a", "b", "c", reasons=(MISSING,))

    def test_the_first_claim_that_fails_gives_the_reason(self):
        objects = claim().bound("v").obj(), claim("logs").bound("gone").obj(), free("v", zone="a").obj()
        assert run(TWO, *objects).rejected == {"a": (MISSING,), "b": (CONFLICT,), "c": (CONFLICT,)}

    def test_in_tree_volumes_where_their_driver_took_over(self):
        ebs = "topology.ebs.csi.aws.com/zone"
        nodes = [
            make_node("old").zone("a").obj(),
            make_node("new").zone("a").label({ebs: "a"}).obj(),
            make_node("new-elsewhere").zone("a").label({ebs: "b"}).obj(),
            make_node("not-said").zone("a").label({ebs: "b"}).obj(),
        ]
        csi_nodes = [
            make_csi_node("new", {}).annotation({MIGRATED: "x,kubernetes.io/aws-ebs"}).obj(),
            make_csi_node("new-elsewhere", {}).annotation({MIGRATED: "kubernetes.io/aws-ebs"}).obj(),
            make_csi_node("not-said", {}).obj(),
        ]
        volume = free("v", zone="a").spec(aws_elastic_block_store=AWSElasticBlockStore(volume_id="vol-1"))
        result = run(POD, claim().bound("v").obj(), volume.obj(), *csi_nodes, nodes=nodes)
        assert result.rejected == rejected("new-elsewhere", reasons=(CONFLICT,))
        volume = volume.spec(aws_elastic_block_store=AWSElasticBlockStore(volume_id="aws://a/x"))
        found = run(POD, claim().bound("v").obj(), volume.obj(), *csi_nodes, nodes=nodes).filter
        id_fault = "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://a/x)"
        broken = Status.error(f"could not translate pv: {id_fault}")
        assert found == {"old": Status(), "new": broken, "new-elsewhere": broken, "not-said": Status()}


class TestFreeVolumes:
    @pytest.mark.parametrize(
        ("wanted", "volume", "fits"),
        [
            (claim(), free("v"), True),
            (claim(size="2Gi"), free("v"), False),
            (claim(size="1073741824"), free("v"), True),
            (claim(size="1073741825"), free("v"), False),
            (claim(), free("v").phase("Released"), False),
            (claim(), free("v").terminating(), False),
            (claim(), make_pv("v", storage_class="made"), False),
            (claim().spec(volume_mode="Block"), free("v"), False),
            (claim().spec(volume_mode="Filesystem"), free("v"), True),
            (claim().spec(volume_mode="Block"), free("v").spec(volume_mode="Block"), True),
            (claim().spec(volume_attributes_class_name="gold"), free("v"), False),
            (claim().spec(volume_attributes_class_name=""), free("v"), True),
            (claim(), free("v").spec(volume_attributes_class_name="gold"), False),
            (claim().spec(access_modes=("ReadWriteMany",)), free("v"), False),
            (claim(), free("v").spec(access_modes=("ReadWriteMany", "ReadWriteOnce")), True),
            (claim().select({"tier": "gold"}), free("v"), False),
            (claim().select({"tier": "gold"}), free("v").label(tier="gold"), True),
            (claim(), free("v").claimed(claim("other").obj(), phase="Available"), False),
            (claim(), free("v").claimed(claim().obj(), phase="Bound"), True),
            (claim().uid("new"), free("v").claimed(claim().obj()), False),
            (claim(size="2Gi"), free("v").claimed(claim().obj()), False),
            # A volume that names the claim need not match its selector or modes.
            (claim().select({"tier": "gold"}), free("v").claimed(claim().obj()), True),
        ],
    )
    def test_what_suits(self, wanted, volume, fits):
        result = run(POD, wanted.obj(), volume.obj())
        assert result.rejected == ({} if fits else rejected("a", "b", "c"))

    def test_where(self):
        assert run(POD, claim().obj(), free("v", zone="a").obj()).rejected == rejected("b", "c")

    def test_a_volume_that_names_the_claim_decides(self):
        objects = free("v", zone="a").claimed(claim().obj()).obj(), free("w").obj()
        assert run(POD, claim().obj(), *objects).rejected == rejected("b", "c")

    def test_each_claim_needs_a_volume(self):
        two = claim().obj(), claim("logs").obj()
        assert run(TWO, *two, free("v").obj(), free("w", zone="a").obj()).rejected == rejected("b", "c")

    def test_small_claims_choose_first_and_take_the_smallest(self):
        # In a and b the large one goes to the large claim; c has only volumes that the small claim takes.
        objects = [claim(size="5Gi").obj(), claim("logs", size="1Gi").obj()]
        volumes = [
            free("small-a", "2Gi", "a"),
            free("large-a", "9Gi", "a"),
            free("mid", "6Gi", "b"),
            free("c", "7Gi", "c"),
        ]
        result = run(TWO, *objects, *(each.obj() for each in volumes), free("large-b", "8Gi", "b").obj())
        assert result.rejected == rejected("c")

    def test_the_same_claim_twice_takes_two(self):
        pod = make_pod("p").pvc("data").pvc("data").obj()
        assert run(pod, claim().obj(), free("v").obj()).rejected == rejected("a", "b", "c")
        assert run(pod, claim().obj(), free("v").obj(), free("w", zone="b").obj()).rejected == rejected("a", "c")

    def test_an_invalid_selector_is_an_error(self):
        odd = claim().select(selector({}, ("tier", "Odd"))).obj()
        text = '"Odd" is not a valid label selector operator'
        expected = Status.error(f"error creating internal label selector for claim: default/data: {text}")
        assert run(POD, odd).filter == dict.fromkeys("abc", expected)

    def test_volumes_of_many_kinds_of_places(self):
        nodes = [make_node(f"{z}{i}").zone(z).label(disk=d).obj() for z in "ab" for i, d in enumerate(("ssd", "hdd"))]
        volumes = [
            free("one-host", "1Gi").node_affinity(("kubernetes.io/hostname", "In", "a0")).obj(),
            free("fast", "2Gi").node_affinity(("disk", "NotIn", "hdd"), (ZONE, "In", "b")).obj(),
        ]
        assert run(POD, claim().obj(), *volumes, nodes=nodes).feasible == ["a0", "b0"]


class TestVolumesToBeMade:
    def test_a_class_that_cannot_make_any(self):
        assert run(POD, claim().obj()).rejected == rejected("a", "b", "c")

    def test_a_class_that_can(self):
        assert run(POD, claim(storage_class="made").obj()).feasible == ["a", "b", "c"]

    @pytest.mark.parametrize(
        ("topologies", "feasible"),
        [
            (({ZONE: ("a", "b")},), ["a", "b"]),
            (({ZONE: ("a",)}, {ZONE: ("c",)}), ["a", "c"]),
            (({ZONE: ("a",), "disk": ("ssd",)},), []),
            (({},), []),
            (({ZONE: ("not valid!",)}, {ZONE: ("b",)}), ["b"]),
        ],
    )
    def test_allowed_topologies(self, topologies, feasible):
        choosy = make_storage_class("choosy", provisioner="d.csi", topologies=topologies).obj()
        result = run(POD, choosy, claim(storage_class="choosy").obj())
        assert result.feasible == feasible
        assert set(result.rejected.values()) <= {(NO_VOLUME,)}

    @pytest.mark.parametrize(
        ("capacity", "feasible"),
        [
            ({"capacity": "1Gi", "topology": {}}, ["a", "b", "c"]),
            ({"capacity": "1Gi", "topology": {ZONE: "a"}}, ["a"]),
            ({"capacity": "1023Mi", "topology": {}}, []),
            ({"capacity": "9Gi", "maximum": "512Mi", "topology": {}}, []),
            ({"capacity": "1", "maximum": "1Gi", "topology": {}}, ["a", "b", "c"]),
            ({"topology": {}}, []),
            ({"capacity": "1Gi"}, []),
            ({"capacity": "1Gi", "topology": selector({}, (ZONE, "In", "a", "c"))}, ["a", "c"]),
            ({"capacity": "1Gi", "topology": selector({ZONE: "a", "disk": "ssd"})}, []),
            ({"capacity": "1Gi", "topology": selector({}, (ZONE, "Odd"))}, []),
            ({"capacity": "1Gi", "topology": {}, "storage_class": "other"}, []),
        ],
    )
    def test_capacity(self, capacity, feasible):
        known = make_csi_capacity("c", **{"storage_class": "made", **capacity}).obj()
        result = run(
            POD, make_csi_driver("d.csi", storage_capacity=True).obj(), known, claim(storage_class="made").obj()
        )
        assert result.feasible == feasible
        assert set(result.rejected.values()) <= {(NO_SPACE,)}

    @pytest.mark.parametrize("driver", [None, False])
    def test_drivers_that_do_not_tell(self, driver):
        told = make_csi_driver("d.csi", storage_capacity=driver).obj()
        assert run(POD, told, claim(storage_class="made").obj()).feasible == ["a", "b", "c"]

    def test_claims_that_do_not_say_how_much(self):
        told = make_csi_driver("d.csi", storage_capacity=True).obj()
        asked = claim(storage_class="made")
        asked = asked.spec(resources=msgspec.structs.replace(asked.obj().spec.resources, requests={}))
        assert run(POD, told, asked.obj()).feasible == ["a", "b", "c"]

    def test_capacities_that_change(self):
        objects = [MADE, make_csi_driver("d.csi", storage_capacity=True).obj(), claim(storage_class="made").obj()]
        harness = PluginHarness(VolumeBinding, nodes=NODES, objects=objects)
        assert harness.run(POD).feasible == []
        for zone, size in (("a", "1Gi"), ("b", "1Gi"), ("c", "1Mi")):
            harness.add(make_csi_capacity(zone, storage_class="made", capacity=size, topology={ZONE: zone}).obj())
        assert harness.run(POD).feasible == ["a", "b"]
        harness.add(make_csi_capacity("a", storage_class="made", capacity="1Mi", topology={ZONE: "a"}).obj())
        assert harness.run(POD).feasible == ["b"]
        harness.handle.objects.remove(make_csi_capacity("b", storage_class="made").obj())
        assert harness.run(POD).feasible == []
        harness.add(make_csi_capacity("c", storage_class="made", capacity="1Gi", topology={ZONE: "d"}).obj())
        assert harness.run(POD).feasible == []
        harness.add(make_node("d").zone("d").obj())
        assert harness.run(POD).feasible == ["d"]

    def test_free_volumes_are_taken_where_there_are_some(self):
        # Where the static volume is, nothing has to be made; elsewhere there is no room.
        volume = make_pv("v", storage_class="made").node_affinity((ZONE, "In", "a")).obj()
        told = make_csi_driver("d.csi", storage_capacity=True).obj()
        result = run(POD, volume, told, claim(storage_class="made").obj())
        assert result.rejected == rejected("b", "c", reasons=(NO_SPACE,))


class TestChosenNode:
    def test_only_that_node(self):
        chosen = claim(storage_class="made").selected_node("b").obj()
        assert run(POD, chosen).rejected == rejected("a", "c")

    def test_no_free_volume_is_looked_for(self):
        chosen = claim().selected_node("b").obj()
        assert run(POD, chosen, free("v").obj()).rejected == rejected("a", "b", "c")

    def test_a_node_that_is_gone(self):
        chosen = claim(storage_class="made").selected_node("gone").obj()
        assert run(POD, chosen).rejected == rejected("a", "b", "c")

    def test_two_claims_that_disagree(self):
        objects = [
            claim(name, storage_class="made").selected_node(node).obj() for name, node in (("data", "a"), ("logs", "b"))
        ]
        assert run(TWO, *objects).rejected == rejected("a", "b", "c")

    def test_the_other_claims_are_checked_there(self):
        objects = claim(storage_class="made").selected_node("b").obj(), claim("logs").obj()
        assert run(TWO, *objects, free("v", zone="b").obj()).feasible == ["b"]
        assert run(TWO, *objects, free("v", zone="a").obj()).feasible == []

    def test_some_of_the_nodes(self):
        harness = PluginHarness(
            VolumeBinding, nodes=NODES, objects=[MADE, claim(storage_class="made").selected_node("b").obj()]
        )
        assert harness.run(POD, names=["c", "b"]).feasible == ["b"]
        assert harness.run(POD, names=["c"]).feasible == []


def test_all_reasons_are_given():
    told = make_csi_driver("d.csi", storage_capacity=True).obj()
    objects = claim().bound("v").obj(), free("v", zone="a").obj(), claim("logs", storage_class="made").obj()
    assert run(TWO, *objects, told).rejected == {
        "a": (NO_SPACE,),
        "b": (CONFLICT, NO_SPACE),
        "c": (CONFLICT, NO_SPACE),
    }
    assert run(TWO, claim().bound("gone").obj(), claim("logs").obj()).rejected == rejected(
        "a", "b", "c", reasons=(NO_VOLUME, MISSING)
    )


def test_other_pods_make_no_difference():
    pods = [make_pod("q").pvc("data").node("a").obj()]
    objects = [STATIC, claim().obj(), free("v", zone="a").obj()]
    harness = PluginHarness(VolumeBinding, nodes=NODES, pods=pods, objects=objects)
    check_what_if(harness, POD, {"b": [], "a": ["pod-default-q"]})


def test_there_are_no_scores_without_the_feature_gate():
    harness = PluginHarness(VolumeBinding, nodes=NODES, objects=[STATIC, claim().obj(), free("v").obj()], release=V1_36)
    result = harness.run(POD)
    assert (result.pre_score.code, result.scores) == (Code.SKIP, {})
    assert harness.plugin.score_nodes(CycleState(), POD, None) == 0


def test_without_pre_filter_it_is_an_error():
    harness = PluginHarness(VolumeBinding, nodes=NODES[:1])
    missing = Status.error("not found")
    assert harness.filter(CycleState(), POD, harness.nodes()) == {"a": missing}
    assert harness.plugin.pre_score(CycleState(), POD, harness.nodes()) == missing
    assert harness.plugin.reserve(CycleState(), POD, "a") == missing
    assert harness.plugin.pre_bind(CycleState(), POD, "a") == missing


class TestEvents:
    def test_registrations(self):
        events = PluginHarness(VolumeBinding).plugin.events_to_register()
        change = ActionType.ADD | ActionType.UPDATE
        assert [(event.resource, event.actions, event.hint is not None) for event in events] == [
            ("StorageClass", change, True),
            ("PersistentVolumeClaim", change, True),
            ("PersistentVolume", change, False),
            ("Node", ActionType.ADD | ActionType.UPDATE_NODE_LABEL, False),
            ("CSINode", change, True),
            ("CSIDriver", ActionType.UPDATE, True),
            ("CSIStorageCapacity", change, True),
        ]

    @pytest.mark.parametrize(
        ("hint", "pod", "old", "new", "expected"),
        [
            (after_class_changed, POD, None, STATIC, Hint.QUEUE),
            (after_class_changed, POD, STATIC, STATIC, Hint.SKIP),
            (
                after_class_changed,
                POD,
                STATIC,
                make_storage_class("static", topologies=({ZONE: ("a",)},)).obj(),
                Hint.QUEUE,
            ),
            (after_csi_node_changed, POD, None, make_csi_node("a", {}).obj(), Hint.QUEUE),
            (after_csi_node_changed, POD, make_csi_node("a", {}).obj(), make_csi_node("a", {"d": 1}).obj(), Hint.SKIP),
            (
                after_csi_node_changed,
                POD,
                make_csi_node("a", {}).obj(),
                make_csi_node("a", {}).annotation({MIGRATED: "x"}).obj(),
                Hint.QUEUE,
            ),
        ],
    )
    def test_classes_and_csi_nodes(self, hint, pod, old, new, expected):
        assert hint(pod, old, new) is expected

    @pytest.mark.parametrize(
        ("driver", "old", "new", "expected"),
        [
            ("d.csi", True, False, Hint.QUEUE),
            ("d.csi", True, None, Hint.QUEUE),
            ("d.csi", False, True, Hint.SKIP),
            ("d.csi", True, True, Hint.SKIP),
            ("other", True, False, Hint.SKIP),
        ],
    )
    def test_drivers(self, driver, old, new, expected):
        before, after = (make_csi_driver("d.csi", storage_capacity=told).obj() for told in (old, new))
        assert after_driver_changed(make_pod("p").csi(driver).obj(), before, after) is expected

    @pytest.mark.parametrize(
        ("old", "new", "expected"),
        [
            (None, {"capacity": "1Gi"}, Hint.QUEUE),
            ({"capacity": "1Gi"}, {"capacity": "2Gi"}, Hint.QUEUE),
            ({"capacity": "2Gi"}, {"capacity": "1Gi"}, Hint.SKIP),
            ({"capacity": "2Gi"}, {"capacity": "9Gi", "maximum": "2Gi"}, Hint.SKIP),
            ({}, {"capacity": "1Gi"}, Hint.QUEUE),
            ({"capacity": "1Gi"}, {}, Hint.SKIP),
        ],
    )
    def test_capacities(self, old, new, expected):
        before, after = (
            None if given is None else make_csi_capacity("c", storage_class="s", **given).obj() for given in (old, new)
        )
        assert after_capacity_changed(POD, before, after) is expected
