"""Devices that take resources of their node: which nodes have room, what is written, and what counts afterwards."""

from __future__ import annotations

from typing import Any

import pytest

from mooring.releases import V1_37, with_gates
from mooring.simulation.evaluate import evaluate

GATE = with_gates(V1_37, {"DRANodeAllocatableResources": True})[0]
DRIVER = "cpu.example.com"
CORES = "cpu.example.com/cores"
CPU_MAPPING: dict[str, Any] = {"cpu": {"mapping": {"deviceMultiplier": "2"}}}
OVERHEAD: dict[str, Any] = {"memory": {"overhead": {"perPod": "100Mi", "perContainer": "50Mi"}}}
BY_CAPACITY: dict[str, Any] = {"cpu": {"mapping": {"capacityKey": CORES, "capacityMultiplier": "2"}}}
RUNNING = 'running "DynamicResources" filter plugin: '
SHARED = "node allocatable resource claim c has a mapped device and cannot be shared across pods"


def node(name: str, cpu: str = "4") -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "1Gi", "pods": "10", "hugepages-2Mi": "4Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def resource_slice(name: str, resources: dict[str, Any], **device: Any) -> dict[str, Any]:
    made = {"name": f"numa-{name}", "nodeAllocatableResources": resources, **device}
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": name, "devices": [made]}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}, "spec": spec}


def claim(name: str = "c", status: dict[str, Any] | None = None, **request: Any) -> dict[str, Any]:
    exactly = {"deviceClassName": "cpu", "allocationMode": "ExactCount", "count": 1, **request}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": exactly}]}},
        "status": status or {},
    }


CLASS = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "cpu"}, "spec": {}}


def pod(name: str = "p", requests: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    resources = {"requests": requests or {}, "claims": [{"name": "devices"}]}
    container = {"name": "main", "image": "i", "resources": resources}
    claims = [{"name": "devices", "resourceClaimName": "c"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": [container], "resourceClaims": claims, **spec},
    }


def placed(name: str, node_name: str, cpu: str = "", priority: int = 0, **status: Any) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu}} if cpu else {}
    container = {"name": "main", "image": "i", "resources": resources}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"containers": [container], "nodeName": node_name, "priority": priority},
        "status": {"phase": "Running", **status},
    }


def allocated(node_name: str, *users: str) -> dict[str, Any]:
    result = {"request": "r", "driver": DRIVER, "pool": node_name, "device": f"numa-{node_name}"}
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node_name]}]}
    reserved = [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in users]
    allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
    return {"allocation": allocation, "reservedFor": reserved}


def answer(*objects: dict[str, Any], release: Any = GATE, **given: Any) -> dict[str, Any]:
    wanted = given.pop("pod", None) or pod()
    return evaluate({"id": "x", "objects": [CLASS, *objects], "pod": wanted, **given}, release=release)


def rejections(found: dict[str, Any]) -> dict[str, tuple[str, list[str]]]:
    return {
        name: (each["code"], [text.removeprefix(RUNNING) for text in each["reasons"]])
        for name, each in found["filter"].items()
        if each["code"] != "Success"
    }


@pytest.mark.parametrize(
    ("resources", "used", "requests", "expected"),
    [
        (CPU_MAPPING, "2", {}, {}),
        (CPU_MAPPING, "2", {"cpu": "1m"}, {"a": ("Unschedulable", ["Insufficient cpu"])}),
        (CPU_MAPPING, "3", {}, {"a": ("Unschedulable", ["Insufficient cpu"])}),
        (CPU_MAPPING, "", {"cpu": "3"}, {"a": ("UnschedulableAndUnresolvable", ["Insufficient cpu"])}),
        (OVERHEAD, "", {"memory": "874Mi"}, {}),
        (OVERHEAD, "", {"memory": "875Mi"}, {"a": ("UnschedulableAndUnresolvable", ["Insufficient memory"])}),
        (
            {"hugepages-2Mi": {"mapping": {"deviceMultiplier": "6Mi"}}},
            "",
            {},
            {"a": ("UnschedulableAndUnresolvable", ["Insufficient hugepages-2Mi"])},
        ),
        ({"hugepages-2Mi": {"mapping": {"deviceMultiplier": "4Mi"}}}, "4", {}, {}),
    ],
)
def test_room(resources: Any, used: str, requests: dict[str, str], expected: Any) -> None:
    objects = [node("a"), resource_slice("a", resources), claim()]
    objects += [placed("other", "a", used)] if used else []
    assert rejections(answer(*objects, pod=pod(requests=requests))) == expected
    assert not rejections(answer(*objects, pod=pod(requests=requests), release=V1_37))


def test_what_is_written() -> None:
    device = {"allowMultipleAllocations": True, "capacity": {CORES: {"value": "4"}}}
    resources = {**BY_CAPACITY, **OVERHEAD}
    found = answer(node("a", "8"), resource_slice("a", resources, **device), claim(capacity={"requests": {CORES: "1"}}))
    assert found["bind"]["preBind"]["code"] == "Success"
    write = found["bind"]["writes"][-1]
    assert (write["verb"], write["resource"], write["subresource"]) == ("patch", "pods", "status")
    assert write["patch"]["status"] == {
        "nodeAllocatableResourceClaimStatuses": [
            {
                "resourceClaimName": "c",
                "containers": ["main"],
                "mapping": [{"name": "cpu", "quantity": "2"}],
                "overhead": [{"name": "memory", "perPod": "100Mi", "perContainer": "50Mi"}],
            }
        ]
    }


