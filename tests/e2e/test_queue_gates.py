"""Scheduling gates of queues on a real API server: the webhook adds them, and sessions remove them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.api.volcano import QUEUE_GATE
from mooring.controllers.admission.manifests import QUEUE_GATE_CONDITION, configurations
from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Process, free_port
from tests.e2e.endpoints import is_ready
from tests.e2e.mooring_process import MOORING, mooring_command
from tests.e2e.test_admission import GROUP, KINDS, NAME, SECRET
from tests.e2e.test_controllers import groups, mooring, state
from tests.e2e.test_rbac import grant, rbac

HOME = "gate-system"
CONF = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins: [{name: predicates}, {name: capacity}, {name: nodeorder}]
"""
GATES = "--feature-gates=SchedulingGatesQueueAdmission=true"
QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}


@pytest.fixture
def gated(full_cluster: Cluster, tmp_path: Path) -> Iterator[tuple[Cluster, Path]]:
    """A cluster whose API server calls the webhook for pods that request the gate, and a queue of two cores."""
    cluster, port = full_cluster, free_port()
    cluster.add_node("node-0", cpu="8")
    mooring(cluster, "batch", "install")
    (document,) = configurations(NAME, {"url": f"https://127.0.0.1:{port}"}, ("/pods/mutate",))
    document["webhooks"][0]["matchConditions"] = [QUEUE_GATE_CONDITION]
    cluster.api.create(f"{GROUP}/{KINDS[0]}", document)
    command = [str(MOORING), "controller", "--kubeconfig", str(cluster.plane.kubeconfig()), GATES]
    command += ["--enabled-admission=/pods/mutate", "--bind-address", "127.0.0.1", "--secure-port", str(port)]
    process = cluster.plane.run("gating", command, ready=lambda: is_ready(port))
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text(CONF)
    grant(cluster, HOME, rbac("-n", HOME, "--name", HOME, "--scheduler-conf", str(conf), "--queue-gates"))
    place = "/apis/scheduling.volcano.sh/v1beta1/queues"
    cluster.api.create(place, {**QUEUE, "metadata": {"name": "q"}, "spec": {"capability": {"cpu": "2"}}})
    cluster.api.wait_for("the queue", lambda: state(cluster, "q") == "Open")
    group = {"metadata": {"name": "g"}, "spec": {"minMember": 1, "queue": "q"}}
    cluster.api.create(groups(cluster), {**QUEUE, "kind": "PodGroup", **group})
    try:
        yield cluster, conf
    finally:
        cluster.api.delete(f"{GROUP}/{KINDS[0]}/{NAME}")
        process.stop()
        cluster.api.delete(SECRET)
        cluster.api.delete(f"{place}/q")
    assert "Traceback" not in process.log.read_text()


def start(cluster: Cluster, conf: Path, name: str) -> Process:
    flags = (f"--scheduler-conf={conf}", "--leader-elect=false", "--schedule-period=200ms", GATES)
    return cluster.plane.run(name, mooring_command(cluster.plane, *flags, user="robot"), wait=False)


def add(cluster: Cluster, name: str, **spec: object) -> None:
    annotations = {"scheduling.k8s.io/group-name": "g", QUEUE_GATE: "true"}
    cluster.add_pod(name, cpu="1", metadata={"annotations": annotations}, schedulerName="volcano", **spec)


def gates(cluster: Cluster, name: str) -> list[str]:
    return [each["name"] for each in cluster.pod(name)["spec"].get("schedulingGates", ())]


def waiting(cluster: Cluster) -> list[str]:
    return sorted(each["metadata"]["name"] for each in cluster.pods() if each["spec"].get("schedulingGates"))


def test_pods_wait_behind_their_gate_until_the_queue_has_room(gated: tuple[Cluster, Path]) -> None:
    cluster, conf = gated
    # Other pods do not need the webhook.
    cluster.add_pod("plain", schedulerName="none")
    assert gates(cluster, "plain") == []
    for number in range(4):
        add(cluster, f"p-task-{number}")
    assert len(waiting(cluster)) == 4
    # A process that is killed while it removes gates, and another that goes on.
    first = start(cluster, conf, "sessions")
    cluster.api.wait_for("the first gate to go", lambda: len(waiting(cluster)) < 4, 60)
    first.kill()
    second = start(cluster, conf, "sessions-again")
    cluster.api.wait_for("two pods to be placed", lambda: len(cluster.placements()) == 2, 60)
    assert len(waiting(cluster)) == 2
    reasons = [
        condition.get("reason")
        for each in cluster.pods()
        if each["spec"].get("schedulingGates")
        for condition in each["status"]["conditions"]
    ]
    assert reasons == ["SchedulingGated", "SchedulingGated"], "an autoscaler adds no node for them"
    # A pod that cannot be placed keeps the room that was admitted for it.
    placed = sorted(cluster.placements())
    cluster.api.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/{placed[0]}")
    cluster.api.wait_for("the third pod", lambda: len(waiting(cluster)) == 1, 60)
    cluster.api.wait_for("its node", lambda: len(cluster.placements()) == 2, 60)
    (last,) = waiting(cluster)
    cluster.api.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/{last}")
    add(cluster, "far", nodeSelector={"zone": "none"})
    cluster.api.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/{placed[1]}")
    cluster.api.wait_for("room for it", lambda: gates(cluster, "far") == [], 60)
    cluster.api.wait_for("its reason", lambda: "Unschedulable" in str(cluster.pod("far")["status"]), 60)
    add(cluster, "late")
    events = f"/api/v1/namespaces/{cluster.namespace}/events"
    assert [each for each in cluster.api.items(events) if each["reason"] == "QueueAdmitted"]
    assert gates(cluster, "late") == [QUEUE_GATE]
    cluster.api.delete(f"/api/v1/namespaces/{cluster.namespace}/pods/far")
    cluster.wait_bound("late")
    second.stop()
    for process in (first, second):
        assert "orbidden" not in process.log.read_text()
        assert "Traceback" not in process.log.read_text()
