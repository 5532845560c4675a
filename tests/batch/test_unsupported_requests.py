"""Gangs that request what sessions cannot fulfil are held and say so; nothing is ignored silently."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.batch.actions import ACTIONS
from mooring.batch.run import close_session, run_actions
from mooring.batch.session import Session
from tests.batch.cases import Object, conf, gang, group, hyper_node, node, opened, pod

HARD = {"mode": "hard", "highestTierAllowed": 1}
PARTITION: dict[str, Any] = {"name": "worker", "subGroupSize": 2, "minSubGroups": 1, "matchLabelKeys": ["part"]}
UNKNOWN_TIER = {"mode": "hard", "highestTierName": "rack"}


def changed(objects: list[Object], **metadata: Any) -> list[Object]:
    """The same objects, with metadata on the pods."""
    for each in objects:
        if each["kind"] == "Pod":
            each["metadata"]["annotations"].update(metadata)
    return objects


def requesting(name: str) -> list[Object]:
    made = gang("g", 2)
    for each in made[1:]:
        each["spec"]["containers"][0]["resources"]["limits"] = {name: "1"}
        each["spec"]["containers"][0]["resources"]["requests"][name] = "1"
    return made


CASES: dict[str, tuple[list[Object], str]] = {
    "hard topology": (gang("g", 2, networkTopology=HARD), "spec.networkTopology has the mode hard"),
    "hard topology before the pods exist": ([group("g", 2, networkTopology=HARD)], "spec.networkTopology"),
    "hard topology of a part": (
        gang("g", 2, subGroupPolicy=[{**PARTITION, "networkTopology": HARD}]),
        'networkTopology of spec.subGroupPolicy "worker" (partitionPolicy of a job) has the mode hard, which needs',
    ),
    "vGPU": (requesting("volcano.sh/vgpu-number"), "pod g-task-0: the resource volcano.sh/vgpu-number needs"),
    "GPU memory": (requesting("volcano.sh/gpu-memory"), "pod g-task-0: the resource volcano.sh/gpu-memory needs"),
    "vGPU annotation": (
        changed(gang("g", 2), **{"volcano.sh/vgpu-mode": "mig"}),
        "the annotation volcano.sh/vgpu-mode needs the plugin deviceshare",
    ),
    "NPU memory": (
        requesting("huawei.com/Ascend310P-memory"),
        "huawei.com/Ascend310P-memory needs the plugin deviceshare with the argument deviceshare.AscendHAMiVNPUEnable",
    ),
    "NPU cores": (
        requesting("huawei.com/npu-core"),
        "huawei.com/npu-core needs the plugin deviceshare with the argument deviceshare.AscendMindClusterVNPUEnable",
    ),
    "native group": (
        [group("g", 1), pod("g-task-0", "g", schedulingGroup={"podGroupName": "native"})],
        "pod g-task-0: spec.schedulingGroup is set",
    ),
}


def run(objects: list[Object], actions: str = "enqueue, allocate, backfill", **arguments: Any) -> tuple[Session, Any]:
    devices = {"volcano.sh/vgpu-number": "8", "volcano.sh/gpu-memory": "8"}
    given = conf(("gang", "usage"), ("predicates",), actions=actions, **arguments)
    _, session, plugins = opened(given, node("a", **devices), node("b", **devices), objects)
    run_actions(session, ACTIONS)
    return session, close_session(session, [(plugin, None) for plugin in plugins])


@pytest.mark.parametrize("actions", ["enqueue, allocate, backfill", "allocate, preempt, reclaim, backfill"])
@pytest.mark.parametrize("name", CASES)
def test_a_gang_that_asks_for_more_than_sessions_can_do_is_held(name: str, actions: str) -> None:
    objects, text = CASES[name]
    session, outcome = run(objects, actions)
    assert session.bindings == []
    status = outcome.groups["default/g"]
    assert status.phase == "Pending"
    (condition,) = status.conditions
    assert (condition.type, condition.status, condition.reason) == ("Unschedulable", "True", "NotSupported")
    assert text in condition.message
    assert all(note.reason.message == condition.message for note in outcome.pods)


@pytest.mark.parametrize(
    ("topology", "hyper_nodes", "text"),
    [
        (UNKNOWN_TIER, [], 'has highestTierName "rack", which no HyperNode has as its tierName'),
        ({"mode": "hard"}, [], "has the mode hard, but neither highestTierAllowed nor highestTierName"),
        (HARD, [hyper_node("a", 1, within=["b"]), hyper_node("b", 2, within=["a"])], "is a member of itself"),
    ],
)
def test_a_topology_that_cannot_be_found_is_reported(topology: Any, hyper_nodes: list[Object], text: str) -> None:
    given = conf(("gang", "network-topology-aware"), ("predicates",))
    _, session, _ = opened(given, node("a"), hyper_nodes, gang("g", 1, networkTopology=topology))
    assert text in session.jobs["default/g"].held


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        (requesting("volcano.sh/vgpu-number"), ""),
        (requesting("huawei.com/Ascend310P"), ""),
        (requesting("huawei.com/Ascend310P-memory"), ""),
        (requesting("huawei.com/Ascend910A-memory"), "Ascend910A-memory is not the memory of a type of NPU in the"),
        (requesting("huawei.com/Ascend910A"), ""),
        (requesting("volcano.sh/vgpu-memory-percentage"), "is not a resource of vGPUs in the ConfigMap volcano-vgpu-"),
        (requesting("volcano.sh/gpu-number"), "needs the plugin deviceshare with the argument deviceshare.GPUNumber"),
        (changed(requesting("volcano.sh/vgpu-number"), **{"nvidia.com/use-gpuuuid": "x"}), "nvidia.com/use-gpuuuid is"),
        (changed(requesting("huawei.com/Ascend310P"), **{"hami.io/no-use-Ascend310P-uuid": "x"}), "by their uuid"),
        (changed(gang("g", 1), **{"nvidia.com/use-gpuuuid": "x"}), ""),
    ],
)
def test_devices_that_the_plugin_does_not_assign(objects: list[Object], text: str) -> None:
    arguments = "{deviceshare.VGPUEnable: true, deviceshare.AscendHAMiVNPUEnable: true}"
    given = conf(("gang",), ("predicates", "deviceshare"), deviceshare=arguments)
    _, session, _ = opened(given, node("a"), objects)
    held = session.jobs["default/g"].held
    assert text in held
    assert bool(held) is bool(text)


def test_what_is_only_preferred_is_reported_and_not_held() -> None:
    session, _ = run(gang("g", 2, networkTopology={"mode": "soft"}))
    assert len(session.bindings) == 2
    session, _ = run(gang("g", 2, cpu="9", networkTopology={"mode": "soft"}))
    assert ("default/g", "NotSupported") in [(job.uid, reason) for job, reason, _ in session.job_warnings]


def test_usage_without_measurements_is_reported() -> None:
    session, _ = run(gang("g", 2))
    assert [(job.uid, reason) for job, reason, _ in session.job_warnings] == [("default/g", "NoMeasurements")]
    assert any("plugin usage has no current measurements" in each for each in session.warnings)
    assert len(session.bindings) == 2


def test_a_group_whose_queue_does_not_exist_is_reported() -> None:
    session, _ = run([*gang("g", 1, queue="nowhere"), *gang("ok", 1)])
    assert [(each.item.name, each.message, each.reason) for each in session.invalid] == [
        ("g", 'queue "nowhere" does not exist', "QueueNotFound")
    ]
    assert [task.name for task in session.bindings] == ["ok-task-0"]


@pytest.mark.parametrize(("policy", "plugin", "reported"), [
    ("restricted", "drf", True),
    ("restricted", "numa-aware", False),
    ("none", "drf", False),
])  # fmt: skip
def test_a_numa_policy_without_the_plugin_is_reported(policy: str, plugin: str, reported: bool) -> None:
    objects = gang("g", 1)
    made = objects[1]
    made["metadata"]["annotations"]["volcano.sh/numa-topology-policy"] = policy
    made["spec"]["containers"][0]["resources"] = {key: {"cpu": "9", "memory": "1Gi"} for key in ("requests", "limits")}
    _, session, plugins = opened(conf(("gang",), ("predicates", plugin)), node("a"), objects)
    close_session(session, [(each, None) for each in plugins])
    found = [text for _, reason, text in session.job_warnings if reason == "NotSupported"]
    assert [text for text in found if "needs the plugin numa-aware" in text] == found
    assert bool(found) == reported


@pytest.mark.parametrize(
    ("gates", "reported"),
    [
        (["scheduling.volcano.sh/queue-allocation-gate"], True),
        (["scheduling.volcano.sh/queue-allocation-gate", "mine"], False),  # as long as others wait too
        (["mine"], False),
        ([], False),
    ],
)
def test_a_queue_gate_that_nobody_removes_is_reported(gates: list[str], reported: bool) -> None:
    gated = pod("g-task-0", "g", schedulingGates=[{"name": name} for name in gates])
    session, _ = run([group("g", 1), gated])
    texts = [text for _, reason, text in session.job_warnings if reason == "NotSupported"]
    assert any("SchedulingGatesQueueAdmission is off" in text for text in texts) is reported
