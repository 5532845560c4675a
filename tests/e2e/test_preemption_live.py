"""Room made by calling back a pod that is not bound yet: kube-scheduler and Mooring, one after the other."""

from __future__ import annotations

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.mooring_process import mooring_command

STORAGE = "/apis/storage.k8s.io/v1/storageclasses"


@pytest.mark.parametrize("scheduler", ["kube-scheduler", "mooring"])
def test_a_victim_that_waits_for_its_volume_is_not_deleted(cluster: Cluster, scheduler: str) -> None:
    """Nobody makes the volume, so the pod waits in PreBind until a more important one takes its room."""
    cluster.api.create("/apis/scheduling.k8s.io/v1/priorityclasses", {"metadata": {"name": "urgent"}, "value": 1000})
    lazy = {"provisioner": "example.com/nobody", "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.api.create(STORAGE, {"metadata": {"name": "slow"}, **lazy})
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "slow"}
    amount = {"resources": {"requests": {"storage": "1Gi"}}}
    claims = f"/api/v1/namespaces/{cluster.namespace}/persistentvolumeclaims"
    cluster.api.create(claims, {"metadata": {"name": "data"}, "spec": {**spec, **amount}})
    cluster.add_node("only", cpu="2")
    if scheduler == "mooring":
        cluster.plane.run("mooring", mooring_command(cluster.plane, "--leader-elect=false"), wait=False)
    else:
        cluster.plane.start_kube_scheduler()
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    victim = cluster.add_pod("low", cpu="2", volumes=volumes)
    cluster.api.wait_for("node for the volume", lambda: chosen(cluster, f"{claims}/data"))
    cluster.add_pod("high", cpu="2", priorityClassName="urgent")
    assert cluster.wait_bound("high") == {"high": "only"}
    (event,) = cluster.api.wait_for("event", lambda: cluster.events("Preempted"))
    urgent = cluster.pod("high")["metadata"]["uid"]
    assert event["note"] == f"Preempted by pod {urgent} on node only (in kube-scheduler memory)."
    assert event["regarding"]["name"] == "low"
    left = cluster.pod("low")
    assert left["metadata"]["uid"] == victim["metadata"]["uid"]
    assert "deletionTimestamp" not in left["metadata"]
    failures = cluster.api.wait_for("the victim's event", lambda: notes(cluster, "low"))
    assert failures[0] == 'running PreBind plugin "VolumeBinding": preempted by DefaultPreemption'


def chosen(cluster: Cluster, claim: str) -> bool:
    """Whether the scheduler has said where the volume is wanted."""
    annotations = cluster.api.get(claim)["metadata"].get("annotations", {})
    return "volume.kubernetes.io/selected-node" in annotations


def notes(cluster: Cluster, pod: str) -> list[str]:
    """What was said of the failures of a pod, the earliest first."""
    found = [each for each in cluster.events("FailedScheduling") if each["regarding"]["name"] == pod]
    return [each["note"] for each in sorted(found, key=lambda each: str(each["eventTime"]))]
