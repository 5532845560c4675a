"""Queues, groups and jobs on a real API server, with real controllers and played kubelets, under the roles we print."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Object, Process, free_port
from tests.e2e.endpoints import is_ready
from tests.e2e.mooring_process import MOORING, mooring_command
from tests.e2e.test_rbac import grant, rbac

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
HOME = "batch-system"


def mooring(cluster: Cluster, *arguments: str) -> str:
    """Run a command as a user of the cluster would."""
    command = [str(MOORING), *arguments, "--kubeconfig", str(cluster.plane.kubeconfig())]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, f"{' '.join(arguments)}: {done.stderr or done.stdout}"
    return done.stdout


def start_controller(cluster: Cluster, name: str = "controllers", user: str = "robot") -> Process:
    port = free_port()
    command = [str(MOORING), "controller", "--kubeconfig", str(cluster.plane.kubeconfig(user))]
    command += ["--bind-address", "127.0.0.1", "--secure-port", str(port), "-v", "4"]
    return cluster.plane.run(name, command, ready=lambda: is_ready(port))


@pytest.fixture
def batch(full_cluster: Cluster) -> Iterator[tuple[Cluster, Process]]:
    """Three nodes of four cores, the definitions, the controller under its own roles, and batch sessions."""
    cluster = full_cluster
    for number in range(3):
        cluster.add_node(f"node-{number}", cpu="4")
    mooring(cluster, "batch", "install")
    grant(cluster, HOME, rbac("--controller", "-n", HOME))
    process = start_controller(cluster)
    flags = ("--scheduler-name", "volcano", "--leader-elect=false")
    cluster.plane.run("sessions", mooring_command(cluster.plane, *flags, user="admin"), wait=False)
    yield cluster, process
    log = process.log.read_text()
    assert "Traceback" not in log
    assert "orbidden" not in log


def job(name: str, *tasks: Object, **spec: Any) -> Object:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"tasks": list(tasks), **spec},
    }


def task(name: str, replicas: int, cpu: str = "1", **more: Any) -> Object:
    container = {"name": "c", "image": "example/app:1", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **more}


def apply(cluster: Cluster, *documents: Object) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(documents))


def jobs(cluster: Cluster) -> str:
    return f"/apis/batch.volcano.sh/v1alpha1/namespaces/{cluster.namespace}/jobs"


def groups(cluster: Cluster) -> str:
    return f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{cluster.namespace}/podgroups"


def phase(cluster: Cluster, name: str) -> str:
    found: Object = cluster.api.get(f"{jobs(cluster)}/{name}")
    return str(found.get("status", {}).get("state", {}).get("phase", ""))


def reach(cluster: Cluster, name: str, *phases: str) -> Object:
    cluster.api.wait_for(f"job {name} to be {phases}", lambda: phase(cluster, name) in phases, 90)
    found: Object = cluster.api.get(f"{jobs(cluster)}/{name}")
    return found["status"]


def test_a_job_from_submission_to_its_end(batch: tuple[Cluster, Process]) -> None:
    cluster, _ = batch
    cluster.api.wait_for("the default queue", lambda: state(cluster, "default") == "Open")
    apply(cluster, job("train", task("master", 1), task("worker", 3), plugins={"env": [], "svc": []}))
    done = reach(cluster, "train", "Completed")
    assert (done["succeeded"], done["minAvailable"]) == (4, 4)
    assert done["conditions"][0]["status"] == "Pending"
    pods = {each["metadata"]["name"]: each for each in cluster.pods()}
    assert sorted(pods) == ["train-master-0", "train-worker-0", "train-worker-1", "train-worker-2"]
    container = pods["train-worker-2"]["spec"]["containers"][0]
    assert {"name": "VC_TASK_INDEX", "value": "2"} in container["env"]
    table = cluster.kubectl("get", "vcjob").splitlines()
    assert table[0].split() == ["NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE"]
    # Its end takes everything with it, through the cluster's own garbage collector.
    cluster.kubectl("patch", "vcjob", "train", "--type=merge", "-p", '{"spec":{"ttlSecondsAfterFinished":1}}')
    cluster.api.wait_for("the job to go", lambda: not cluster.api.items(jobs(cluster)), 90)
    cluster.api.wait_for("its pods to go", lambda: not cluster.pods(), 90)


def test_a_gang_that_does_not_fit_is_explained_suspended_and_resumed(batch: tuple[Cluster, Process]) -> None:
    cluster, _ = batch
    apply(cluster, job("wide", task("part", 3, cpu="5")))
    where = ("-n", cluster.namespace)

    def why() -> Object | None:
        found = json.loads(mooring(cluster, "explain", "job", "wide", "-o", "json", *where))
        return found if found.get("gate") in ("quota", "nodes") else None

    found = cluster.api.wait_for("an explanation", why)
    assert found["minMember"] == 3
    assert not cluster.placements()
    mooring(cluster, "job", "suspend", "wide", *where)
    reach(cluster, "wide", "Aborted")
    assert not cluster.api.items(groups(cluster))
    mooring(cluster, "job", "resume", "wide", *where)
    reach(cluster, "wide", "Restarting", "Pending")
    assert "wide" in mooring(cluster, "job", "list", *where)


def test_plain_pods_and_deployments_get_groups(batch: tuple[Cluster, Process]) -> None:
    cluster, _ = batch
    cluster.add_pod("alone", schedulerName="volcano")
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "example/app:1"}]},
    }
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "annotations": {"scheduling.volcano.sh/group-min-member": "2"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    apply(cluster, deployment)
    cluster.wait_bound("alone")
    cluster.api.wait_for("three bound pods", lambda: len(cluster.placements()) == 3)
    least = sorted(each["spec"]["minMember"] for each in cluster.api.items(groups(cluster)))
    assert least == [1, 2]
    cluster.kubectl("scale", "deployment", "web", "--replicas=0")
    cluster.api.wait_for("the group to go", lambda: len(cluster.api.items(groups(cluster))) == 1)


def test_queues_close_and_open(batch: tuple[Cluster, Process]) -> None:
    cluster, _ = batch
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    apply(cluster, {**queue, "metadata": {"name": "top"}, "spec": {}})
    apply(cluster, {**queue, "metadata": {"name": "low"}, "spec": {"parent": "top"}})
    cluster.api.wait_for("open queues", lambda: state(cluster, "low") == "Open" == state(cluster, "top"))
    mooring(cluster, "queue", "close", "top")
    cluster.api.wait_for("closed queues", lambda: state(cluster, "low") == "Closed" == state(cluster, "top"))
    assert "Closed" in mooring(cluster, "queue", "list")
    mooring(cluster, "queue", "open", "top")
    cluster.api.wait_for("open queues", lambda: state(cluster, "low") == "Open" == state(cluster, "top"))


def test_a_controller_that_was_killed_is_replaced(batch: tuple[Cluster, Process], tmp_path: Path) -> None:
    """Nothing is remembered but what the cluster has; the lease passes on."""
    cluster, process = batch
    apply(cluster, job("first", task("t", 1)))
    reach(cluster, "first", "Completed")
    process.kill()
    apply(cluster, job("second", task("t", 2)))
    start_controller(cluster, "controllers-again")
    reach(cluster, "second", "Completed")


def state(cluster: Cluster, name: str) -> str:
    found = {each["metadata"]["name"]: each for each in cluster.api.items(QUEUES)}
    return str(found.get(name, {}).get("status", {}).get("state", ""))
