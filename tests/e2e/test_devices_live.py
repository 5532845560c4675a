"""Devices on a real API server: claims of the controller manager and of Mooring, and a scheduler that is killed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.mooring_process import mooring_command

RESOURCE: Final = "/apis/resource.k8s.io/v1"
DRIVER: Final = "gpu.example.com"
GPU: Final = "example.com/gpu"
_CLASS: Final = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}], "extendedResourceName": GPU}


class Devices:
    """A cluster whose nodes have devices."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self._made: list[str] = []
        self._create("deviceclasses", {"metadata": {"name": "gpu"}, "spec": _CLASS})
        template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [self.request()]}}}}
        self.api.create(f"{self.space}/resourceclaimtemplates", template)

    @staticmethod
    def request() -> dict[str, Any]:
        return {"name": "r", "exactly": {"deviceClassName": "gpu"}}

    @property
    def space(self) -> str:
        return f"{RESOURCE}/namespaces/{self.cluster.namespace}"

    def _create(self, plural: str, document: dict[str, Any]) -> None:
        self.api.create(f"{RESOURCE}/{plural}", document)
        self._made.append(f"{RESOURCE}/{plural}/{document['metadata']['name']}")

    def add_node(self, name: str, devices: int) -> None:
        self.cluster.add_node(name, cpu="64")
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        listed = [{"name": f"gpu-{n}"} for n in range(devices)]
        spec = {"driver": DRIVER, "nodeName": name, "pool": pool, "devices": listed}
        self._create("resourceslices", {"metadata": {"name": f"{name}-gpus"}, "spec": spec})

    def add_pod(self, name: str, **spec: Any) -> None:
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        self.cluster.add_pod(name, resourceClaims=claims, **spec)

    def add_extended(self, name: str) -> None:
        """A pod that requests a device as an extended resource."""
        amounts = {"requests": {"cpu": "100m", GPU: "1"}, "limits": {GPU: "1"}}
        container = {"name": "c", "image": "registry.example/c:1", "resources": amounts}
        self.cluster.add_pod(name, containers=[container])

    def claims(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.items(f"{self.space}/resourceclaims")
        return found

    def allocated(self) -> Counter[tuple[str, str]]:
        """How often each device is allocated."""
        return Counter(
            (result["pool"], result["device"])
            for claim in self.claims()
            for result in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())
        )

    def clean_up(self) -> None:
        for path in self._made:
            self.api.delete(path)


@pytest.fixture
def devices(full_cluster: Cluster) -> Iterator[Devices]:
    made = Devices(full_cluster)
    yield made
    made.clean_up()


def start(devices: Devices, *flags: str) -> Any:
    plane = devices.cluster.plane
    return plane.run("mooring", mooring_command(plane, "--leader-elect=false", *flags), wait=False)


def test_claims_from_templates_get_devices(devices: Devices) -> None:
    """The controller manager creates the claims, and deallocates that of a deleted pod for the next one."""
    for node in ("n0", "n1"):
        devices.add_node(node, 2)
    start(devices)
    names = [f"p{number}" for number in range(4)]
    for name in names:
        devices.add_pod(name)
    placed = devices.cluster.wait_bound(*names)
    assert Counter(placed.values()) == {"n0": 2, "n1": 2}
    assert set(devices.allocated().values()) == {1}
    assert len(devices.allocated()) == 4
    devices.add_pod("late")
    assert "cannot allocate all claims" in devices.cluster.wait_unschedulable("late")
    devices.api.delete(f"/api/v1/namespaces/{devices.cluster.namespace}/pods/p0")
    assert devices.cluster.wait_bound("late")["late"] == placed["p0"]


def test_extended_resources_get_a_claim(devices: Devices) -> None:
    devices.add_node("n0", 1)
    start(devices)
    devices.add_extended("p")
    assert devices.cluster.wait_bound("p") == {"p": "n0"}
    (claim,) = devices.claims()
    status = devices.cluster.pod("p")["status"]["extendedResourceClaimStatus"]
    assert status["resourceClaimName"] == claim["metadata"]["name"]
    assert [user["name"] for user in claim["status"]["reservedFor"]] == ["p"]


def test_a_killed_scheduler_allocates_no_device_twice(devices: Devices) -> None:
    """It is killed while it writes claims; its successor finishes the work, with every device used once."""
    for node in range(4):
        devices.add_node(f"n{node}", 8)
    names = [f"p{number}" for number in range(32)]
    for name in names:
        devices.add_pod(name)
    first = start(devices)
    devices.api.wait_for("first claims", lambda: len(devices.allocated()) >= 4 or None)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    start(devices)
    devices.cluster.wait_bound(*names, timeout=120.0)
    found = devices.allocated()
    assert (len(found), set(found.values())) == (32, {1})
    assert all(len(claim["status"]["reservedFor"]) == 1 for claim in devices.claims())


PREEMPTION: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {postFilter: {enabled: [{name: ClaimPreemption}]}}
"""


def test_a_pod_is_evicted_for_its_device_if_the_plugin_is_enabled(devices: Devices, tmp_path: Path) -> None:
    devices.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    devices.add_node("n0", 2)
    (tmp_path / "scheduler.yaml").write_text(PREEMPTION)
    start(devices, "--config", str(tmp_path / "scheduler.yaml"))
    for name in ("low", "important"):
        devices.add_pod(name, **({"priorityClassName": "urgent"} if name == "important" else {}))
    devices.cluster.wait_bound("low", "important")
    devices.add_pod("urgent", priorityClassName="urgent")
    assert devices.cluster.wait_bound("urgent")["urgent"] == "n0"
    assert {each["metadata"]["name"] for each in devices.cluster.pods()} == {"important", "urgent"}
    assert set(devices.allocated().values()) == {1}
