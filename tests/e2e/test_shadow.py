"""`mooring shadow` and `mooring record` next to kube-scheduler, with the rights of `mooring rbac --read-only`."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
from pathlib import Path
from typing import Any, Final

from bench.shadow import SCHEDULER, judge, make_nodes, make_pod
from mooring.recording.tables import rows
from tests.e2e.cluster import Cluster
from tests.e2e.mooring_process import MOORING

RBAC: Final = "/apis/rbac.authorization.k8s.io/v1"
_PODS: Final = 300


def _grant_reading(cluster: Cluster) -> None:
    command = [str(MOORING), "rbac", "--read-only", "--user", "mooring", "--name", "reader", "-o", "json"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    for item in json.loads(printed)["items"]:
        assert item["kind"] in ("ClusterRole", "ClusterRoleBinding")
        plural = f"{item['kind'].lower()}s"
        cluster.api.create(f"{RBAC}/{plural}", item)
        if item["kind"] == "ClusterRole":
            assert {verb for rule in item["rules"] for verb in rule["verbs"]} <= {"get", "list", "watch"}


def test_it_agrees_with_kube_scheduler_on_mixed_pods(cluster: Cluster) -> None:
    make_nodes(cluster.api, 40)
    _grant_reading(cluster)
    cluster.plane.start_kube_scheduler(SCHEDULER)
    namespace = cluster.namespace
    found = asyncio.run(judge(cluster.plane, pods=_PODS, seed=7, kept=200, user="mooring", namespace=namespace))
    assert found["differences"] == []
    assert found["placements"]["differs"] == found["failures"]["differs"] == 0
    assert found["judged"] > _PODS * 0.9
    assert found["placements"]["agrees"] > _PODS * 0.2


def test_a_cluster_of_kube_scheduler_is_recorded_with_read_only_rights(cluster: Cluster, tmp_path: Path) -> None:
    make_nodes(cluster.api, 3)
    _grant_reading(cluster)
    cluster.plane.start_kube_scheduler(SCHEDULER)
    path = tmp_path / "cluster.mooring"
    kubeconfig = cluster.plane.kubeconfig("mooring")
    recorder = subprocess.Popen([str(MOORING), "record", "--kubeconfig", str(kubeconfig), "-o", str(path)])
    try:
        cluster.api.wait_for("the first lists", lambda: _has(path, "event", "synced"), 60)
        rng = random.Random(3)
        for number in range(5):
            cluster.api.create(f"/api/v1/namespaces/{cluster.namespace}/pods", make_pod(rng, number))
        cluster.api.wait_for("the placements", lambda: _count(path) == 5, 60)
    finally:
        recorder.terminate()
        assert recorder.wait(30) == 0


def _has(path: Path, column: str, value: Any) -> bool:
    return path.exists() and path.stat().st_size > 100 and any(row.get(column) == value for row in rows(path, "events"))


def _count(path: Path) -> int:
    return len(rows(path, "placements"))
