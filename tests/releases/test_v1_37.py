"""What 1.37 changed: each test shows both releases. `tests/golden` compares with kube-scheduler itself."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import mooring
from mooring.api.meta import KubeObject
from mooring.api.pod import Pod, PodStatus
from mooring.api.resources import RequestRules, pod_requests, pod_requests_nonzero
from mooring.api.volumes import AWSElasticBlockStore, Volume
from mooring.columns.table import NodeTable
from mooring.config import default_config
from mooring.framework import ActionType, ClusterEvent, CycleState, Hint
from mooring.framework.preemption import Budgets
from mooring.observe.scheduler_metrics import SchedulerMetrics
from mooring.plugins.image_locality import ImageLocality
from mooring.plugins.inter_pod_affinity import InterPodAffinity
from mooring.plugins.node_name import NodeName
from mooring.plugins.node_volume_limits.plugin import NodeVolumeLimits
from mooring.plugins.volume_binding import VolumeBinding
from mooring.releases import RELEASES, V1_36, V1_37, Release, with_gates
from mooring.scheduler.attempt_results import ScheduleFailure
from mooring.scheduler.engine import Engine
from mooring.scheduler.queue import SchedulingQueue
from mooring.scheduler.schedule_pod import schedule_pod
from mooring.testing import (
    PluginHarness,
    check_what_if,
    make_csi_capacity,
    make_csi_driver,
    make_csi_node,
    make_namespace,
    make_node,
    make_pdb,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
    selector,
)

BOTH = pytest.mark.parametrize("release", RELEASES, ids=lambda release: release.version)
SOURCES = Path(mooring.__file__).parent


def attempt(release: Release, pod: Pod, *objects: KubeObject) -> ScheduleFailure:
    """Try a pod that fits on no node."""
    engine = Engine(default_config(release))
    for item in objects:
        engine.put(item)
    found = schedule_pod(engine.profiles.first, pod)
    assert isinstance(found, ScheduleFailure)
    return found


def test_every_difference_has_an_effect() -> None:
    texts = [file.read_text() for file in SOURCES.rglob("*.py") if file.parent.name != "releases"]
    fields = set(Release.__struct_fields__) - {"version", "reference", "gates", "stages", "gate_changes"}
    unused = {field for field in fields if not any(re.search(rf"release\.{field}\b", text) for text in texts)}
    assert unused == set()


# Scores by storage capacity

GI = 1 << 30
CLASS = make_storage_class("made", provisioner="d.csi").obj()
DRIVER = make_csi_driver("d.csi", storage_capacity=True).obj()
NODES = [make_node("a").label(zone="a").obj(), make_node("b").label(zone="b").obj()]
CAPACITIES = [
    make_csi_capacity(name, storage_class="made", capacity=size, topology={"zone": name}).obj()
    for name, size in (("a", "10Gi"), ("b", "4Gi"))
]


def capacity_run(release: Release, pod: Pod, *objects: Any, args: Any = None) -> Any:
    harness = PluginHarness(
        VolumeBinding, args=args, nodes=NODES, objects=[CLASS, DRIVER, *CAPACITIES, *objects], release=release
    )
    return harness.run(pod)


@pytest.mark.parametrize(
    ("release", "scores"),
    [
        (V1_36, {}),
        (V1_37, {"a": 80, "b": 50}),
        (with_gates(V1_36, {"StorageCapacityScoring": True})[0], {"a": 80, "b": 50}),
        (with_gates(V1_37, {"StorageCapacityScoring": False})[0], {}),
    ],
    ids=["1.36", "1.37", "1.36 with the gate", "1.37 without the gate"],
)
def test_claims_to_provision_are_scored_by_free_capacity(release: Release, scores: dict[str, int]) -> None:
    pod = make_pod("p").pvc("data").obj()
    found = capacity_run(release, pod, make_pvc("data", storage_class="made", size="2Gi").obj())
    assert {name: score for name, score in found.scores.items() if score is not None} == scores


def test_pods_without_claims_score_zero_and_bound_claims_do_not_count() -> None:
    assert capacity_run(V1_37, make_pod("p").obj()).scores == {"a": 0, "b": 0}
    claim, volume = make_pvc("data").bound("pv").obj(), make_pv("pv").csi("d.csi", "h").obj()
    assert capacity_run(V1_37, make_pod("p").pvc("data").obj(), claim, volume).scores == {"a": 0, "b": 0}


def test_matched_volumes_count_instead_of_capacity_and_the_shape_can_be_configured() -> None:
    static = make_storage_class("static").obj()
    volume = make_pv("pv", storage_class="static", size="8Gi").node_affinity(("zone", "In", "a")).obj()
    claims = [make_pvc("data", storage_class="static", size="2Gi").obj()]
    pod = make_pod("p").pvc("data").obj()
    assert capacity_run(V1_37, pod, static, volume, *claims).scores == {"a": 75}
    fuller = {"shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}]}
    assert capacity_run(V1_37, pod, static, volume, *claims, args=fuller).scores == {"a": 25}


# Missing drivers

MISSING = ("d.csi CSI driver is not installed on the node",)


def optional(name: str) -> Any:
    driver = make_csi_driver(name).obj()
    return msgspec.structs.replace(
        driver, spec=msgspec.structs.replace(driver.spec, prevent_pod_scheduling_if_missing=True)
    )


def driver_harness(release: Release) -> PluginHarness:
    return PluginHarness(
        NodeVolumeLimits,
        nodes=[make_node(name).obj() for name in ("none", "other", "has")],
        objects=[
            make_csi_node("other", {"x.csi": 1}).obj(),
            make_csi_node("has", {"d.csi": 1}).obj(),
            optional("d.csi"),
            optional("ebs.csi.aws.com"),
            make_pvc("data").bound("pv").obj(),
            make_pv("pv").csi("d.csi", "h").obj(),
        ],
        release=release,
    )


@pytest.mark.parametrize(
    ("release", "rejected"),
    [
        (V1_36, {}),
        (V1_37, {"none": MISSING, "other": MISSING}),
        (with_gates(V1_37, {"VolumeLimitScaling": False})[0], {}),
        (with_gates(V1_36, {"VolumeLimitScaling": True})[0], {"none": MISSING, "other": MISSING}),
    ],
    ids=["1.36", "1.37", "1.37 without the gate", "1.36 with the gate"],
)
def test_nodes_without_a_required_driver_are_rejected(release: Release, rejected: dict[str, tuple[str, ...]]) -> None:
    assert driver_harness(release).run(make_pod("p").pvc("data").obj()).rejected == rejected


def test_a_migrated_volume_needs_its_driver_only_on_nodes_with_a_csi_node() -> None:
    pod = make_pod("p").volume(Volume(aws_elastic_block_store=AWSElasticBlockStore(volume_id="v"))).obj()
    rejected = driver_harness(V1_37).run(pod).rejected
    assert rejected == dict.fromkeys(("other", "has"), ("ebs.csi.aws.com CSI driver is not installed on the node",))


def test_preemption_does_not_install_drivers() -> None:
    harness = driver_harness(V1_37)
    harness.add(make_pod("v1").uid("v1").node("has").obj(), make_pod("v2").uid("v2").node("other").obj())
    check_what_if(harness, make_pod("p").pvc("data").obj(), {"has": ["v1"], "other": ["v2"]})


# NodeName, images, namespaces


def test_node_name_narrows_at_pre_filter() -> None:
    for release, names in ((V1_36, None), (V1_37, frozenset({"b"}))):
        harness = PluginHarness(NodeName, nodes=NODES, release=release)
        state = CycleState()
        assert harness.pre_filter(state, make_pod("p").node("b").obj())[1] == names
        assert harness.pre_filter(state, make_pod("p").obj())[1] is None


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (V1_36, "1 Insufficient cpu, 1 node(s) didn't match the requested node name"),
        (V1_37, "1 Insufficient cpu, 1 node(s) didn't satisfy plugin(s) [NodeName]"),
    ],
    ids=["1.36", "1.37"],
)
def test_the_message_about_a_named_node(release: Release, message: str) -> None:
    found = attempt(release, make_pod("p").node("b").req(cpu="1").obj(), *NODES)
    assert message in found.message


@pytest.mark.parametrize(("release", "score"), [(V1_36, 100), (V1_37, 49)], ids=["1.36", "1.37"])
def test_image_volumes_raise_the_upper_bound(release: Release, score: int) -> None:
    nodes = [make_node("a").image("big:1", size=1000 << 20).obj()]
    pod = make_pod("p").container(image="none:1").image_volume("big:1").obj()
    assert PluginHarness(ImageLocality, nodes=nodes, release=release).run(pod).scores == {"a": score}


@pytest.mark.parametrize(("release", "rejected"), [(V1_36, ["a"]), (V1_37, [])], ids=["1.36", "1.37"])
def test_a_namespace_selector_selects_only_matching_namespaces(release: Release, rejected: list[str]) -> None:
    pod = (
        make_pod("p")
        .pod_anti_affinity("zone", {"app": "w"}, namespace_selector=selector(None, ("team", "NotIn", "blue")))
        .obj()
    )
    harness = PluginHarness(
        InterPodAffinity,
        nodes=NODES,
        pods=[make_pod("w", "other").label(app="w").node("a").obj()],
        objects=[make_namespace("other").label(team="blue").obj(), make_namespace("default").obj()],
        release=release,
    )
    assert list(harness.run(pod).rejected) == rejected


# Requests of resized pods


def resized(**status: Any) -> Pod:
    pod = make_pod("p").container(req={"cpu": "1"}).container(req={"cpu": "4"}).obj()
    return msgspec.structs.replace(pod, status=msgspec.convert(status, PodStatus))


STATUSES = [
    {"name": "c1", "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "2"}}},
    {"name": "c2", "allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}},
]
INFEASIBLE = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]


@pytest.mark.parametrize(
    ("status", "maxima", "sums"),
    [
        ({}, 5000, 5000),
        ({"containerStatuses": STATUSES}, 7000, 5000),
        ({"containerStatuses": STATUSES, "conditions": INFEASIBLE}, 4000, 4000),
        # Without `resources`, 1.36 ignores the status.
        ({"containerStatuses": [{"name": "c1", "allocatedResources": {"cpu": "3"}}]}, 5000, 7000),
        ({"conditions": INFEASIBLE}, 5000, 0),
        ({"allocatedResources": {"cpu": "9"}, "resources": {"requests": {"cpu": "8"}}}, 5000, 9000),
    ],
)
def test_requests_of_resized_pods(status: dict[str, Any], maxima: int, sums: int) -> None:
    pod = resized(**status)
    assert pod_requests(pod, use_status=True).get("cpu", 0) == maxima
    assert pod_requests(pod, use_status=True, rules=RequestRules(sums=True)).get("cpu", 0) == sums
    assert pod_requests(pod, rules=RequestRules(sums=True))["cpu"] == 5000
    assert NodeTable(V1_37).template(pod).requests.get("cpu", 0) == sums
    assert NodeTable(V1_36).template(pod).requests.get("cpu", 0) == maxima


def test_defaults_are_added_to_each_sum() -> None:
    pod = make_pod("p").container(req={}).container(req={"cpu": "1"}).given("c2", allocated={"cpu": "3"}).obj()
    assert pod_requests_nonzero(pod, use_status=True, rules=RequestRules(sums=True)) == {
        "cpu": 3100,
        "memory": 400 << 20,
    }


# Preemption

FOUND = "found a potential placement for pod on node n, preempting 1 victims"


@pytest.mark.parametrize(("stops", "violating"), [(False, ["a", "b", "c"]), (True, ["a", "b"])])
def test_a_pod_uses_up_budgets_until_it_violates_one(stops: bool, violating: list[str]) -> None:
    table = NodeTable()
    labels = [{"x": "1", "y": "1"}, {"x": "1"}, {"y": "1"}]
    pods = [table.add_pod(make_pod(n).label(**each).obj(), "n") for n, each in zip("abc", labels, strict=True)]
    budgets = Budgets(
        [make_pdb("x", {"x": "1"}, allowed=0).obj(), make_pdb("y", {"y": "1"}, allowed=1).obj()],
        stops_at_violation=stops,
    )
    assert [info.name for info in budgets.split(pods)[0]] == violating


@pytest.mark.parametrize(
    ("release", "message"),
    [
        (V1_36, "0/1 nodes are available: 1 Insufficient cpu. "),
        (
            V1_37,
            f"0/1 nodes are available: 1 Insufficient cpu. preemption: {FOUND}",
        ),
    ],
    ids=["1.36", "1.37"],
)
def test_a_successful_preemption_is_reported(release: Release, message: str) -> None:
    found = attempt(
        release,
        make_pod("p").priority(5).req(cpu="1").obj(),
        make_node("n").capacity(cpu="1", pods="9").obj(),
        make_pod("v").req(cpu="1").node("n").obj(),
    )
    assert found.result.nominated_node == "n"
    assert found.message.strip() == message.strip()


# Queue


def interest(release: Release, registered: ClusterEvent, resource: str, action: ActionType) -> bool:
    queue = SchedulingQueue(clock=lambda: 0.0, hint_map={"default-scheduler": {"Fit": (registered,)}}, release=release)
    return queue._interests.of(resource, action).exists


def test_taints_no_longer_requeue_what_waits_for_new_nodes() -> None:
    registered = ClusterEvent("Node", ActionType.ADD)
    assert interest(V1_36, registered, "Node", ActionType.UPDATE_NODE_TAINT)
    assert not interest(V1_37, registered, "Node", ActionType.UPDATE_NODE_TAINT)


@pytest.mark.parametrize(
    ("registered", "own", "others"),
    [("Pod", True, True), ("AssignedPod", False, True), ("TargetPod", True, False)],
)
@BOTH
def test_registrations_for_pods(release: Release, registered: str, own: bool, others: bool) -> None:
    event = ClusterEvent(registered, ActionType.UPDATE_POD_LABEL)
    assert interest(release, event, release.own_pod_event, ActionType.UPDATE_POD_LABEL) is own
    assert interest(release, event, "AssignedPod", ActionType.UPDATE_POD_LABEL) is others


@pytest.mark.parametrize(
    ("release", "events"),
    [
        (V1_36, ["UnschedulablePodAdd", "UnschedulablePodUpdate"]),
        (V1_37, ["UnscheduledPodAdd"]),
    ],
    ids=["1.36", "1.37"],
)
def test_events_of_waiting_pods_in_metrics(release: Release, events: list[str]) -> None:
    queue = SchedulingQueue(clock=lambda: 0.0, release=release)
    pod = make_pod("p").obj()
    queue.add(pod)
    queue.delete(pod)
    queue.update(pod, make_pod("p").label(x="y").obj())
    assert sorted({event for _, event in queue.counters.incoming}) == events


@pytest.mark.parametrize(("release", "hint"), [(V1_36, Hint.SKIP), (V1_37, Hint.QUEUE)], ids=["1.36", "1.37"])
def test_a_deleted_pod_that_matched_one_anti_affinity_term_requeues(release: Release, hint: Hint) -> None:
    plugin = PluginHarness(InterPodAffinity, release=release).plugin
    waiting = make_pod("p").pod_anti_affinity("zone", {"app": "w"}).pod_anti_affinity("zone", {"app": "x"}).obj()
    event = next(each for each in plugin.events_to_register() if each.resource == "Pod")
    assert event.hint(waiting, make_pod("w").label(app="w").node("a").obj(), None) is hint


# Metrics


def test_queued_entities_are_counted() -> None:
    texts = {}
    for entities in (False, True):
        metrics = SchedulerMetrics(entities=entities)
        metrics.readings.pending = lambda: {"active": 2, "gated": 1}
        metrics.readings.incoming = lambda: {("active", "UnscheduledPodAdd"): 3}
        texts[entities] = metrics.render()[0].decode()
    assert 'scheduler_queued_entities{queue="active",type="pod"} 2.0' in texts[True]
    added = 'scheduler_queue_incoming_entities_total{event="UnscheduledPodAdd",queue="active",type="pod"} 3.0'
    assert added in texts[True]
    assert 'scheduler_pending_pods{queue="incomplete"} 0.0' in texts[True]
    assert "entities" not in texts[False]
    assert "incomplete" not in texts[False]
