"""Gangs through every fault: each is bound whole or not at all, and nothing is bound twice."""

from __future__ import annotations

import random
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Process
from tests.e2e.faults.plans import Call, Kind, Plan
from tests.e2e.faults.proxy import FaultProxy
from tests.e2e.faults.trial import Trial
from tests.e2e.mooring_process import MOORING, mooring_command
from tests.e2e.test_faults_calls import WRITES, everywhere

GANGS, SIZE, NODES, PER_NODE = 30, 10, 16, 20
CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""


class Gangs(Trial):
    """Gangs for which there is room, and one that is twice as large as what they leave."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        super().__init__(cluster, nodes=NODES, per_node=PER_NODE)
        self._conf = folder / "volcano-scheduler.conf"
        self._conf.write_text(CONF)
        install = [str(MOORING), "batch", "install", "--kubeconfig", str(cluster.plane.kubeconfig())]
        subprocess.run(install, check=True, capture_output=True)
        for number in range(GANGS):
            self._gang(f"gang-{number}", SIZE)
        self._gang("huge", 2 * (self.count - GANGS * SIZE))

    def _gang(self, name: str, pods: int) -> None:
        namespace = self.cluster.namespace
        path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups"
        head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
        self.cluster.api.create(path, {**head, "spec": {"minMember": pods, "queue": "default"}})
        metadata = {"annotations": {"scheduling.k8s.io/group-name": name}, "labels": {"gang": name}}
        for number in range(pods):
            self.cluster.add_pod(f"{name}-task-{number}", metadata=metadata, schedulerName="volcano")

    def start_sessions(self, kubeconfig: Path) -> Process:
        """Start Mooring with sessions only."""
        name = f"mooring-{self.cluster.namespace}"
        sessions = ("--scheduler-conf", str(self._conf), "--leader-elect=false", "--schedule-period=200ms")
        # Of two kubeconfigs the last counts.
        command = mooring_command(self.cluster.plane, *sessions, "--kubeconfig", str(kubeconfig))
        process = self.cluster.plane.run(name, command, wait=False)
        self._schedulers.append(process)
        return process

    def check_gangs(self) -> None:
        """Every gang is whole, but for the one that does not fit, of which nothing is bound."""
        placed: Counter[str] = Counter()
        for pod in self.cluster.pods():
            placed[pod["metadata"]["labels"]["gang"]] += bool(pod["spec"].get("nodeName"))
        assert placed == {"huge": 0, **{f"gang-{number}": SIZE for number in range(GANGS)}}


@pytest.mark.parametrize(
    ("faults", "often", "most"),
    [
        pytest.param(everywhere("429", "500", "503"), 0.08, 200, id="refused"),
        pytest.param(
            {**dict.fromkeys(WRITES, ("409",)), "watch": ("gone",), "page": ("gone",)}, 0.1, 200, id="conflicts"
        ),
        pytest.param(everywhere("unsaid", "unheard", "torn", "garbled"), 0.15, 400, id="broken"),
        pytest.param(dict.fromkeys(WRITES, ("silent", "mute")), 0.02, 8, id="silence"),
    ],
)
def test_no_gang_is_left_half_bound(
    cluster: Cluster, tmp_path: Path, faults: dict[Call, tuple[Kind, ...]], often: float, most: int
) -> None:
    plan = Plan(3, faults, often=often, most=most)
    with FaultProxy(cluster.plane, plan) as proxy, Gangs(cluster, tmp_path) as trial:
        mooring = trial.start_sessions(proxy.kubeconfig("admin"))
        trial.wait_all_bound()
        assert plan.happened
        plan.active = False
        trial.check(mooring)
        trial.check_gangs()


def test_killed_again_and_again_it_completes_every_gang(cluster: Cluster, tmp_path: Path) -> None:
    rng = random.Random(11)
    with Gangs(cluster, tmp_path) as trial:
        mooring = trial.start_sessions(cluster.plane.kubeconfig())
        for number in range(5):
            trial.history.wait_bound(GANGS * SIZE // 6 * number + rng.randrange(1, 30))
            time.sleep(rng.random() * 0.05)
            mooring.kill()
            mooring.start(wait=False)
        trial.wait_all_bound()

        def works() -> bool:
            """Whether the process that was started last is at work: before, a signal would end it."""
            return '"Scheduling"' in mooring.log.read_text(errors="replace").rpartition("$ ")[2]

        cluster.api.wait_for("scheduler", works)
        trial.check(mooring)
        trial.check_gangs()
