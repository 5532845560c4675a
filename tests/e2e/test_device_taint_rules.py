"""DeviceTaintRules on a real API server that serves them (1.37; 1.36 in v1beta2), and on one that does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from mooring.releases import release_named
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import running
from tests.e2e.controlplane import ControlPlane, Process, free_port
from tests.e2e.controlplane.parts import KUBERNETES
from tests.e2e.endpoints import is_ready
from tests.e2e.mooring_process import mooring_command

DEVICES: Final = "/apis/resource.k8s.io/v1"
DRIVER: Final = "gpu.example.com"
#: Whether a server of this release has the kind without further flags.
SERVED: Final = release_named(KUBERNETES).enabled("DRADeviceTaintRules")
MISSING: Final = "The cluster does not serve devicetaintrules.resource.k8s.io in version v1"


class Devices:
    """A cluster whose node has two devices."""

    def __init__(self, cluster: Cluster, version: str = "v1") -> None:
        """``version`` is that of the rules."""
        self.cluster = cluster
        self._rules = f"/apis/resource.k8s.io/{version}/devicetaintrules"
        self._claims = f"{DEVICES}/namespaces/{cluster.namespace}/resourceclaims"
        cluster.add_node("n0")
        selectors = [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}]
        cluster.api.create(f"{DEVICES}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}})
        pool = {"name": "n0", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": "n0", "pool": pool, "devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}
        cluster.api.create(f"{DEVICES}/resourceslices", {"metadata": {"name": "s"}, "spec": spec})

    def add_pod(self, name: str) -> None:
        """Make a pod with a claim."""
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        self.cluster.api.create(
            self._claims, {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        )
        self.cluster.add_pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": name}])

    def device_of(self, name: str) -> str:
        """Wait until a pod is bound, and say which device it has."""
        self.cluster.wait_bound(name)
        (result,) = self.cluster.api.get(f"{self._claims}/{name}")["status"]["allocation"]["devices"]["results"]
        return str(result["device"])

    def taint(self, device: str) -> str:
        """Make a rule that keeps new pods from a device, and hand back its path."""
        taint = {"key": "broken", "effect": "NoSchedule"}
        selector = {"driver": DRIVER, "pool": "n0", "device": device}
        rule = {"metadata": {"name": device}, "spec": {"deviceSelector": selector, "taint": taint}}
        self.cluster.api.create(self._rules, rule)
        return f"{self._rules}/{device}"


def start(cluster: Cluster, *flags: str) -> Process:
    port = free_port()
    command = mooring_command(cluster.plane, "--leader-elect=false", *flags, port=port)
    return cluster.plane.run(f"mooring-{cluster.namespace}", command, ready=lambda: is_ready(port))


def warned(process: Process) -> int:
    return sum(line.startswith("W") and MISSING in line for line in process.log.read_text().splitlines())


def check_that_rules_count(devices: Devices, *flags: str) -> None:
    """Check that rules count when the scheduler starts and when they change; a removed rule requeues the pod."""
    cluster = devices.cluster
    rule = devices.taint("gpu-0")
    process = start(cluster, *flags)
    devices.add_pod("a")
    assert devices.device_of("a") == "gpu-1"
    devices.add_pod("b")
    assert "cannot allocate all claims" in cluster.wait_unschedulable("b")
    cluster.api.delete(rule)
    assert devices.device_of("b") == "gpu-0"
    assert not warned(process)


@pytest.mark.skipif(not SERVED, reason="this release has no DeviceTaintRules")
def test_a_rule_keeps_pods_from_a_device(cluster: Cluster) -> None:
    check_that_rules_count(Devices(cluster))


@pytest.fixture
def with_beta_rules(built: None) -> Iterator[Cluster]:
    """A server of 1.36 whose administrator turned the beta feature on."""
    flags = [
        "--feature-gates=DRADeviceTaintRules=true",
        "--runtime-config=resource.k8s.io/v1beta2/devicetaintrules=true",
    ]
    for plane in running(ControlPlane(apiserver_flags=flags)):
        yield Cluster(plane)


@pytest.mark.skipif(SERVED, reason="this release has the rules in v1")
def test_a_beta_rule_keeps_pods_from_a_device(with_beta_rules: Cluster) -> None:
    devices = Devices(with_beta_rules, "v1beta2")
    check_that_rules_count(devices, "--feature-gates=DRADeviceTaintRules=true")


@pytest.mark.skipif(not SERVED, reason="this release has no DeviceTaintRules")
def test_the_emulated_1_36_ignores_rules(cluster: Cluster) -> None:
    devices = Devices(cluster)
    rule = devices.taint("gpu-0")
    process = start(cluster, "--emulated-version=1.36")
    devices.add_pod("a")
    assert devices.device_of("a") == "gpu-0"
    assert not warned(process)
    cluster.api.delete(rule)


@pytest.fixture
def without_rules(built: None) -> Iterator[Cluster]:
    """A server that has devices but no rules: of an older release, or with the API turned off."""
    flags = ["--runtime-config=resource.k8s.io/v1/devicetaintrules=false"] if SERVED else []
    for plane in running(ControlPlane(apiserver_flags=flags)):
        yield Cluster(plane)


def test_without_the_api_the_taints_of_slices_count(without_rules: Cluster) -> None:
    """One warning, and devices are allocated."""
    devices = Devices(without_rules)
    process = start(without_rules, "--emulated-version=1.37")
    devices.add_pod("a")
    assert devices.device_of("a") == "gpu-0"
    assert warned(process) == 1
    assert "list/watch failed" not in process.log.read_text()
