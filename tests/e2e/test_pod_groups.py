"""PodGroups of scheduling.k8s.io on a real API server of 1.37 with the gate GenericWorkload, next to kube-scheduler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mooring.releases import release_named
from tests.e2e.cluster import Cluster
from tests.e2e.conftest import running
from tests.e2e.controlplane import ControlPlane, free_port
from tests.e2e.controlplane.parts import KUBERNETES
from tests.e2e.endpoints import is_ready
from tests.e2e.mooring_process import mooring_command

pytestmark = pytest.mark.skipif(release_named(KUBERNETES).version == "1.36", reason="needs PodGroups of v1beta1")

_GATE = "--feature-gates=GenericWorkload=true"
_GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/{}/podgroups"
Start = Callable[[ControlPlane], Any]


@pytest.fixture(scope="module")
def plane(built: None) -> Iterator[ControlPlane]:
    """A control plane that serves PodGroups."""
    flags = [_GATE, "--runtime-config=scheduling.k8s.io/v1beta1=true"]
    yield from running(ControlPlane(apiserver_flags=flags))


def mooring(plane: ControlPlane) -> Any:
    port = free_port()
    command = mooring_command(plane, "--leader-elect=false", "--emulated-version=1.37", _GATE, port=port)
    return plane.run("mooring", command, ready=lambda: is_ready(port))


def kube_scheduler(plane: ControlPlane) -> Any:
    return plane.start_kube_scheduler(flags=[_GATE])


def _add_group(cluster: Cluster, name: str, policy: dict[str, Any], members: int, cpu: str = "1") -> None:
    cluster.api.create(
        _GROUPS.format(cluster.namespace), {"metadata": {"name": name}, "spec": {"schedulingPolicy": policy}}
    )
    for index in range(members):
        cluster.add_pod(f"{name}-{index}", cpu=cpu, schedulingGroup={"podGroupName": name})


def _condition(cluster: Cluster, name: str) -> tuple[str, str, str] | None:
    for group in cluster.api.items(_GROUPS.format(cluster.namespace)):
        if group["metadata"]["name"] == name:
            for each in group.get("status", {}).get("conditions", ()):
                return each["status"], each["reason"], each["message"]
    return None


def _story(plane: ControlPlane, start: Start) -> dict[str, Any]:
    """Run gangs that fit, that do not fit and that are incomplete; return what is seen of them."""
    cluster = Cluster(plane)
    try:
        cluster.add_node("small", cpu="3")
        cluster.add_node("large", cpu="8")
        process = start(plane)
        _add_group(cluster, "fits", {"gang": {"minCount": 3}}, 3, cpu="2")
        cluster.wait_bound(*(f"fits-{index}" for index in range(3)))
        _add_group(cluster, "waits", {"gang": {"minCount": 5}}, 2)
        _add_group(cluster, "too-large", {"gang": {"minCount": 3}}, 4, cpu="2")
        messages = {f"too-large-{index}": cluster.wait_unschedulable(f"too-large-{index}") for index in range(4)}
        _add_group(cluster, "basic", {"basic": {}}, 4, cpu="2")
        cluster.wait_unschedulable("basic-3")
        cluster.api.wait_for("condition", lambda: _condition(cluster, "basic"), 30)
        bound = cluster.placements()
        seen = {
            "bound": sorted(bound),
            "large": sum(node == "large" for node in bound.values()),
            "messages": messages,
            "conditions": {name: _condition(cluster, name) for name in ("fits", "waits", "too-large", "basic")},
        }
        process.stop()
        return seen
    finally:
        cluster.clean_up()


def test_groups_are_scheduled_as_kube_scheduler_does(plane: ControlPlane) -> None:
    theirs, ours = _story(plane, kube_scheduler), _story(plane, mooring)
    assert ours == theirs
    assert theirs["conditions"]["fits"] == ("True", "Scheduled", "")