def test_a_capacity_that_is_not_consumed_is_an_error() -> None:
    found = answer(node("a"), resource_slice("a", BY_CAPACITY, capacity={CORES: {"value": "4"}}), claim())
    text = (
        f"claim default/c, device numa-a: ConsumedCapacity is nil, but Capacity key '{CORES}' is set in "
        "NodeAllocatableResources for resource cpu"
    )
    assert found["aborted"]
    assert rejections(found) == {"a": ("Error", [text])}


def test_the_devices_of_each_node_count_there() -> None:
    objects = [node("a"), node("b"), node("c"), resource_slice("a", {"cpu": {"mapping": {"deviceMultiplier": "5"}}})]
    objects += [resource_slice("b", CPU_MAPPING), resource_slice("c", CPU_MAPPING), placed("other", "c", "3")]
    assert rejections(answer(*objects, claim())) == {
        "a": ("UnschedulableAndUnresolvable", ["Insufficient cpu"]),
        "c": ("Unschedulable", ["Insufficient cpu"]),
    }


@pytest.mark.parametrize(
    ("users", "resources", "expected"),
    [
        (("other",), CPU_MAPPING, {"a": ("UnschedulableAndUnresolvable", [SHARED])}),
        (("other",), OVERHEAD, {}),
        (("p", "other"), CPU_MAPPING, {}),
        ((), CPU_MAPPING, {}),
    ],
)
def test_a_mapped_device_belongs_to_one_pod(users: tuple[str, ...], resources: Any, expected: Any) -> None:
    """On other nodes, the claim is not available, and its device takes nothing."""
    objects = [node("a"), node("b"), resource_slice("a", resources), claim(status=allocated("a", *users))]
    unavailable = ("UnschedulableAndUnresolvable", ["resourceclaim not available on the node"])
    assert rejections(answer(*objects)) == {**expected, "b": unavailable}


def test_an_allocated_device_that_no_slice_has() -> None:
    """If no device of a claim is known, nothing counts; if one is, all of them have to be."""
    status = allocated("a")
    assert not rejections(answer(node("a"), claim(status=status)))
    results = status["allocation"]["devices"]["results"]
    status["allocation"]["devices"]["results"] = [*results, {**results[0], "device": "gone"}]
    found = answer(node("a"), resource_slice("a", CPU_MAPPING), claim(status=status))
    text = f"claim default/c, device gone, driver {DRIVER}: device gone not found in pool a for driver {DRIVER}"
    assert rejections(found) == {"a": ("Error", [text])}


def test_pods_count_with_the_resources_of_their_claims() -> None:
    statuses = [{"resourceClaimName": "other", "mapping": [{"name": "cpu", "quantity": "3"}]}]
    objects = [node("a"), resource_slice("a", CPU_MAPPING), claim()]
    objects += [placed("other", "a", "100m", nodeAllocatableResourceClaimStatuses=statuses)]
    assert rejections(answer(*objects)) == {"a": ("Unschedulable", ["Insufficient cpu"])}
    plain = pod(requests={"cpu": "1"})
    plain["spec"].pop("resourceClaims")
    plain["spec"]["containers"][0]["resources"].pop("claims")
    found = answer(*objects, pod=plain)
    assert rejections(found) == {"a": ("Unschedulable", ["Insufficient cpu"])}
    assert found["filter"]["a"]["plugin"] == "NodeResourcesFit"


def test_an_assumed_pod_counts_with_the_resources_of_its_claims() -> None:
    before = [{"pod": pod("first"), "node": "a"}]
    plain = pod(requests={"cpu": "3"})
    plain["spec"].pop("resourceClaims")
    objects = [node("a"), resource_slice("a", CPU_MAPPING), claim()]
    assert rejections(answer(*objects, pod=plain, before=before)) == {"a": ("Unschedulable", ["Insufficient cpu"])}


def test_amounts_of_an_earlier_attempt_do_not_count() -> None:
    wanted = pod(requests={"cpu": "2"})
    statuses = [{"resourceClaimName": "c", "mapping": [{"name": "cpu", "quantity": "100"}]}]
    wanted["status"] = {"nodeAllocatableResourceClaimStatuses": statuses}
    assert not rejections(answer(node("a"), resource_slice("a", CPU_MAPPING), claim(), pod=wanted))


def test_victims_make_room_for_devices() -> None:
    """The pod alone would fit; with its device, one victim is needed."""
    objects = [node("a"), resource_slice("a", CPU_MAPPING), claim()]
    objects += [placed("small", "a", "1", priority=1), placed("large", "a", "2")]
    found = answer(*objects, pod=pod(requests={"cpu": "1"}, priority=10))
    assert rejections(found) == {"a": ("Unschedulable", ["Insufficient cpu"])}
    assert [each.rpartition("/")[2] for each in found["preemption"]["victims"]] == ["large"]


def test_pod_level_resources_have_to_cover_the_devices() -> None:
    """PodLevelResources decides: without the gate, the pod's own requests do not count."""
    objects = [node("a", "9"), resource_slice("a", CPU_MAPPING), claim()]
    wanted = pod(requests={"cpu": "1"}, resources={"requests": {"cpu": "2500m"}})
    [reason] = rejections(answer(*objects, pod=wanted))["a"][1]
    assert reason.startswith("pod level request for cpu is insufficient to cover")
