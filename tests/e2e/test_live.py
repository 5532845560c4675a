"""Mooring on a real API server, under kube-scheduler's own RBAC role: it binds, explains, preempts, and survives."""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

from mooring.releases import release_named
from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Process
from tests.e2e.controlplane.parts import KUBERNETES
from tests.e2e.controlplane.processes import free_port

MOORING = Path(sys.executable).parent / "mooring"
CHEAP = '''
from mooring.framework import Plugin

class Favourite(Plugin):
    """Likes one node more than all others."""

    class Args:
        node: str

    def score(self, state, pod, node):
        return 100 if node.name == self.args.node else 0
'''
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1beta3
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: favourite-scheduler
  plugins:
    score: {enabled: [{name: Favourite, weight: 100}]}
  pluginConfig:
  - {name: Favourite, args: {node: node-2}}
"""


def start_mooring(cluster: Cluster, *flags: str, name: str = "mooring", user: str = "scheduler") -> Process:
    command = [
        str(MOORING),
        "run",
        "--kubeconfig",
        str(cluster.plane.kubeconfig(user)),
        "-v",
        "4",
        "--bind-address",
        "127.0.0.1",
        "--secure-port",
        str(free_port()),
        *flags,
    ]
    return cluster.plane.run(name, command, wait=False)


def test_pods_are_bound_and_the_rest_is_explained(cluster: Cluster) -> None:
    for number in range(3):
        cluster.add_node(f"node-{number}")
    for number in range(3):
        cluster.add_pod(f"pod-{number}", cpu="3")
    cluster.add_pod("big", cpu="40")
    start_mooring(cluster)
    where = cluster.wait_bound("pod-0", "pod-1", "pod-2")
    assert sorted(where.values()) == ["node-0", "node-1", "node-2"]
    claims = "no new claims to deallocate, " if release_named(KUBERNETES).reports_no_deallocation else ""
    assert cluster.wait_unschedulable("big") == (
        f"0/3 nodes are available: 3 Insufficient cpu. {claims}"
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    reasons = cluster.api.wait_for("four events", lambda: _reasons(cluster) if len(cluster.events()) >= 4 else None)
    assert reasons == {"Scheduled": 3, "FailedScheduling": 1}


def _reasons(cluster: Cluster) -> dict[str, int]:
    return dict(Counter(event["reason"] for event in cluster.events()))


def test_a_node_that_appears_wakes_a_waiting_pod(cluster: Cluster) -> None:
    cluster.add_node("small", cpu="1")
    cluster.add_pod("wide", cpu="8")
    start_mooring(cluster)
    cluster.wait_unschedulable("wide")
    cluster.add_node("roomy", cpu="16")
    assert cluster.wait_bound("wide") == {"wide": "roomy"}


def test_preemption_makes_room(cluster: Cluster) -> None:
    cluster.add_node("only", cpu="2")
    cluster.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    cluster.add_pod("low", cpu="2")
    start_mooring(cluster)
    cluster.wait_bound("low")
    cluster.add_pod("high", cpu="2", priorityClassName="urgent")
    assert cluster.wait_bound("high")["high"] == "only"
    assert "low" not in cluster.placements()
    assert cluster.api.wait_for("the event", lambda: cluster.events("Preempted") or None)
    cluster.api.delete("/apis/scheduling.k8s.io/v1/priorityclasses/urgent")


def test_a_plugin_of_ones_own_decides(cluster: Cluster, tmp_path: Path) -> None:
    for number in range(4):
        cluster.add_node(f"node-{number}")
    (tmp_path / "favourite.py").write_text(CHEAP)
    (tmp_path / "config.yaml").write_text(CONFIG)
    plugin = f"Favourite={tmp_path / 'favourite.py'}"
    start_mooring(cluster, "--config", str(tmp_path / "config.yaml"), "--plugin", plugin)
    for number in range(3):
        cluster.add_pod(f"pod-{number}", schedulerName="favourite-scheduler")
    assert set(cluster.wait_bound("pod-0", "pod-1", "pod-2").values()) == {"node-2"}


def test_killed_at_any_moment_it_goes_on_where_it_was(cluster: Cluster) -> None:
    for number in range(5):
        cluster.add_node(f"node-{number}", cpu="8")
    names = [f"pod-{number}" for number in range(60)]
    for name in names:
        cluster.add_pod(name)
    process = start_mooring(cluster, "--no-leader-elect")
    for pause in (0.7, 1.1, 1.6):
        time.sleep(pause)
        process.kill()
        process.start(wait=False)
    cluster.wait_bound(*names)
    assert max(Counter(cluster.placements().values()).values()) <= 80
    bound = [event["regarding"]["name"] for event in cluster.events("Scheduled")]
    assert max(Counter(bound).values(), default=1) == 1


def test_a_second_replica_takes_over(cluster: Cluster) -> None:
    cluster.add_node("node-0")
    first = start_mooring(cluster, name="first")
    cluster.add_pod("before")
    cluster.wait_bound("before")
    second = start_mooring(cluster, name="second")
    cluster.api.wait_for("the second replica", lambda: "Attempting to acquire leader lease" in second.tail() or None)
    first.stop()
    cluster.add_pod("after")
    cluster.wait_bound("after")


def test_the_api_server_may_go_away_for_a_while(cluster: Cluster) -> None:
    cluster.add_node("node-0")
    start_mooring(cluster, "--no-leader-elect")
    cluster.add_pod("before")
    cluster.wait_bound("before")
    cluster.plane.apiserver.restart(kill=True, down=2.0)
    cluster.api.wait_for("API server", lambda: cluster.api.ready() or None)
    cluster.add_pod("after")
    cluster.wait_bound("after")


def test_volumes_that_wait_for_their_pod_are_bound_first(full_cluster: Cluster) -> None:
    cluster, storage = full_cluster, "/apis/storage.k8s.io/v1/storageclasses"
    for number in range(3):
        cluster.add_node(f"node-{number}")
    cluster.api.create(
        storage,
        {
            "metadata": {"name": "local"},
            "provisioner": "kubernetes.io/no-provisioner",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}
    volume = {
        "metadata": {"name": "disk-1"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }
    cluster.api.create("/api/v1/persistentvolumes", volume)
    cluster.api.create(f"/api/v1/namespaces/{cluster.namespace}/persistentvolumeclaims", claim)
    start_mooring(cluster)
    cluster.add_pod("db", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])
    assert cluster.wait_bound("db") == {"db": "node-1"}
    found = cluster.api.get(f"/api/v1/namespaces/{cluster.namespace}/persistentvolumeclaims/data")
    assert (found["status"]["phase"], found["spec"]["volumeName"]) == ("Bound", "disk-1")
    cluster.api.delete(f"{storage}/local")
