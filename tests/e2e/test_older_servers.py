"""Mooring on an API server that is older than the releases it emulates: `make e2e-older K8S=1.33.13`."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from mooring.releases import RELEASES
from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import Object, Process, free_port
from tests.e2e.controlplane.parts import KUBERNETES
from tests.e2e.endpoints import ask, is_ready
from tests.e2e.mooring_process import MOORING, mooring_command

MINOR: Final = int(KUBERNETES.split(".")[1])
OLDEST: Final = RELEASES[0]
pytestmark = pytest.mark.skipif(
    f"1.{MINOR}" in {release.version for release in RELEASES}, reason="this server is not older"
)
#: The first release that serves resource.k8s.io/v1.
SERVES_CLAIMS: Final = MINOR >= 34
DEVICES: Final = "/apis/resource.k8s.io/v1"
ZONE: Final = "topology.kubernetes.io/zone"
CONF: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


def start(cluster: Cluster, *flags: str, user: str = "scheduler") -> tuple[Process, int]:
    """Start Mooring and wait until it schedules; with leader election unless a flag says otherwise."""
    port = free_port()
    name = f"mooring-{cluster.namespace}"
    command = mooring_command(cluster.plane, *flags, user=user, port=port)
    return cluster.plane.run(name, command, ready=lambda: is_ready(port)), port


def warnings(process: Process) -> list[str]:
    """Return the warnings that tell about the server's release, and about missing APIs."""
    lines = [line for line in process.log.read_text().splitlines() if line.startswith("W")]
    return [line for line in lines if "does not emulate" in line or "does not serve" in line]


def test_it_says_which_release_it_emulates_and_what_is_missing(cluster: Cluster) -> None:
    process, port = start(cluster)
    token = cluster.plane.users["admin"].token
    assert ask(port, "/version", token=token).json()["decidesAs"] == OLDEST.reference
    found = warnings(process)
    emulation = f"The API server is 1.{MINOR}, which Mooring does not emulate; it decides as kube-scheduler"
    assert emulation in found[0]
    assert [line for line in found[1:] if "pods with resource claims stay pending" in line] == found[1:]
    assert len(found) == (1 if SERVES_CLAIMS else 2)
    lease = cluster.api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler")
    assert lease["spec"]["holderIdentity"]
    # Nothing that a server may lack is asked for again and again.
    assert "list/watch failed" not in process.log.read_text()


def test_affinity_spread_and_events(cluster: Cluster) -> None:
    for number in range(4):
        cluster.add_node(f"node-{number}", labels={ZONE: f"z{number % 2}"})
    labels = {"labels": {"app": "web"}}
    selector = {"matchLabels": {"app": "web"}}
    spread = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}
    term = {"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    for number in range(5):
        cluster.add_pod(f"p{number}", metadata=labels, topologySpreadConstraints=[spread], affinity=apart)
    start(cluster)
    cluster.api.wait_for("four pods", lambda: len(cluster.placements()) == 4 or None)
    assert len(set(cluster.placements().values())) == 4
    (left,) = {f"p{number}" for number in range(5)} - cluster.placements().keys()
    assert "didn't match pod anti-affinity rules" in cluster.wait_unschedulable(left)
    wanted = {"Scheduled": 4, "FailedScheduling": 1}
    cluster.api.wait_for("events", lambda: Counter(each["reason"] for each in cluster.events()) >= Counter(wanted))


def test_preemption(cluster: Cluster) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    cluster.add_node("only", cpu="2")
    cluster.api.create(classes, {"metadata": {"name": "urgent"}, "value": 1000})
    cluster.add_pod("low", cpu="2")
    start(cluster)
    cluster.wait_bound("low")
    cluster.add_pod("high", cpu="2", priorityClassName="urgent")
    assert cluster.wait_bound("high")["high"] == "only"
    assert "low" not in cluster.placements()
    cluster.api.delete(f"{classes}/urgent")


def test_a_volume_that_waits_for_its_pod(cluster: Cluster) -> None:
    """The test does the work of the volume controller: it binds the claim to the volume that Mooring chose."""
    storage, claims = (
        "/apis/storage.k8s.io/v1/storageclasses",
        f"/api/v1/namespaces/{cluster.namespace}/persistentvolumeclaims",
    )
    for number in range(3):
        cluster.add_node(f"node-{number}")
    waits = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.api.create(storage, {"metadata": {"name": "local"}, **waits})
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}
    common: Object = {"accessModes": ["ReadWriteOnce"], "storageClassName": "local"}
    volume = {
        **common,
        "capacity": {"storage": "1Gi"},
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
    }
    cluster.api.create("/api/v1/persistentvolumes", {"metadata": {"name": "disk"}, "spec": volume})
    cluster.api.patch("/api/v1/persistentvolumes/disk/status", {"status": {"phase": "Available"}})
    wanted = {**common, "resources": {"requests": {"storage": "1Gi"}}}
    cluster.api.create(claims, {"metadata": {"name": "data"}, "spec": wanted})
    start(cluster)
    cluster.add_pod("db", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}])

    def chosen() -> bool:
        reference = cluster.api.get("/api/v1/persistentvolumes/disk")["spec"].get("claimRef", {})
        return bool(reference.get("name") == "data")

    cluster.api.wait_for("choice of the volume", chosen)
    done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}, "spec": {"volumeName": "disk"}}
    cluster.api.patch(f"{claims}/data", done)
    cluster.api.patch(f"{claims}/data/status", {"status": {"phase": "Bound"}})
    assert cluster.wait_bound("db") == {"db": "node-1"}
    cluster.api.delete(f"{storage}/local")


