"""Both engines on nodes with room for one pod: no node is ever overcommitted, as the API server's watch shows."""

from __future__ import annotations

import itertools
import subprocess
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Process
from tests.e2e.faults.history import History
from tests.e2e.faults.plans import NOTHING, Plan
from tests.e2e.faults.proxy import FaultProxy
from tests.e2e.mooring_process import MOORING, mooring_command

PLUGIN: Final = '''
import asyncio

from mooring.framework import PermitWait, Plugin, Status


class Holder(Plugin):
    """Holds pods at Permit or in PreBind for as many seconds as their labels say; `fails` makes PreBind fail once."""

    def setup(self):
        self._failed = set()

    def permit(self, state, pod, node_name):
        seconds = pod.labels.get("permit")
        return None if seconds is None else PermitWait(60, allow_after=float(seconds))

    def pre_bind_pre_flight(self, state, pod, node_name):
        return None if "prebind" in pod.labels else Status.skip()

    async def pre_bind(self, state, pod, node_name):
        await asyncio.sleep(float(pod.labels["prebind"]))
        if "fails" in pod.labels and pod.uid not in self._failed:
            self._failed.add(pod.uid)
            return Status.error("the storage is not ready")
        return None
'''
CONFIG: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
clientConnection: {kubeconfig: KUBECONFIG, qps: 1000, burst: 2000}
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Holder}]}}
"""
CONF: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}, {name: binpack}]
"""
_NUMBERS: Final = itertools.count(1)


class World:
    """Nodes of one size, the history of their pods, and Mooring with both engines. A context manager."""

    def __init__(self, cluster: Cluster, folder: Path, *, nodes: int, cpu: str, plan: Plan = NOTHING) -> None:
        self.cluster = cluster
        self._folder = folder
        self._plan = plan
        self._proxy = FaultProxy(cluster.plane, plan)
        self._room = 1000 * int(cpu)
        install = [str(MOORING), "batch", "install", "--kubeconfig", str(cluster.plane.kubeconfig())]
        subprocess.run(install, check=True, capture_output=True)
        for number in range(nodes):
            cluster.add_node(f"node-{number}", cpu=cpu, memory="64Gi")
        self.history = History(cluster.plane, cluster.namespace)

    def __enter__(self) -> World:
        self._proxy.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.history.close()
        self.mooring.stop(timeout=10.0)
        self._proxy.__exit__()

    def start(self) -> None:
        """Start Mooring with both engines, behind the proxy."""
        kubeconfig = str(self._proxy.kubeconfig("admin"))
        plugin, config, conf = (self._folder / name for name in ("holder.py", "scheduler.yaml", "volcano.conf"))
        plugin.write_text(PLUGIN)
        config.write_text(CONFIG.replace("KUBECONFIG", kubeconfig))
        conf.write_text(CONF)
        files = ("--config", str(config), "--plugin", f"Holder={plugin}", "--scheduler-conf", str(conf))
        command = mooring_command(self.cluster.plane, *files, "--schedule-period=100ms", "--kubeconfig", kubeconfig)
        name = f"mooring-overcommit-{next(_NUMBERS)}"
        self.mooring: Process = self.cluster.plane.run(name, command, wait=False)
        self.cluster.api.wait_for("scheduler", lambda: '"Scheduling"' in self._log() or "Scheduling " in self._log())

    def _log(self) -> str:
        return self.mooring.log.read_text(errors="replace")

    def single(self, name: str, cpu: str, **labels: str) -> None:
        """Create a pod for the pod-by-pod engine; labels say how it is held."""
        self.cluster.add_pod(name, cpu=cpu, metadata={"labels": labels})

    def gang(self, name: str, pods: int, cpu: str) -> None:
        """Create a gang for batch sessions."""
        path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{self.cluster.namespace}/podgroups"
        head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
        self.cluster.api.create(path, {**head, "spec": {"minMember": pods, "queue": "default"}})
        metadata: dict[str, Any] = {
            "annotations": {"scheduling.k8s.io/group-name": name},
            "labels": {"gang": name},
        }
        for number in range(pods):
            self.cluster.add_pod(f"{name}-task-{number}", cpu=cpu, metadata=metadata, schedulerName="volcano")

    def overcommitted(self) -> dict[str, int]:
        """Return the nodes whose pods ever requested more than there is, with the peak in millicores."""
        return {node: peak for node, peak in self.history.peaks.items() if peak > self._room}

    def bound(self) -> list[str]:
        """Return the pods that are bound, by name."""
        return sorted(self.cluster.placements())

    def wait_held(self, *names: str) -> None:
        """Wait until pods are assumed on a node and held there: Mooring then nominates the node."""

        def look() -> bool:
            found = {pod["metadata"]["name"]: pod for pod in self.cluster.pods()}
            return all(found[name].get("status", {}).get("nominatedNodeName") for name in names)

        self.cluster.api.wait_for("held pods", look, 30)

    def wait_decided(self, name: str) -> None:
        """Wait until a pod is bound, or known to be unschedulable."""

        def look() -> bool:
            pod = self.cluster.pod(name)
            conditions = pod.get("status", {}).get("conditions", ())
            return bool(pod["spec"].get("nodeName")) or any(each["type"] == "PodScheduled" for each in conditions)

        self.cluster.api.wait_for(f"decision about {name}", look, 30)


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({"permit": "3"}, id="held at Permit"),
        pytest.param({"prebind": "3"}, id="slow PreBind"),
    ],
)
def test_a_session_leaves_the_room_of_a_pod_that_is_not_bound_yet(
    cluster: Cluster, tmp_path: Path, labels: dict[str, str]
) -> None:
    with World(cluster, tmp_path, nodes=1, cpu="4") as world:
        world.start()
        world.single("single", "4", **labels)
        world.wait_held("single")
        world.gang("gang", 1, "4")
        world.wait_decided("gang-task-0")
        cluster.wait_bound("single")
        assert world.bound() == ["single"]
        assert world.overcommitted() == {}


