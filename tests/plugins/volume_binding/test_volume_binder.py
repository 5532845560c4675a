"""VolumeBinding from Reserve on: what is assumed, what is written, and how long it waits."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from mooring.api.meta import KubeObject, ObjectReference
from mooring.api.pod import Pod
from mooring.api.storage import PersistentVolume, PersistentVolumeClaim
from mooring.framework import Code, CycleState, Status
from mooring.framework.api_clients import ObjectPatch
from mooring.plugins.volume_binding import VolumeBinding
from mooring.testing import PluginHarness, make_node, make_pod, make_pv, make_pvc, make_storage_class
from mooring.testing.storage_builders import SELECTED_NODE

ZONE = "topology.kubernetes.io/zone"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"

POD = make_pod("p").pvc("data").obj()
TWO = make_pod("p").pvc("data").pvc("logs").obj()
CLASSES = [make_storage_class("static").obj(), make_storage_class("made", provisioner="d.csi").obj()]


def stored(item: KubeObject, version: int) -> KubeObject:
    return msgspec.structs.replace(item, metadata=msgspec.structs.replace(item.metadata, resource_version=str(version)))


def volume(name: str, zone: str = "a", version: int = 1) -> PersistentVolume:
    return stored(make_pv(name, storage_class="static").node_affinity((ZONE, "In", zone)).obj(), version)


def claim(name: str, storage_class: str = "static", version: int = 1) -> PersistentVolumeClaim:
    return stored(make_pvc(name, storage_class=storage_class).obj(), version)


class Writer:
    """An API server that takes patches; ``react`` is what controllers do while time passes."""

    def __init__(self, harness: PluginHarness, react: Callable[[int], None] | None = None, refuse: str = "") -> None:
        self.harness = harness
        self.react = react
        self.refuse = refuse
        self.patches: list[ObjectPatch] = []
        self.now = 0.0
        self.there = True

    async def patch(self, patch: ObjectPatch) -> KubeObject:
        if patch.name == self.refuse:
            raise RuntimeError(f"{patch.name} was refused")
        self.patches.append(patch)
        item = self.harness.handle.lister(patch.kind).get(patch.name, patch.namespace)
        data = msgspec.to_builtins(item)
        metadata, spec = patch.body["metadata"], patch.body.get("spec", {})
        data.setdefault("metadata", {}).setdefault("annotations", {}).update(metadata.get("annotations", {}))
        data["metadata"]["resourceVersion"] = "50"
        data.setdefault("spec", {}).update(spec)
        written = msgspec.convert(data, patch.kind)
        self.harness.handle.objects.put(written)
        return written

    async def pause(self, seconds: float) -> None:
        self.now += seconds
        if self.react is not None:
            self.react(int(self.now))

    def exists(self, pod: Pod) -> bool:
        return self.there


def harness_of(*objects: KubeObject) -> PluginHarness:
    nodes = [make_node(zone).zone(zone).obj() for zone in "ab"]
    return PluginHarness(VolumeBinding, nodes=nodes, objects=[*CLASSES, *objects], args={"bindTimeoutSeconds": 5})


def placed(harness: PluginHarness, pod: Pod, node: str = "a") -> CycleState:
    """The state once Reserve has run."""
    result = harness.run(pod)
    assert node in result.feasible
    assert harness.plugin.reserve(result.state, pod, node) is None
    return result.state


class TestReserve:
    def test_a_volume_is_no_longer_free(self):
        harness = harness_of(volume("v"), claim("data"), claim("other"))
        state = placed(harness, POD)
        assert harness.run(make_pod("q").pvc("other").obj()).feasible == []
        assert harness.run(make_pod("q").pvc("data").obj()).feasible == ["a"], "its own claim gets it"
        harness.plugin.unreserve(state, POD, "a")
        assert harness.run(make_pod("q").pvc("other").obj()).feasible == ["a"]

    def test_a_volume_is_made_for_the_node(self):
        harness = harness_of(claim("data", "made"))
        state = placed(harness, POD, "b")
        assert harness.run(POD).feasible == ["b"]
        harness.plugin.unreserve(state, POD, "b")
        assert harness.run(POD).feasible == ["a", "b"]

    def test_what_is_heard_counts_more_than_what_was_assumed(self):
        harness = harness_of(volume("v"), claim("data"), claim("other"))
        state = placed(harness, POD)
        harness.add(volume("v", version=1))
        assert harness.run(make_pod("q").pvc("other").obj()).feasible == [], "nothing new was heard"
        harness.add(volume("v", version=2))
        assert harness.run(make_pod("q").pvc("other").obj()).feasible == ["a"]
        again = harness.run(make_pod("q").pvc("other").obj())
        assert harness.plugin.reserve(again.state, POD, "a") is None
        harness.plugin.unreserve(state, POD, "a")
        assert harness.run(POD).feasible == [], "an old attempt does not take back what a newer one assumed"

    def test_nothing_to_reserve(self):
        harness = harness_of(volume("v"), make_pvc("data").bound("v").obj())
        state = placed(harness, POD)
        assert harness.plugin.pre_bind_pre_flight(state, POD, "a").code is Code.SKIP
        assert harness.plugin.pre_bind(state, POD, "a") is None
        harness.plugin.unreserve(state, POD, "a")

    def test_pods_without_claims(self):
        harness, state, pod = harness_of(), CycleState(), make_pod("p").obj()
        assert harness.plugin.pre_filter(state, pod, harness.nodes()).code is Code.SKIP
        assert harness.plugin.reserve(state, pod, "a") is None
        assert harness.plugin.pre_bind_pre_flight(state, pod, "a").code is Code.SKIP
        assert harness.plugin.pre_bind(state, pod, "a") is None
        harness.plugin.unreserve(state, pod, "a")

    def test_unreserve_without_reserve(self):
        harness = harness_of(volume("v"), claim("data"))
        harness.plugin.unreserve(harness.run(POD).state, POD, "a")
        harness.plugin.unreserve(CycleState(), POD, "a")

    def test_without_a_cluster_it_stays_assumed(self):
        harness = harness_of(volume("v"), claim("data"), claim("other"))
        state = placed(harness, POD)
        assert harness.plugin.pre_bind_pre_flight(state, POD, "a") is None
        assert harness.plugin.pre_bind(state, POD, "a") is None
        assert harness.run(make_pod("q").pvc("other").obj()).feasible == []

    def test_another_node_than_the_reserved_one(self):
        harness = harness_of(volume("v"), claim("data"))
        state = placed(harness, POD)
        expected = Status.error('no pod volume found for node "b"')
        assert harness.plugin.pre_bind_pre_flight(state, POD, "b") == expected
        assert harness.plugin.pre_bind(state, POD, "b") == expected


class TestPreBind:
    def controllers(self, harness: PluginHarness) -> Callable[[int], None]:
        """Bind claims after three seconds, as the volume controllers would."""

        def react(now: int) -> None:
            if now == 3:
                harness.add(claim_bound("data", "v"), claim_bound("logs", "new", SELECTED_NODE))
                harness.add(stored(make_pv("new").obj(), 60))

        def claim_bound(name: str, volume_name: str, *annotations: str) -> PersistentVolumeClaim:
            made = make_pvc(name).bound(volume_name).annotation(dict.fromkeys(annotations, "a"))
            return stored(made.obj(), 60)

        return react

    async def bind(self, harness: PluginHarness, writer: Writer, pod: Pod = TWO) -> Status | None:
        state = placed(harness, pod)
        harness.handle.volumes = writer
        harness.handle.clock = lambda: writer.now
        return await harness.plugin.pre_bind(state, pod, "a")

    async def test_it_writes_and_waits(self):
        harness = harness_of(volume("v"), claim("data"), claim("logs", "made"))
        writer = Writer(harness, self.controllers(harness))
        assert await self.bind(harness, writer) is None
        assert writer.now == 3
        ref = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": "default",
            "name": "data",
            "uid": "persistentvolumeclaim-default-data",
            "resourceVersion": "1",
        }
        assert writer.patches == [
            ObjectPatch(
                PersistentVolume,
                "v",
                "",
                {
                    "metadata": {"resourceVersion": "1", "annotations": {BOUND_BY_CONTROLLER: "yes"}},
                    "spec": {"claimRef": ref},
                },
            ),
            ObjectPatch(
                PersistentVolumeClaim,
                "logs",
                "default",
                {"metadata": {"resourceVersion": "1", "annotations": {SELECTED_NODE: "a"}}},
            ),
        ]

    async def test_a_volume_that_names_the_claim_by_name_gets_its_uid(self):
        ref = ObjectReference(namespace="default", name="data")
        harness = harness_of(stored(make_pv("v", storage_class="static").spec(claim_ref=ref).obj(), 1), claim("data"))
        writer = Writer(harness, self.controllers(harness))
        assert await self.bind(harness, writer, POD) is None
        body = writer.patches[0].body
        assert body["spec"]["claimRef"]["uid"] == "persistentvolumeclaim-default-data"
        assert "annotations" not in body["metadata"], "its user bound it"

    async def test_time_runs_out(self):
        harness = harness_of(volume("v"), claim("data"), claim("logs", "made"))
        writer = Writer(harness)
        assert await self.bind(harness, writer) == Status.error("binding volumes: context deadline exceeded")
        assert writer.now == 5

    @pytest.mark.parametrize(
        ("refuse", "written", "free"), [("v", 0, True), ("logs", 1, False)], ids=["volume", "claim"]
    )
    async def test_what_was_refused_is_no_longer_assumed(self, refuse, written, free):
        harness = harness_of(volume("v"), claim("data"), claim("logs", "made"), claim("other"))
        writer = Writer(harness, refuse=refuse)
        with pytest.raises(RuntimeError, match="was refused"):
            await self.bind(harness, writer)
        assert len(writer.patches) == written
        assert harness.run(make_pod("q").pvc("other").obj()).feasible == (["a"] if free else [])
        assert harness.run(make_pod("q").pvc("logs").obj()).feasible == ["a", "b"]

    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            (lambda w: setattr(w, "there", False), 'pod does not exist any more: pod "p" not found'),
            (lambda w: w.harness.table.remove_node("a"), 'failed to get node "a": node "a" not found'),
            (
                lambda w: w.harness.handle.objects.remove(make_pv("v").obj()),
                'failed to check binding: persistentvolumes "v" not found',
            ),
            (
                lambda w: w.harness.handle.objects.remove(make_pvc("data").obj()),
                'failed to check binding: persistentvolumeclaims "default/data" not found',
            ),
            (lambda w: w.harness.add(volume("v", version=70)), 'ClaimRef got reset for pv "v"'),
            (
                lambda w: w.harness.add(make_node("a").zone("elsewhere").obj()),
                'pv "v" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            ),
        ],
    )
    async def test_binding_that_cannot_succeed(self, change, reason):
        harness = harness_of(volume("v"), claim("data"))
        writer = Writer(harness)
        writer.react = lambda now: change(writer) if now == 2 else None
        assert await self.bind(harness, writer, POD) == Status.error(f"binding volumes: {reason}")
        assert writer.now == 2

    @pytest.mark.parametrize(
        ("changed", "reason"),
        [
            (make_pvc("data").annotation(x="y"), 'provisioning failed for PVC "data"'),
            (make_pvc("data").selected_node("b"), 'provisioning failed for PVC "data"'),
            (make_pvc("data"), 'selectedNode annotation reset for PVC "data"'),
            (
                make_pvc("data").selected_node("a").bound("elsewhere"),
                'pv "elsewhere" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            ),
        ],
    )
    async def test_making_that_failed(self, changed, reason):
        harness = harness_of(claim("data", "made"), volume("elsewhere", "b"))
        writer = Writer(harness, lambda now: harness.add(stored(changed.obj(), 70)))
        assert await self.bind(harness, writer, POD) == Status.error(f"binding volumes: {reason}")

    async def test_a_claim_that_is_deleted_while_its_volume_is_made(self):
        harness = harness_of(claim("data", "made"))
        writer = Writer(harness, lambda now: harness.handle.objects.remove(make_pvc("data").obj()))
        reason = 'failed to check provisioning pvc: persistentvolumeclaims "default/data" not found'
        assert await self.bind(harness, writer, POD) == Status.error(f"binding volumes: {reason}")

    async def test_a_volume_that_is_not_known_yet_is_waited_for(self):
        harness = harness_of(claim("data", "made"))
        made = stored(make_pvc("data").selected_node("a").bound("new").obj(), 70)

        def react(now: int) -> None:
            harness.add(made if now == 1 else stored(make_pv("new").obj(), 80))

        writer = Writer(harness, react)
        assert await self.bind(harness, writer, POD) is None
        assert writer.now == 2

    async def test_news_older_than_what_was_written_is_ignored(self):
        harness = harness_of(volume("v"), claim("data"))

        def react(now: int) -> None:
            if now == 1:
                harness.add(volume("v", version=40))  # without a claim, but older than our write
            else:
                harness.add(stored(make_pv("v").claimed(claim("data")).obj(), 60))
                harness.add(stored(make_pvc("data").bound("v").obj(), 60))

        writer = Writer(harness, react)
        assert await self.bind(harness, writer, POD) is None
        assert writer.now == 2
