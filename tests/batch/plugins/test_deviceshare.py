"""deviceshare: cards are assigned in sessions, and returned when a gang is rolled back or pods are evicted."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mooring.batch.run import run_actions
from tests.batch.cases import Object, conf, decide, gang, node, opened, running

IDS = "volcano.sh/vgpu-ids-new"


def text(actions: str = "enqueue, allocate", **more: Any) -> str:
    given = {"deviceshare.VGPUEnable": True, **{f"deviceshare.{key}": value for key, value in more.items()}}
    shown = "{" + ", ".join(f"{key}: {str(value).lower()}" for key, value in given.items()) + "}"
    return conf(("priority", "gang"), ("predicates", "deviceshare"), actions=actions, deviceshare=shown)


def gpu_node(name: str, cards: int = 1, memory: int = 16000) -> Object:
    offered = {"vgpu-number": 10 * cards, "vgpu-memory": memory * cards, "vgpu-cores": 100 * cards}
    amounts: dict[str, Any] = {f"volcano.sh/{key}": str(amount) for key, amount in offered.items()}
    made = node(name, "32", **amounts)
    register = "".join(f"GPU-{name}-{card},4,{memory},NVIDIA-A100,true,hami-core:" for card in range(cards))
    made["metadata"]["annotations"] = {"volcano.sh/node-vgpu-register": register}
    return made


def shares(objects: list[Object], memory: int, ids: str = "") -> list[Object]:
    for each in objects[1:]:
        amounts = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(memory)}
        resources = each["spec"]["containers"][0]["resources"]
        resources["limits"] = amounts
        resources["requests"].update(amounts)
        if ids:
            each["metadata"]["annotations"][IDS] = ids
    return objects


def test_pods_get_cards() -> None:
    answer = decide(text(), gpu_node("a", 2), shares(gang("g", 4), 6000))
    given = [each[IDS].split(",")[0] for each in answer["annotations"].values()]
    assert sorted(given) == ["GPU-a-0", "GPU-a-0", "GPU-a-1", "GPU-a-1"]
    assert {each["volcano.sh/vgpu-node"] for each in answer["annotations"].values()} == {"a"}


def test_memory_of_different_cards_does_not_add_up() -> None:
    answer = decide(text(), gpu_node("a", 2), shares(gang("g", 2), 9000), shares(gang("h", 1), 9000))
    assert sorted(answer["bound"]) == ["default/g-task-0", "default/g-task-1"], "14000 are free, 7000 on each card"


def test_a_gang_that_does_not_fit_returns_its_cards() -> None:
    answer = decide(text(), gpu_node("a", 2), shares(gang("g", 3), 9000), shares(gang("h", 2), 9000))
    assert sorted(answer["bound"]) == ["default/h-task-0", "default/h-task-1"]
    assert sorted(answer["annotations"]) == ["default/h-task-0", "default/h-task-1"]


@pytest.mark.parametrize(("policy", "place"), [("binpack", "b"), ("spread", None)])
def test_the_policy_scores_nodes(policy: str, place: str | None) -> None:
    old = shares(running("old", ["b"]), 4000, "GPU-b-0,NVIDIA,4000,0:")
    given = text(SchedulePolicy=policy, ScheduleWeight=10)
    answer = decide(given, gpu_node("a"), gpu_node("b"), old, shares(gang("g", 1), 1000))
    (found,) = answer["bound"].values()
    assert place in (None, found)


def test_evicted_pods_free_their_cards() -> None:
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    old = shares(running("old", ["a", "a"]), 8000)
    for number, each in enumerate(old[1:]):
        each["metadata"]["annotations"][IDS] = f"GPU-a-{number},NVIDIA,16000,0:"
    new = shares(gang("new", 1, priorityClassName="high"), 16000)
    answer = decide(text("enqueue, allocate, gangpreempt"), gpu_node("a", 2), high, old, new)
    assert len(answer["evicted"]) >= 1
    assert list(answer["pipelined"]) == ["default/new-task-0"]


def test_sessions_without_such_requests_register_nothing() -> None:
    _, session, _ = opened(text(), gpu_node("a"), gang("g", 2))
    assert [name for name, _ in session.named("predicate")] == ["predicates"]
    run_actions(session)
    assert len(session.bindings) == 2


@pytest.mark.parametrize("more", [{"GPUNumberEnable": True}, {"VGPUEnable": False}])
def test_gangs_are_held_without_exactly_this_way_to_share(more: dict[str, Any]) -> None:
    _, session, _ = opened(text(**more), gpu_node("a"), shares(gang("g", 1), 1000))
    assert "deviceshare.VGPUEnable: true" in session.jobs["default/g"].held


def test_supported_arguments_give_no_warnings() -> None:
    given = text(NodeLockEnable=True, KnownGeometriesCMName="c", AscendMindClusterVNPUEnable=True)
    _, session, _ = opened(given, gpu_node("a"))
    assert session.warnings == []


def test_exclusive_rules_keep_pods_apart() -> None:
    given = shares(gang("g", 2), 1000)
    for each in given[1:]:
        each["metadata"]["labels"] = {"app": "a"}
    rules = "[{app: a}]"
    answer = decide(text(GPUExclusiveRules=rules), gpu_node("a", 2), given)
    assert sorted(each[IDS].split(",")[0] for each in answer["annotations"].values()) == ["GPU-a-0", "GPU-a-1"]
    assert decide(text(GPUExclusiveRules=rules), gpu_node("a", 1), given)["bound"] == {}


# Locks


@pytest.mark.parametrize(
    ("lock", "count"), [(None, 1), ("2020-01-01T00:00:00Z", 1), ("2199-01-01T00:00:00Z", 0), ("yesterday", 0)]
)
def test_a_locked_node_takes_one_pod_at_a_time(lock: str | None, count: int) -> None:
    made = gpu_node("a", 2)
    if lock is not None:
        made["metadata"]["annotations"]["hamivgpu"] = lock
    answer = decide(text(NodeLockEnable=True), made, *(shares(gang(name, 1), 1000) for name in "gh"))
    assert len(answer["bound"]) == count
    assert answer.get("locks", []) == ["a hamivgpu"] * count


def test_a_gang_that_is_rolled_back_leaves_no_lock() -> None:
    answer = decide(text(NodeLockEnable=True), gpu_node("a", 2), shares(gang("g", 2), 1000), shares(gang("h", 1), 1000))
    assert list(answer["bound"]) == ["default/h-task-0"]
    assert answer["locks"] == ["a hamivgpu"]


# NPUs

NPU, NPU_MEMORY = "huawei.com/Ascend310P", "huawei.com/Ascend310P-memory"
NPU_IDS = "hami.io/Ascend310P-devices-allocated"


def npu_text(**more: Any) -> str:
    return text(VGPUEnable=False, AscendHAMiVNPUEnable=True, **more)


def npu_node(name: str, count: int = 1, word: str = "Ascend310P") -> Object:
    made = node(name, "32", **{f"huawei.com/{word}": str(4 * count)})
    registered = [{"id": f"{name}-{each}", "count": 4, "devmem": 21527, "devcore": 8} for each in range(count)]
    made["metadata"]["annotations"] = {f"hami.io/node-register-{word}": json.dumps(registered)}
    return made


def limited(objects: list[Object], **amounts: int) -> list[Object]:
    names = {"npus": NPU, "memory": NPU_MEMORY, "number": "volcano.sh/vgpu-number"}
    for each in objects[1:]:
        limits = {names[key]: str(amount) for key, amount in amounts.items()}
        resources = each["spec"]["containers"][0]["resources"]
        resources["limits"] = limits
        resources["requests"].update(limits)
    return objects


def test_pods_get_npus() -> None:
    answer = decide(npu_text(), npu_node("a"), limited(gang("g", 3), npus=1, memory=5000))
    given = [each[NPU_IDS] for each in answer["annotations"].values()]
    assert given == ["a-0,Ascend310P,6144,0:;"] * 3
    assert decide(npu_text(), npu_node("a"), limited(gang("g", 4), npus=1, memory=5000))["bound"] == {}


def test_a_gang_that_does_not_fit_returns_its_npus() -> None:
    answer = decide(npu_text(), npu_node("a"), limited(gang("g", 2), npus=1), limited(gang("h", 1), npus=1))
    assert list(answer["bound"]) == ["default/h-task-0"]


def test_memory_of_npus_is_not_an_amount_of_nodes() -> None:
    group, pod = limited(gang("g", 1), memory=3000)
    group["spec"]["minResources"] = {NPU_MEMORY: "3000"}
    both = conf(
        ("priority", "gang"),
        ("overcommit", "predicates", "deviceshare"),
        actions="enqueue, allocate",
        deviceshare="{deviceshare.AscendHAMiVNPUEnable: true}",
    )
    answer = decide(both, npu_node("a"), node("plain"), group, pod)
    assert answer["bound"] == {"default/g-task-0": "a"}
    assert decide(both, node("plain"), group, pod)["bound"] == {}, "a node without NPUs has no memory of NPUs"


def test_npus_and_gpus_in_one_pod() -> None:
    made = npu_node("a")
    cards = gpu_node("a")
    made["metadata"]["annotations"] |= cards["metadata"]["annotations"]
    for part in ("allocatable", "capacity"):
        made["status"][part] |= cards["status"][part]
    answer = decide(text(AscendHAMiVNPUEnable=True), made, limited(gang("g", 1), npus=1, number=1))
    (given,) = answer["annotations"].values()
    assert given[IDS] == "GPU-a-0,NVIDIA,16000,0:"
    assert given[NPU_IDS] == "a-0,Ascend310P,21527,0:;"


def test_types_of_npus_come_from_the_config_map() -> None:
    kind = {"commonWord": "Ascend310P", "resourceName": NPU, "resourceMemoryName": NPU_MEMORY}
    kind |= {"memoryAllocatable": 21527, "memoryCapacity": 21527, "templates": [{"name": "tiny", "memory": 7}]}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "devices", "namespace": "gpus"}}
    config["data"] = {"device-config.yaml": json.dumps({"vnpus": [kind]})}
    given = npu_text(KnownGeometriesCMName="devices", KnownGeometriesCMNamespace="gpus")
    answer = decide(given, config, npu_node("a"), limited(gang("g", 1), npus=1, memory=5))
    assert [each[NPU_IDS] for each in answer["annotations"].values()] == ["a-0,Ascend310P,7,0:;"]


@pytest.mark.parametrize("lock", [None, "2020-01-01T00:00:00Z", "2199-01-01T00:00:00Z"])
def test_a_lock_of_npus_does_not_stay(lock: str | None) -> None:
    made = npu_node("a")
    if lock is not None:
        made["metadata"]["annotations"]["Ascend310P"] = lock
    answer = decide(npu_text(NodeLockEnable=True), made, limited(gang("g", 2), npus=1, memory=1))
    assert len(answer["bound"]) == (0 if lock == "2199-01-01T00:00:00Z" else 2)
    assert "locks" not in answer
