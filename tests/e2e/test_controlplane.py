"""The control plane itself: it starts, schedules, survives, and lets users do what RBAC lets them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import ApiFailure, KubectlError, Object
from tests.e2e.controlplane.parts import KUBERNETES

NODE = """
apiVersion: v1
kind: Node
metadata: {{name: {name}, labels: {{kubernetes.io/hostname: {name}}}}}
status:
  allocatable: {{cpu: "4", memory: 8Gi, pods: "10"}}
  capacity: {{cpu: "4", memory: 8Gi, pods: "10"}}
  conditions: [{{type: Ready, status: "True"}}]
"""
VOLUME = """
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume-a}
spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce], hostPath: {path: /nowhere}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim-a}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  containers: [{{name: c, image: example/app:1, resources: {{requests: {{cpu: "{cpu}"}}}}}}]
"""


def test_kube_scheduler_binds_what_kubectl_made(cluster: Cluster) -> None:
    """The whole way: kubectl makes nodes and pods, kube-scheduler binds what fits and says why the rest does not."""
    nodes = [NODE.format(name=f"node-{number}") for number in range(3)]
    pods = [POD.format(name=f"pod-{number}", cpu="3") for number in range(3)]
    cluster.kubectl("apply", "-f", "-", stdin="---".join([*nodes, *pods, POD.format(name="big", cpu="40")]))
    cluster.plane.start_kube_scheduler()
    where = cluster.wait_bound("pod-0", "pod-1", "pod-2")
    assert sorted(where.values()) == ["node-0", "node-1", "node-2"]
    message = cluster.wait_unschedulable("big")
    assert message.startswith("0/3 nodes are available: 3 Insufficient cpu.")
    reasons = {each["reason"] for each in cluster.api.wait_for("events", cluster.events)}
    assert reasons <= {"Scheduled", "FailedScheduling"}


@pytest.mark.parametrize("turn", ["first", "second"])
def test_each_test_finds_the_cluster_empty(cluster: Cluster, turn: str) -> None:
    """What the test before made is gone, protected volumes and roles too, and its scheduler with it."""
    assert cluster.api.items("/api/v1/nodes") == []
    assert cluster.api.items("/api/v1/pods") == []
    assert cluster.api.items("/api/v1/persistentvolumes") == []
    assert [process.name for process in cluster.plane.processes] == ["etcd", "kube-apiserver"]
    cluster.add_node("node-a")
    cluster.add_pod("pod-a", nodeName="node-a")
    cluster.kubectl("apply", "-f", "-", stdin=VOLUME)
    cluster.kubectl("create", "clusterrole", "reader", "--verb=get", "--resource=pods")
    cluster.kubectl("create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=nobody")
    assert cluster.kubectl("get", "clusterrole", "cluster-admin", "-o", "name")
    cluster.plane.start_kube_scheduler(wait=False)


def test_the_server_knows_its_version(cluster: Cluster) -> None:
    """Clients judge a server by its version."""
    assert cluster.api.get("/version")["gitVersion"] == f"v{KUBERNETES}"


@pytest.mark.parametrize(
    ("user", "path", "allowed"),
    [
        ("admin", "/api/v1/secrets", True),
        ("scheduler", "/api/v1/nodes", True),
        ("scheduler", "/api/v1/secrets", False),
        ("mooring", "/api/v1/nodes", False),
        ("nobody", "/api/v1/pods", False),
    ],
)
def test_rbac_is_on(cluster: Cluster, user: str, path: str, allowed: bool) -> None:
    """Users may do what their roles say and nothing else."""
    with contextlib.closing(cluster.plane.api_as(user)) as api:
        if allowed:
            api.get(path)
            return
        with pytest.raises(ApiFailure) as caught:
            api.get(path)
    assert caught.value.status == 403


def test_kubectl_failures_are_errors(cluster: Cluster) -> None:
    """What kubectl says is the error's message."""
    with pytest.raises(KubectlError, match='pods "absent" not found'):
        cluster.kubectl("get", "pod", "absent")


@pytest.mark.parametrize("kill", [False, True])
def test_data_survive_restarts(cluster: Cluster, kill: bool) -> None:
    """etcd and the API server can be stopped or killed in the midst of a test."""
    cluster.add_pod("survivor")
    cluster.plane.apiserver.restart(kill=kill)
    cluster.plane.etcd.restart(kill=kill)
    pod = cluster.api.wait_for("pod", lambda: _quietly(cluster, "survivor"))
    assert pod["metadata"]["name"] == "survivor"


def _quietly(cluster: Cluster, name: str) -> Object | None:
    try:
        return cluster.pod(name)
    except (ApiFailure, OSError):
        return None


def test_compaction_forgets_old_versions(cluster: Cluster) -> None:
    """Lists at a version from before a compaction are gone, once the server's own memory of it is."""
    first = cluster.add_pod("first")["metadata"]["resourceVersion"]
    cluster.add_pod("second")
    cluster.plane.compact()
    cluster.plane.apiserver.restart(kill=True)
    exact = f"/api/v1/namespaces/{cluster.namespace}/pods?resourceVersion={first}&resourceVersionMatch=Exact"
    with pytest.raises(ApiFailure) as caught:
        cluster.api.get(exact)
    assert caught.value.status == 410


def test_deployments_run(full_cluster: Cluster) -> None:
    """Controllers make pods, kube-scheduler binds them, and KWOK runs them on nodes that it keeps ready."""
    full_cluster.plane.start_kube_scheduler()
    full_cluster.add_node("node-a")
    full_cluster.kubectl("create", "deployment", "web", "--image=example/web:1", "--replicas=3")
    full_cluster.kubectl("rollout", "status", "deployment/web", "--timeout=90s")
    full_cluster.kubectl("create", "job", "once", "--image=example/once:1")
    full_cluster.kubectl("wait", "--for=condition=Complete", "job/once", "--timeout=90s")
    full_cluster.kubectl("delete", "deployment", "web", "--timeout=90s")
    full_cluster.api.wait_for("deletion", lambda: len(full_cluster.pods()) <= 1)


ORPHANS = """
import os, time
from tests.e2e.controlplane import ControlPlane
plane = ControlPlane()
plane.etcd.start()
print(plane.etcd.pid, plane.folder, flush=True)
time.sleep(600)
"""


def test_nothing_outlives_a_killed_test_run(built: None) -> None:
    """The processes go even when the tests are killed without a chance to stop them."""
    child = subprocess.Popen([sys.executable, "-c", ORPHANS], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    pid, folder = child.stdout.readline().split()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    deadline = time.monotonic() + 30
    while os.path.exists(folder) or _alive(int(pid)):
        assert time.monotonic() < deadline, "etcd or its folder is still there"
        time.sleep(0.05)


def _alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
