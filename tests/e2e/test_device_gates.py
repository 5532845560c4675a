"""Gates of devices that are off by default, on a real API server of 1.37 that has them on, next to kube-scheduler."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from mooring.releases import release_named
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import running
from tests.e2e.controlplane import ControlPlane, free_port
from tests.e2e.controlplane.parts import KUBERNETES
from tests.e2e.endpoints import is_ready
from tests.e2e.mooring_process import mooring_command

pytestmark = pytest.mark.skipif(release_named(KUBERNETES).version == "1.36", reason="needs gates of 1.37")

_GATES: Final = (
    "--feature-gates=GenericWorkload=true,DRAWorkloadResourceClaims=true,DRADerivedAttributes=true,"
    "DRADeviceCompatibilityGroups=true,DRAOptionalNodeOperations=true,DRANodeAllocatableResources=true"
)
_GROUPS: Final = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"
_DEVICES: Final = "/apis/resource.k8s.io/v1"
_DRIVER: Final = "gpu.example.com"
Start = Callable[[ControlPlane], Any]


@pytest.fixture(scope="module")
def plane(built: None) -> Iterator[ControlPlane]:
    """A control plane with the gates."""
    yield from running(ControlPlane(apiserver_flags=[_GATES, "--runtime-config=scheduling.k8s.io/v1beta1=true"]))


def mooring(plane: ControlPlane) -> Any:
    port = free_port()
    command = mooring_command(plane, "--leader-elect=false", "--emulated-version=1.37", _GATES, port=port)
    return plane.run("mooring", command, ready=lambda: is_ready(port))


def kube_scheduler(plane: ControlPlane) -> Any:
    return plane.start_kube_scheduler(flags=[_GATES])


class World:
    """A cluster with devices."""

    def __init__(self, plane: ControlPlane) -> None:
        self.cluster = Cluster(plane)
        self.api = self.cluster.api
        self.claims = f"{_DEVICES}/namespaces/{self.cluster.namespace}/resourceclaims"

    def declare(self, node: str, feature: str) -> None:
        """Add a feature to those that a node declares."""
        body = json.dumps({"status": {"declaredFeatures": [feature]}})
        self.cluster.kubectl("patch", "node", node, "--subresource=status", "-p", body)

    def add_slice(self, name: str, node: str, slices: int = 1, **spec: Any) -> None:
        pool = {"name": node, "generation": 1, "resourceSliceCount": slices}
        body = {"driver": _DRIVER, "nodeName": node, "pool": pool} | spec
        self.api.create(f"{_DEVICES}/resourceslices", {"metadata": {"name": name}, "spec": body})

    def add_claim(self, name: str, count: int = 1, attribute: str = "", expression: str = "") -> None:
        exactly: dict[str, Any] = {"deviceClassName": "gpu", "count": count}
        devices: dict[str, Any] = {"requests": [{"name": "r", "exactly": exactly}]}
        if expression:
            exactly["derivedAttributes"] = [{"name": attribute, "expression": expression}]
            devices["constraints"] = [{"matchAttribute": attribute}]
        self.api.create(self.claims, {"metadata": {"name": name}, "spec": {"devices": devices}})

    def add_pod(self, name: str, claim: str, **spec: Any) -> None:
        self.cluster.add_pod(name, resourceClaims=[{"name": "c", "resourceClaimName": claim}], **spec)

    def add_group(self, name: str, claim: str) -> Any:
        claims = [{"name": "c", "resourceClaimName": claim}]
        spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": claims}
        return self.api.create(_GROUPS.format(self.cluster.namespace), {"metadata": {"name": name}, "spec": spec})

    def allocate_elsewhere(self, name: str, group: Any) -> None:
        """Allocate a claim for a group on a node that does not exist."""
        result = {"request": "r", "driver": _DRIVER, "pool": "gone", "device": "gone"}
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["gone"]}]}
        allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [term]}}
        user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": group["metadata"]["name"]}
        user["uid"] = group["metadata"]["uid"]
        body = {"status": {"allocation": allocation, "reservedFor": [user]}}
        self.cluster.kubectl("patch", "resourceclaim", name, "--subresource=status", "-p", json.dumps(body))

    def seen(self, name: str) -> dict[str, Any]:
        status = self.api.get(f"{self.claims}/{name}").get("status", {})
        users = [(user.get("apiGroup"), user["resource"], user["name"]) for user in status.get("reservedFor", ())]
        results = status.get("allocation", {}).get("devices", {}).get("results", ())
        return {"users": users, "results": [dict(each) for each in results]}


def _story(plane: ControlPlane, start: Start) -> dict[str, Any]:
    world = World(plane)
    cluster = world.cluster
    try:
        for node in ("n0", "n1"):
            cluster.add_node(node)
        world.declare("n1", "DRAOptionalNodeOperations")
        world.api.create(f"{_DEVICES}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
        counters = {"m": {"value": "1"}}
        devices = [
            {
                "name": name,
                "attributes": {"slot": {"string": slot}},
                "consumesCounters": [{"counterSet": "s", "counters": counters, "compatibilityGroups": groups}],
            }
            for name, slot, groups in (("d0", "a-0", ["x"]), ("d1", "b-0", ["y"]), ("d2", "b-1", ["x", "y"]))
        ]
        sets = [{"name": "s", "counters": {"m": {"value": "9"}}}]
        world.add_slice("counters", "n0", 2, sharedCounters=sets)
        world.add_slice("devices", "n0", 2, devices=devices)
        for node in ("n0", "n1"):
            pool = {"name": f"{node}-skip", "generation": 1, "resourceSliceCount": 1}
            others = [{"name": f"e{n}", "attributes": {"slot": {"string": f"e-{n}"}}} for n in range(3)]
            world.add_slice(f"skip-{node}", node, pool=pool, devices=others, skipNodeOperations=["*"])
        process = start(plane)
        # b-0 and b-1 have the same prefix, and y in common.
        name = f"{_DRIVER}/prefix"
        world.add_claim("derived", 2, name, f"device.attributes['{_DRIVER}'].slot.split('-')[0]")
        world.add_pod("derived", "derived", nodeSelector={"kubernetes.io/hostname": "n0"})
        cluster.wait_bound("derived")
        # d0 has nothing in common with d1; the devices with skipNodeOperations need n1.
        world.add_claim("skips")
        world.add_pod("skips", "skips")
        cluster.wait_bound("skips")
        world.add_claim("shared")
        world.add_group("shares", "shared")
        for index in range(2):
            world.add_pod(f"shares-{index}", "shared", schedulingGroup={"podGroupName": "shares"})
        cluster.wait_bound("shares-0", "shares-1")
        # The claim of a group is allocated on a node that is gone: it is deallocated, and allocated again.
        world.add_claim("stuck")
        world.allocate_elsewhere("stuck", world.add_group("stuck", "stuck"))
        for index in range(2):
            world.add_pod(f"stuck-{index}", "stuck", schedulingGroup={"podGroupName": "stuck"})
        cluster.wait_bound("stuck-0", "stuck-1")
        world.add_claim("broken", 1, name, f"device.attributes['{_DRIVER}'].nope")
        world.add_pod("broken", "broken")
        message = cluster.wait_unschedulable("broken")
        seen = {each: world.seen(each) for each in ("derived", "skips", "shared", "stuck", "broken")}
        seen["message"] = message.partition(" on device ")[0]
        seen["nodes"] = cluster.placements()
        process.stop()
        return seen
    finally:
        for kind in ("resourceslices", "deviceclasses"):
            cluster.kubectl("delete", kind, "--all")
        cluster.clean_up()


def test_devices_are_allocated_as_kube_scheduler_does(plane: ControlPlane) -> None:
    theirs, ours = _story(plane, kube_scheduler), _story(plane, mooring)
    assert ours == theirs
    assert theirs["shared"]["users"] == [("scheduling.k8s.io", "podgroups", "shares")]
    assert theirs["stuck"]["users"] == [("scheduling.k8s.io", "podgroups", "stuck")]
    assert theirs["skips"]["results"][0]["skipNodeOperations"] == ["*"]
    assert [each["device"] for each in theirs["derived"]["results"]] == ["d1", "d2"]


def _resources_story(plane: ControlPlane, start: Start) -> dict[str, Any]:
    """Devices that are a part of the CPU of their node, or need memory."""
    world = World(plane)
    cluster = world.cluster
    try:
        for node in ("n0", "n1"):
            cluster.add_node(node, cpu="4", memory="1Gi")
            world.declare(node, "DRANodeAllocatableResources")
        world.api.create(f"{_DEVICES}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
        cores = f"{_DRIVER}/cores"
        mapped = {"cpu": {"mapping": {"capacityKey": cores, "capacityMultiplier": "2"}}}
        overhead = {"memory": {"overhead": {"perPod": "100Mi", "perContainer": "50Mi"}}}
        socket = {"capacity": {cores: {"value": "2"}}, "allowMultipleAllocations": True}
        devices = [{"name": "cpus", "nodeAllocatableResources": mapped | overhead, **socket}]
        world.add_slice("n0", "n0", devices=devices)
        world.add_slice("n1", "n1", devices=[{"name": "g", "nodeAllocatableResources": overhead}])
        process = start(plane)
        container = {"name": "main", "image": "i", "resources": {"claims": [{"name": "c"}]}}
        spec: dict[str, Any] = {"containers": [container], "nodeSelector": {"kubernetes.io/hostname": "n0"}}
        world.add_claim("first")
        world.add_pod("first", "first", **spec)
        cluster.wait_bound("first")
        # All CPUs of n0 belong to the device of the first pod, whose claim no other pod can use.
        world.add_pod("shares", "first", **spec)
        cluster.add_pod("plain", containers=[_requesting("100m")], nodeSelector=spec["nodeSelector"])
        messages = {name: cluster.wait_unschedulable(name) for name in ("shares", "plain")}
        world.add_claim("second")
        spec["nodeSelector"] = {"kubernetes.io/hostname": "n1"}
        for name in ("second", "third"):  # each needs the memory again
            world.add_pod(name, "second", **spec)
            cluster.wait_bound(name)
        process.stop()
        path = f"/api/v1/namespaces/{cluster.namespace}/pods/"
        statuses = {
            name: world.api.get(path + name)["status"].get("nodeAllocatableResourceClaimStatuses")
            for name in ("first", "second", "third", "plain")
        }
        return {"messages": messages, "statuses": statuses, "nodes": cluster.placements()}
    finally:
        for kind in ("resourceslices", "deviceclasses"):
            cluster.kubectl("delete", kind, "--all")
        cluster.clean_up()


def _requesting(cpu: str) -> dict[str, Any]:
    return {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}


def test_devices_take_resources_of_nodes_as_in_kube_scheduler(plane: ControlPlane) -> None:
    theirs, ours = _resources_story(plane, kube_scheduler), _resources_story(plane, mooring)
    assert ours == theirs
    assert theirs["statuses"]["first"][0]["mapping"] == [{"name": "cpu", "quantity": "4"}]
    assert theirs["statuses"]["plain"] is None
    assert "cannot be shared across pods" in theirs["messages"]["shares"]
    assert "Insufficient cpu" in theirs["messages"]["plain"]
