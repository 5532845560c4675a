"""Updates are told apart as kube-scheduler tells them apart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from mooring.api.affinity import Taint
from mooring.api.node import Node
from mooring.api.pod import ExtendedResourceClaimStatus, Pod, PodResourceClaimStatus, PodStatus, ResourceRequirements
from mooring.framework.events import ActionType
from mooring.scheduler.queue.queueing_hints import event_label, node_update_actions, pod_update_actions
from mooring.testing import make_node, make_pod
from mooring.testing.builders import NodeBuilder
from mooring.testing.pod_builder import PodBuilder

A = ActionType
PodChange = Callable[[PodBuilder], PodBuilder]
NodeChange = Callable[[NodeBuilder], NodeBuilder]

POD = make_pod("p").req(cpu="2", memory="1Gi").label(app="a").gate("wait").toleration("t")


def changed(obj: Any, **fields: Any) -> Any:
    return msgspec.structs.replace(obj, **fields)


def with_status(pod: Pod, **fields: Any) -> Pod:
    return changed(pod, status=changed(pod.status, **fields))


def with_spec(pod: Pod, **fields: Any) -> Pod:
    return changed(pod, spec=changed(pod.spec, **fields))


BASE = POD.obj()
CLAIM = (PodResourceClaimStatus(name="c", resource_claim_name="x"),)
CLAIMED = with_status(BASE, resource_claim_statuses=CLAIM)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(BASE, BASE, [A.UPDATE], id="nothing"),
        pytest.param(BASE, POD.annotation(x="y").obj(), [A.UPDATE], id="annotation"),
        pytest.param(BASE, POD.phase("Running").obj(), [A.UPDATE], id="phase"),
        pytest.param(BASE, POD.label(app="b").obj(), [A.UPDATE_POD_LABEL], id="label"),
        pytest.param(
            BASE, make_pod("p").req(cpu="2").label(app="a").gate("wait").toleration("t").obj(),
            [A.UPDATE_POD_SCALE_DOWN], id="request removed",
        ),
        pytest.param(
            make_pod("p").req(cpu="2").obj(), make_pod("p").req(cpu="1999m").obj(), [A.UPDATE_POD_SCALE_DOWN], id="less"
        ),
        pytest.param(make_pod("p").req(cpu="2").obj(), make_pod("p").req(cpu="3").obj(), [A.UPDATE], id="more"),
        pytest.param(
            make_pod("p").req(cpu="2", memory="1Gi").obj(), make_pod("p").req(cpu="3", memory="1Mi").obj(),
            [A.UPDATE_POD_SCALE_DOWN], id="more and less",
        ),
        pytest.param(
            make_pod("p").req(cpu="1").given("c1", actual={"cpu": "3"}).obj(),
            make_pod("p").req(cpu="1").given("c1", actual={"cpu": "2"}).obj(),
            [A.UPDATE_POD_SCALE_DOWN], id="node gave less",
        ),
        pytest.param(
            make_pod("p").req(cpu="1").given("c1", actual={"cpu": "3"}).obj(),
            make_pod("p").req(cpu="2").given("c1", actual={"cpu": "3"}).obj(),
            [A.UPDATE], id="node still gives more than asked for",
        ),
        pytest.param(
            BASE, with_spec(BASE, scheduling_gates=()), [A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED], id="last gate"
        ),
        pytest.param(POD.gate("more").obj(), BASE, [A.UPDATE], id="not the last gate"),
        pytest.param(make_pod("p").obj(), make_pod("p").gate("g").obj(), [A.UPDATE], id="gate added"),
        pytest.param(BASE, POD.toleration("u").obj(), [A.UPDATE_POD_TOLERATION], id="toleration"),
        pytest.param(
            BASE, with_spec(BASE, tolerations=make_pod("q").toleration("z").obj().spec.tolerations),
            [A.UPDATE], id="another toleration: cannot happen",
        ),
        pytest.param(BASE, CLAIMED, [A.UPDATE_POD_GENERATED_RESOURCE_CLAIM], id="claim"),
        pytest.param(CLAIMED, CLAIMED, [A.UPDATE], id="same claim"),
        pytest.param(
            BASE,
            with_status(BASE, extended_resource_claim_status=ExtendedResourceClaimStatus(resource_claim_name="x")),
            [A.UPDATE_POD_GENERATED_RESOURCE_CLAIM], id="claim for extended resources",
        ),
        pytest.param(
            BASE,
            with_spec(
                with_status(POD.label(app="b").toleration("u").obj(), resource_claim_statuses=CLAIM),
                containers=(), scheduling_gates=(),
            ),
            [
                A.UPDATE_POD_LABEL,
                A.UPDATE_POD_SCALE_DOWN,
                A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
                A.UPDATE_POD_TOLERATION,
                A.UPDATE_POD_GENERATED_RESOURCE_CLAIM,
            ],
            id="everything, in order",
        ),
    ],
)  # fmt: skip
def test_pod_update_actions(old: Pod, new: Pod, expected: list[ActionType]) -> None:
    assert list(pod_update_actions(old, new)) == expected


def test_a_smaller_pod_level_request_is_a_scale_down() -> None:
    old, new = (
        with_spec(BASE, resources=ResourceRequirements(requests={"cpu": amount, "memory": "1Gi"})) for amount in "21"
    )
    assert list(pod_update_actions(old, new)) == [A.UPDATE_POD_SCALE_DOWN]


NODE = make_node("n").capacity(cpu="4", memory="1Gi").label(zone="a").taint("t").condition("Ready", "True")


def offering(**amounts: str) -> Node:
    return node_with(allocatable={"pods": "110", "cpu": "4", "memory": "1Gi", **amounts})


def node_with(**fields: Any) -> Node:
    node = NODE.obj()
    return changed(node, status=changed(node.status, **fields))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(NODE.obj(), NODE.obj(), [], id="nothing"),
        pytest.param(NODE.obj(), NODE.image("i", size=1).obj(), [], id="images"),
        pytest.param(NODE.obj(), node_with(capacity={"cpu": "64"}), [], id="capacity"),
        pytest.param(NODE.unschedulable().obj(), NODE.obj(), [A.UPDATE_NODE_TAINT], id="uncordoned"),
        pytest.param(NODE.obj(), NODE.unschedulable().obj(), [], id="cordoned"),
        pytest.param(NODE.obj(), offering(cpu="5"), [A.UPDATE_NODE_ALLOCATABLE], id="allocatable"),
        pytest.param(NODE.obj(), offering(cpu="3"), [A.UPDATE_NODE_ALLOCATABLE], id="less allocatable"),
        pytest.param(NODE.obj(), offering(cpu="4000m", memory="1024Mi"), [], id="same amount"),
        pytest.param(NODE.obj(), offering(**{"x.com/y": "1"}), [A.UPDATE_NODE_ALLOCATABLE], id="resource"),
        pytest.param(NODE.obj(), NODE.label(zone="b").obj(), [A.UPDATE_NODE_LABEL], id="label"),
        pytest.param(NODE.obj(), NODE.taint("u").obj(), [A.UPDATE_NODE_TAINT], id="taint"),
        pytest.param(
            NODE.obj(), NODE.condition("DiskPressure", "True").obj(), [A.UPDATE_NODE_CONDITION], id="condition"
        ),
        pytest.param(
            NODE.obj(), make_node("n").capacity(cpu="4", memory="1Gi").label(zone="a").taint("t")
            .condition("Ready", "True", "other reason").obj(), [], id="same condition, other reason",
        ),
        pytest.param(NODE.obj(), NODE.annotation(x="y").obj(), [A.UPDATE_NODE_ANNOTATION], id="annotation"),
        pytest.param(NODE.obj(), NODE.features("F").obj(), [A.UPDATE_NODE_DECLARED_FEATURE], id="feature"),
        pytest.param(
            NODE.unschedulable().obj(),
            NODE.allocatable(cpu="5").label(zone="b").taint("u").condition("X", "True").annotation(x="y").features("F")
            .obj(),
            [
                A.UPDATE_NODE_TAINT,
                A.UPDATE_NODE_ALLOCATABLE,
                A.UPDATE_NODE_LABEL,
                A.UPDATE_NODE_TAINT,
                A.UPDATE_NODE_CONDITION,
                A.UPDATE_NODE_ANNOTATION,
                A.UPDATE_NODE_DECLARED_FEATURE,
            ],
            id="everything, in order",
        ),
    ],
)  # fmt: skip
def test_node_update_actions(old: Node, new: Node, expected: list[ActionType]) -> None:
    assert list(node_update_actions(old, new)) == expected


def test_a_taint_is_compared_with_its_time() -> None:
    taints = [(Taint(key="t", effect="NoExecute", time_added=time),) for time in ("2026-01-01T00:00:00Z", None)]
    old, new = (changed(NODE.obj(), spec=changed(NODE.obj().spec, taints=each)) for each in taints)
    assert list(node_update_actions(old, new)) == [A.UPDATE_NODE_TAINT]


@pytest.mark.parametrize(
    ("resource", "action", "label"),
    [
        ("Node", A.ADD, "NodeAdd"),
        ("Node", A.UPDATE_NODE_DECLARED_FEATURE, "NodeUpdateNodeDeclaredFeature"),
        ("AssignedPod", A.DELETE, "AssignedPodDelete"),
        ("UnschedulablePod", A.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
         "UnschedulablePodUpdatePodSchedulingGatesEliminated"),
        ("PersistentVolumeClaim", A.UPDATE, "PersistentVolumeClaimUpdate"),
        ("CSINode", A.ADD, "storage.k8s.io/CSINodeAdd"),
        ("ResourceClaim", A.UPDATE, "resource.k8s.io/ResourceClaimUpdate"),
        ("foos.v1.example.com", A.ADD, "foos.v1.example.comAdd"),
        ("*", A.ALL, "*All"),
        ("Node", A.ADD | A.DELETE, "Node"),
    ],
)  # fmt: skip
def test_event_label(resource: str, action: ActionType, label: str) -> None:
    assert event_label(resource, action) == label


def test_an_empty_status_is_no_change() -> None:
    assert list(pod_update_actions(BASE, changed(BASE, status=PodStatus(phase="Pending")))) == [A.UPDATE]
