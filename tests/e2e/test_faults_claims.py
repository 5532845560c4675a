"""Writes of resource claims that fail in every way there is, with a scheduler that is killed in between.

No device is allocated twice, and nothing is left when the pods are gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.faults.plans import Call, Fault, Kind, Plan
from tests.e2e.faults.proxy import FaultProxy
from tests.e2e.mooring_process import MOORING, mooring_command
from tests.e2e.test_devices_live import Devices
from tests.e2e.test_faults_batch import CONF

CALLS: tuple[Call, ...] = ("claim", "bind", "get", "status")
PODS, EXTENDED = 20, 4


@pytest.fixture
def devices(full_cluster: Cluster) -> Iterator[Devices]:
    made = Devices(full_cluster)
    yield made
    made.clean_up()


def start(devices: Devices, proxy: FaultProxy, *flags: str, user: str = "scheduler") -> Any:
    plane = devices.cluster.plane
    # Of two kubeconfigs the last counts.
    flags = ("--leader-elect=false", "--kubeconfig", str(proxy.kubeconfig(user)), *flags)
    return plane.run("mooring", mooring_command(plane, *flags), wait=False)


def users(devices: Devices) -> list[list[str]]:
    reserved = (claim["status"].get("reservedFor", ()) for claim in devices.claims())
    return sorted(sorted(each["name"] for each in references) for references in reserved)


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(("409", "429", "500", "503"), id="refused"),
        pytest.param(("unsaid", "unheard"), id="broken connections"),
        pytest.param(("torn", "garbled", "late"), id="broken answers"),
    ],
)
def test_no_device_is_allocated_twice_and_nothing_is_left(devices: Devices, kinds: tuple[Kind, ...]) -> None:
    for node in range(3):
        devices.add_node(f"n{node}", 8)
    names = [f"p{number}" for number in range(PODS)] + [f"e{number}" for number in range(EXTENDED)]
    for name in names:
        if name.startswith("p"):
            devices.add_pod(name)
        else:
            devices.add_extended(name)
    plan = Plan(1, dict.fromkeys(CALLS, kinds), often=0.25, most=60)
    with FaultProxy(devices.cluster.plane, plan) as proxy:
        first = start(devices, proxy)
        devices.api.wait_for("first claims", lambda: len(devices.allocated()) >= 4 or None)
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
        start(devices, proxy)
        devices.cluster.wait_bound(*names, timeout=150.0)
        assert any(call == "claim" for call, _ in plan.happened), plan.happened
        plan.active = False
        found = devices.allocated()
        assert (len(found), set(found.values())) == (len(names), {1})
        assert users(devices) == sorted([name] for name in names)
        for name in names:
            devices.api.delete(f"/api/v1/namespaces/{devices.cluster.namespace}/pods/{name}")
        devices.api.wait_for("release of all claims", lambda: not devices.allocated() or None, 90)
        # All devices are free again: as many pods get them.
        later = [f"later-{number}" for number in range(len(names))]
        for name in later:
            devices.add_pod(name)
        devices.cluster.wait_bound(*later, timeout=60.0)
        assert set(devices.allocated().values()) == {1}


def written_after_bind(proxy: FaultProxy, pod: str) -> bool:
    """Return whether the scheduler wrote to the claim of a pod after the last bind of the pod."""
    calls = [
        target.partition("?")[0].endswith(f"/pods/{pod}/binding")
        for _, method, target in proxy.requests
        if target.partition("?")[0].endswith(f"/pods/{pod}/binding")
        or (method != "GET" and f"/resourceclaims/{pod}-gpu-" in target)
    ]
    return not calls[-1]


class LateRemovals(Plan):
    """The first bind of each pod is refused, and the write to its claim that follows, the removal, is late."""

    def __init__(self) -> None:
        super().__init__(0, {}, often=0.0)
        self._refused: set[str] = set()
        self._delayed: set[str] = set()

    def draw(self, method: str, target: str) -> Fault | None:
        path = target.partition("?")[0]
        if path.endswith("/binding") and (pod := path.split("/")[-2]) not in self._refused:
            self._refused.add(pod)
            self.happened["bind", "409"] += 1
            return Fault("409", 1.0)
        if method == "PATCH" and "/resourceclaims/" in path:
            pod = path.split("/resourceclaims/")[1].partition("-gpu-")[0]
            if pod in self._refused - self._delayed:
                self._delayed.add(pod)
                self.happened["claim", "late"] += 1
                return Fault("late", 1.0)
        return None


FAULTS: dict[Call, tuple[Kind, ...]] = {"bind": ("409", "500"), "claim": ("409", "500")}
BREAKS: dict[Call, tuple[Kind, ...]] = {"bind": ("unsaid", "unheard"), "claim": ("unsaid", "unheard")}


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(Plan(2, FAULTS, often=0.3, most=16), id="refused"),
        pytest.param(Plan(3, BREAKS, often=0.4, most=24), id="broken connections"),
        pytest.param(LateRemovals(), id="late removals"),
    ],
)
def test_a_session_gives_no_device_away_while_a_failed_bind_still_holds_it(
    devices: Devices, tmp_path: Path, plan: Plan
) -> None:
    """The next session may start while the reservations of a pod whose bind failed are being removed.

    The pods of the gang d share a claim.
    """
    cluster, plane = devices.cluster, devices.cluster.plane
    (tmp_path / "volcano-scheduler.conf").write_text(CONF)
    install = [str(MOORING), "batch", "install", "--kubeconfig", str(plane.kubeconfig())]
    subprocess.run(install, check=True, capture_output=True)
    for node in range(2):
        devices.add_node(f"n{node}", 8)
    names, sharing = [], [f"d-{number}" for number in range(4)]
    shared = "d-0-gpu-shared"
    spec = {"devices": {"requests": [devices.request()]}}
    devices.api.create(f"{devices.space}/resourceclaims", {"metadata": {"name": shared}, "spec": spec})
    for gang in ("a", "b", "c", "d"):
        path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{cluster.namespace}/podgroups"
        head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": gang}}
        devices.api.create(path, {**head, "spec": {"minMember": 1 if gang == "d" else 4, "queue": "default"}})
        for number in range(4):
            names.append(f"{gang}-{number}")
            metadata = {"annotations": {"scheduling.k8s.io/group-name": gang}}
            if gang == "d":
                claims = [{"name": "gpu", "resourceClaimName": shared}]
                cluster.add_pod(names[-1], resourceClaims=claims, metadata=metadata, schedulerName="volcano")
            else:
                devices.add_pod(names[-1], metadata=metadata, schedulerName="volcano")
    with FaultProxy(plane, plan) as proxy:
        flags = ("--scheduler-conf", str(tmp_path / "volcano-scheduler.conf"), "--schedule-period=100ms")
        start(devices, proxy, *flags, user="admin")
        cluster.wait_bound(*names, timeout=120.0)
        assert {call for call, _ in plan.happened} == {"bind", "claim"}, plan.happened
        plan.active = False
        found = devices.allocated()
        alone = [name for name in names if name not in sharing]
        assert (len(found), set(found.values())) == (len(alone) + 1, {1})
        assert users(devices) == sorted([*([name] for name in alone), sharing])
        # The controller manager would repair a reservation that is removed too late.
        assert {name for name in alone if written_after_bind(proxy, name)} == set()
        for name in names:
            devices.api.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/{name}")
        devices.api.wait_for("release of all claims", lambda: not devices.allocated() or None, 90)
