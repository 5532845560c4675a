"""A plugin's file is edited while Mooring runs: the next pod is placed by the new version."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.e2e.cluster import Cluster
from tests.e2e.controlplane import free_port
from tests.e2e.mooring_process import MOORING, mooring_command

PLUGIN = """
from mooring.framework import Plugin

class Favourite(Plugin):
    def score(self, state, pod, node):
        return 100 if node.name == "{node}" else 0
"""
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: false}
profiles:
- schedulerName: default-scheduler
  plugins: {multiPoint: {enabled: [{name: Favourite, weight: 1000}]}}
"""


def test_the_next_pod_is_placed_by_the_version_that_was_just_saved(cluster: Cluster, tmp_path: Path) -> None:
    for number in range(3):
        cluster.add_node(f"node-{number}")
    file, config, port = tmp_path / "favourite.py", tmp_path / "scheduler.yaml", free_port()
    file.write_text(PLUGIN.format(node="node-1"))
    config.write_text(CONFIG)
    command = mooring_command(cluster.plane, "--config", str(config), "--plugin", f"Favourite={file}", port=port)
    cluster.plane.run("mooring", command, wait=False)
    cluster.add_pod("first")
    assert cluster.wait_bound("first")["first"] == "node-1"

    file.write_text(PLUGIN.format(node="node-2"))
    cluster.api.wait_for("event of the reload", lambda: _events(cluster, "Reloaded"))
    cluster.add_pod("second")
    assert cluster.wait_bound("second")["second"] == "node-2"

    file.write_text("class Favourite(:")
    (event,) = cluster.api.wait_for("event of the failure", lambda: _events(cluster, "ReloadFailed"))
    assert event["note"].endswith("favourite.py:1: invalid syntax")
    cluster.add_pod("third")
    assert cluster.wait_bound("third")["third"] == "node-2"
    (row,) = _listed(cluster, port)
    assert row["state"] == "running; not reloaded: invalid syntax"
    assert row["calls"] >= 3


def _events(cluster: Cluster, reason: str) -> list[dict[str, str]]:
    found = cluster.api.items("/apis/events.k8s.io/v1/namespaces/kube-system/events")
    return [each for each in found if each["reason"] == reason and each["regarding"]["kind"] == "Lease"]


def _listed(cluster: Cluster, port: int) -> list[dict[str, object]]:
    """What `mooring plugin list` tells of the running scheduler."""
    kubectl, name = cluster.kubectl, "reads-plugins"
    kubectl("create", "serviceaccount", name)
    kubectl("create", "clusterrole", name, "--verb=get", "--non-resource-url=/plugins")
    account = f"--serviceaccount={cluster.namespace}:{name}"
    kubectl("create", "clusterrolebinding", name, f"--clusterrole={name}", account)
    token = kubectl("create", "token", name).strip()
    try:
        command = [str(MOORING), "plugin", "list", "--scheduler", f"https://127.0.0.1:{port}", "-o", "json"]
        done = subprocess.run([*command, "--token", token], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        rows: list[dict[str, object]] = json.loads(done.stdout)
        return rows
    finally:
        kubectl("delete", "clusterrole,clusterrolebinding", name)
