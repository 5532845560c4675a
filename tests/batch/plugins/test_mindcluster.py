"""deviceshare: NPUs of MindCluster are assigned in sessions, and returned when a gang is rolled back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.batch.cases import Object, conf, decide, gang, node, opened
from tests.batch.test_mindcluster_npus import npu_node

CORES = "huawei.com/npu-core"


def text(actions: str = "enqueue, allocate", weight: int = 10) -> str:
    given = f"{{deviceshare.AscendMindClusterVNPUEnable: true, deviceshare.ScheduleWeight: {weight}}}"
    return conf(("priority", "gang"), ("predicates", "deviceshare"), actions=actions, deviceshare=given)


def named(name: str, chips: int = 2) -> Object:
    made = npu_node(chips)
    made["metadata"].update(name=name, uid=f"uid-{name}")
    made["metadata"]["labels"]["kubernetes.io/hostname"] = name
    return made


def reports(*nodes: str) -> Object:
    name = "cluster-info-device-0"
    lists = {"huawei.com/Ascend310P": "", "huawei.com/Ascend310P-Unhealthy": ""}
    data = {f"mindx-dl-deviceinfo-{each}": {"DeviceList": lists, "UpdateTime": 5} for each in nodes}
    labels = {"mx-consumer-volcano": "true"}
    head = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "mindx-dl", "labels": labels},
    }
    return {**head, "data": {name: json.dumps(data)}}


def npus(objects: list[Object], cores: int, on: str = "", node: str = "", **labels: str) -> list[Object]:
    for each in objects[1:]:
        each["metadata"]["labels"] = {"ring-controller.atlas": "ascend-310P", **labels}
        amounts = {CORES: str(cores)}
        resources = each["spec"]["containers"][0]["resources"]
        resources["limits"] = amounts
        resources["requests"].update(amounts)
        if on:
            each["metadata"]["annotations"].update({CORES: on, "huawei.com/AscendReal": "x"})
            each["spec"]["nodeName"] = node
            each["status"]["phase"] = "Running"
    return objects


def given(answer: dict[str, Any]) -> dict[str, str]:
    return {name.partition("/")[2]: each[CORES] for name, each in answer.get("annotations", {}).items()}


def test_pods_get_npus() -> None:
    answer = decide(text(), named("a"), reports("a"), npus(gang("g", 3), 4))
    assert given(answer) == {"g-task-0": "0-vir04_3c", "g-task-1": "0-vir04_3c", "g-task-2": "1-vir04_3c"}


def test_a_gang_that_does_not_fit_returns_its_npus() -> None:
    answer = decide(text(), named("a"), reports("a"), npus(gang("g", 3), 8), npus(gang("h", 2), 8))
    assert given(answer) == {"h-task-0": "0", "h-task-1": "1"}


def test_cores_of_different_npus_do_not_add_up() -> None:
    """Two cores are free on each NPU: another node is used, although this one has fewer idle cores."""
    busy = [npus(gang(f"r{number}", 1), 4, on=f"{number // 2}-vir04_3c", node="a") for number in range(3)]
    answer = decide(text(), named("a"), named("b"), reports("a", "b"), *busy, npus(gang("g", 2), 4))
    assert answer["bound"] == {"default/g-task-0": "a", "default/g-task-1": "b"}


@pytest.mark.parametrize("busiest", list("abcde"))
def test_the_node_with_the_fewest_idle_cores_is_preferred(busiest: str) -> None:
    """As in Volcano also by pods that request no NPUs."""
    busy = npus(gang("r", 1), 2, on="0-vir02_1c", node=busiest)
    nodes = [named(name) for name in "abcde"]
    answer = decide(text(), node("z"), *nodes, reports(*"abcde"), busy, npus(gang("g", 1), 2))
    assert answer["bound"] == {"default/g-task-0": busiest}
    answer = decide(text(), node("z"), *nodes, reports(*"abcde"), busy, gang("g", 1))
    assert answer["bound"] == {"default/g-task-0": busiest}


def test_a_node_on_which_pods_get_fewer_cpus_is_not_preferred() -> None:
    busy = npus(gang("r", 1), 4, on="0-vir04_3c", node="a", **{"vnpu-level": "high"})
    wanted = npus(gang("g", 1), 4, **{"vnpu-level": "high"})
    crowded = npus(gang("s", 1), 1, on="0-vir01", node="a")
    for each in crowded[1:]:
        each["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    answer = decide(text(), named("a", 1), named("b", 2), reports("a", "b"), busy, crowded, wanted)
    assert answer["bound"] == {"default/g-task-0": "b"}
    assert given(answer) == {"g-task-0": "0-vir04"}


def test_without_the_label_a_gang_is_held() -> None:
    made = npus(gang("g", 1), 2)
    del made[1]["metadata"]["labels"]["ring-controller.atlas"]
    _, session, _ = opened(text(), named("a"), made)
    assert "needs the label ring-controller.atlas: ascend-310P" in session.jobs["default/g"].held


def test_evictions_do_not_help_a_pod_that_lacks_idle_cores() -> None:
    busy = npus(gang("r", 2), 8, on="0", node="a")
    busy[2]["metadata"]["annotations"][CORES] = "1"
    wanted = npus(gang("g", 1), 8)
    for each in wanted[1:]:
        each["spec"]["priority"] = 100
    answer = decide(text("enqueue, allocate, preempt"), named("a"), reports("a"), busy, wanted)
    assert answer["evicted"] == []
