"""The static pod that takes kube-scheduler's place: the API server takes it, and its command line schedules."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import free_port
from tests.e2e.mooring_process import MOORING

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: NodeNumber, weight: 100}]}}
"""
PLUGIN = Path(__file__).parents[2] / "examples" / "plugins" / "nodenumber" / "nodenumber.py"


def test_it_takes_the_place_of_kube_scheduler(cluster: Cluster, tmp_path: Path) -> None:
    config = tmp_path / "scheduler.yaml"
    config.write_text(CONFIG)
    kubeconfig = cluster.plane.kubeconfig("scheduler")
    plugin = f"NodeNumber={PLUGIN}"
    command = ["install", "static-pod", "--config", config, "--plugin", plugin, "--kubeconfig", kubeconfig]
    done = subprocess.run([MOORING, *command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    cluster.plane.kubectl(
        "apply", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f", "-",
        namespace="kube-system", stdin=done.stdout,
    )  # fmt: skip
    (container,) = yaml.safe_load(done.stdout)["spec"]["containers"]
    assert container["command"][0] == "mooring"
    words = [word for word in container["command"][1:] if not word.startswith("--secure-port")]
    for number in range(3):
        cluster.add_node(f"node-{number}")
    cluster.add_pod("pod-2")
    cluster.plane.run("static-pod", [str(MOORING), *words, f"--secure-port={free_port()}"], wait=False)
    assert cluster.wait_bound("pod-2") == {"pod-2": "node-2"}
    lease = cluster.api.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler")
    assert lease["spec"]["holderIdentity"]