def test_batch_sessions(cluster: Cluster, tmp_path: Path) -> None:
    """A gang that fits is bound, and one that does not is left alone."""
    install = [str(MOORING), "batch", "install", "--kubeconfig", str(cluster.plane.kubeconfig())]
    subprocess.run(install, check=True, capture_output=True)
    conf = tmp_path / "volcano-scheduler.conf"
    conf.write_text(CONF)
    for number in range(2):
        cluster.add_node(f"node-{number}")
    groups = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{cluster.namespace}/podgroups"
    for name, size in (("fits", 4), ("huge", 20)):
        head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}}
        cluster.api.create(groups, {**head, "spec": {"minMember": size, "queue": "default"}})
        for number in range(size):
            metadata = {"annotations": {"scheduling.k8s.io/group-name": name}}
            cluster.add_pod(f"{name}-{number}", cpu="1", metadata=metadata, schedulerName="volcano")
    start(cluster, "--scheduler-conf", str(conf), "--leader-elect=false", "--schedule-period=200ms", user="admin")
    placed = cluster.wait_bound(*(f"fits-{number}" for number in range(4)))
    assert not [name for name in placed if name.startswith("huge")]


@pytest.mark.skipif(not SERVES_CLAIMS, reason="the server does not serve resource.k8s.io/v1")
def test_devices(cluster: Cluster) -> None:
    cluster.add_node("plain", cpu="64")
    cluster.add_node("with-gpu")
    selectors = [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}]
    cluster.api.create(f"{DEVICES}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {"selectors": selectors}})
    pool = {"name": "with-gpu", "generation": 1, "resourceSliceCount": 1}
    spec: dict[str, Any] = {"driver": "gpu.example.com", "nodeName": "with-gpu", "pool": pool}
    devices = [{"name": "gpu-0", "attributes": {"model": {"string": "big"}}}]
    cluster.api.create(f"{DEVICES}/resourceslices", {"metadata": {"name": "s"}, "spec": {**spec, "devices": devices}})
    claims = f"{DEVICES}/namespaces/{cluster.namespace}/resourceclaims"
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    for name in ("first", "second"):
        document = {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
        cluster.api.create(claims, document)
    start(cluster)
    cluster.add_pod("p", resourceClaims=[{"name": "gpu", "resourceClaimName": "first"}])
    assert cluster.wait_bound("p") == {"p": "with-gpu"}
    status = cluster.api.get(f"{claims}/first")["status"]
    assert [result["device"] for result in status["allocation"]["devices"]["results"]] == ["gpu-0"]
    assert [user["name"] for user in status["reservedFor"]] == ["p"]
    cluster.add_pod("q", resourceClaims=[{"name": "gpu", "resourceClaimName": "second"}])
    assert "cannot allocate all claims" in cluster.wait_unschedulable("q")
    cluster.api.delete(f"{DEVICES}/resourceslices/s")
    cluster.api.delete(f"{DEVICES}/deviceclasses/gpu")


def test_explain(cluster: Cluster) -> None:
    cluster.add_node("small", cpu="1")
    cluster.add_pod("large", cpu="9")
    _, port = start(cluster)
    message = cluster.wait_unschedulable("large")
    assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    access = ["--kubeconfig", str(cluster.plane.kubeconfig()), "-o", "json"]
    running = ["--scheduler", f"https://127.0.0.1:{port}", "--token", cluster.plane.users["admin"].token]
    for more in (running, []):
        command = [str(MOORING), "explain", "pod", f"{cluster.namespace}/large", *access, *more]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        assert json.loads(done.stdout)["state"] == "pending"