@pytest.mark.parametrize("kind", ["slow", "late"])
@pytest.mark.parametrize("first", ["single", "gang"])
def test_neither_engine_uses_the_room_of_a_bind_in_flight(
    cluster: Cluster, tmp_path: Path, first: str, kind: Any
) -> None:
    """The first bind takes up to two seconds, or fails after that; the other engine tries meanwhile."""
    plan = Plan(4, {"bind": (kind,)}, often=1.0, most=1)
    with World(cluster, tmp_path, nodes=1, cpu="4", plan=plan) as world:
        world.start()
        for each in (first, "gang" if first == "single" else "single"):
            if each == "single":
                world.single("single", "4")
            else:
                world.gang("gang", 1, "4")
            cluster.api.wait_for("a bind", plan.happened.total, 30)
        cluster.api.wait_for("a bound pod", world.bound, 60)
        for name in ("single", "gang-task-0"):
            world.wait_decided(name)
        assert len(world.bound()) == 1
        assert world.overcommitted() == {}


def test_gangs_and_held_pods_share_nodes_with_room_for_one_pod_each(cluster: Cluster, tmp_path: Path) -> None:
    """Twelve nodes; six held pods, half of which fail once, and gangs of one to three. Some binds fail late."""
    plan = Plan(5, {"bind": ("late", "slow")}, often=0.3, most=8)
    with World(cluster, tmp_path, nodes=12, cpu="1", plan=plan) as world:
        world.start()
        for number in range(3):
            world.single(f"permit-{number}", "1", permit=str(2 + number))
            world.single(f"prebind-{number}", "1", prebind=str(2 + number), fails="once")
        world.wait_held(*(f"{kind}-{number}" for kind in ("permit", "prebind") for number in range(3)))
        for number in range(3):
            world.gang(f"gang-{number}", 1 + number, "1")
        cluster.api.wait_for("a pod on every node", lambda: len(world.bound()) == 12, 60)
        assert world.overcommitted() == {}
        assert world.history.changes_of_mind() == {}


def test_soak_of_both_engines(cluster: Cluster, tmp_path: Path) -> None:
    """Two thousand pods, half of them in gangs, fill the nodes to the last core while binds fail and pods are held."""
    nodes, per_node, size = 40, 50, 10
    held = {0: {"permit": "1"}, 1: {"prebind": "0.5", "fails": "once"}}
    plan = Plan(6, {"bind": ("late", "slow", "500", "unheard")}, often=0.03, most=60)
    with World(cluster, tmp_path, nodes=nodes, cpu=str(per_node), plan=plan) as world:
        world.start()
        half = nodes * per_node // 2
        for number in range(half):
            world.single(f"single-{number}", "1", **held.get(number % 20, {}))
            if number % size == 0:
                world.gang(f"gang-{number // size}", size, "1")
        cluster.api.wait_for("a node for every pod", lambda: world.history.bound == 2 * half, 90)
        assert world.overcommitted() == {}
        assert world.history.changes_of_mind() == {}
        gangs: Counter[str] = Counter()
        for pod in cluster.pods():
            assert pod["spec"].get("nodeName")
            gangs[pod["metadata"].get("labels", {}).get("gang", "")] += 1
        assert len(cluster.pods()) == 2 * half
        assert {count for name, count in gangs.items() if name} == {size}
        assert plan.happened
