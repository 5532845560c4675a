"""The community's plugins on a real API server, under the role that `mooring rbac` prints for them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.mooring_process import MOORING, mooring_command

NAME = "scheduler-plugins-scheduler"
#: What the community's chart renders.
CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {{leaderElect: false}}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 2
profiles:
- schedulerName: {NAME}
  plugins:
    multiPoint:
      enabled:
      - name: Coscheduling
      - name: CapacityScheduling
      - name: NodeResourceTopologyMatch
      - name: NodeResourcesAllocatable
      disabled:
      - name: PrioritySort
    POST_FILTER
  pluginConfig:
  - name: Coscheduling
    args:
      permitWaitingTimeSeconds: 10
"""
#: As the manifests of CapacityScheduling have it: the default preemption knows no quotas.
ONLY_QUOTAS = "postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: '*'}]}"
LABEL = "scheduling.x-k8s.io/pod-group"
GROUP = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces"


def printed(*arguments: str) -> str:
    return subprocess.run([str(MOORING), *arguments], capture_output=True, text=True, check=True).stdout


def define(cluster: Cluster) -> None:
    """The custom resources."""
    for plugin in ("Coscheduling", "CapacityScheduling", "NodeResourceTopologyMatch"):
        cluster.define(printed("plugin", "manifests", plugin, "--crd"))


def start(cluster: Cluster, folder: Path, post_filter: str = "") -> None:
    """The role, and the scheduler under exactly that role. It decides once it has read what is there."""
    config = folder / "scheduler.yaml"
    config.write_text(CONFIG.replace("POST_FILTER", post_filter))
    roles = list(yaml.safe_load_all(printed("rbac", "--config", str(config))))
    for role in roles:
        if "subjects" in role:
            role["subjects"] = [{"kind": "User", "name": "mooring", "apiGroup": "rbac.authorization.k8s.io"}]
    cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(roles))
    command = mooring_command(cluster.plane, "--config", str(config), user="mooring")
    cluster.plane.run("mooring", command, wait=False)


def add_group(cluster: Cluster, name: str, members: int, **spec: Any) -> None:
    body = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": name},
        "spec": {"minMember": members, **spec},
    }
    cluster.api.create(f"{GROUP}/{cluster.namespace}/podgroups", body)


def add_member(cluster: Cluster, group: str, number: int, cpu: str = "1") -> str:
    name = f"{group}-{number}"
    cluster.add_pod(name, cpu=cpu, metadata={"labels": {LABEL: group}}, schedulerName=NAME)
    return name


def test_a_gang_is_bound_whole_or_not_at_all(cluster: Cluster, tmp_path: Path) -> None:
    for number in range(2):
        cluster.add_node(f"node-{number}", cpu="2")
    define(cluster)
    add_group(cluster, "pair", 3)
    start(cluster, tmp_path)
    first = [add_member(cluster, "pair", number) for number in range(2)]
    assert "cannot find enough sibling pods, current pods number: " in cluster.wait_unschedulable(first[0])
    third = add_member(cluster, "pair", 2)
    cluster.wait_bound(*first, third)
    # One core is left for a gang of two: both are tried, and the one that waited gives its node back.
    add_group(cluster, "late", 2, scheduleTimeoutSeconds=3)
    late = [add_member(cluster, "late", number) for number in range(2)]
    for name in late:
        cluster.wait_unschedulable(name)
    cluster.add_pod("single", schedulerName=NAME, cpu="1")
    cluster.wait_bound("single")
    assert not set(late) & set(cluster.placements())
    cluster.add_node("roomy", cpu="4")
    cluster.wait_bound(*late)


def test_a_quota_is_lent_and_taken_back(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add_node("only", cpu="4")
    borrower = f"{cluster.namespace}-borrower"
    cluster.add_namespace(borrower)
    define(cluster)
    for namespace in (cluster.namespace, borrower):
        quota = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {"name": "quota"},
            "spec": {"min": {"cpu": "2", "memory": "1Gi"}},
        }
        cluster.api.create(f"{GROUP}/{namespace}/elasticquotas", quota)
    start(cluster, tmp_path, ONLY_QUOTAS)

    def bound(namespace: str) -> list[str]:
        pods = cluster.api.items(f"/api/v1/namespaces/{namespace}/pods")
        return [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName")]

    own = cluster.namespace
    cluster.namespace = borrower
    for number in range(4):
        cluster.add_pod(f"borrowed-{number}", cpu="1", schedulerName=NAME)
    cluster.api.wait_for("four pods on two guaranteed cores", lambda: len(bound(borrower)) == 4 or None)
    cluster.namespace = own
    cluster.add_pod("mine", cpu="2", schedulerName=NAME)
    cluster.wait_bound("mine")
    assert len(bound(borrower)) == 2
    cluster.add_pod("more", cpu="1", schedulerName=NAME)
    assert "is rejected in PreFilter because total ElasticQuota used is more than min" in cluster.wait_unschedulable(
        "more"
    )


@pytest.mark.parametrize(("cpu", "node"), [("2", "tight"), ("3", "wide"), ("5", "")])
def test_a_pod_goes_where_a_zone_has_room(cluster: Cluster, tmp_path: Path, cpu: str, node: str) -> None:
    """Both nodes have eight cores: in four zones of two, or in two of four. Small nodes are the same size here."""
    define(cluster)
    for name, zones in (("tight", 4), ("wide", 2)):
        cluster.add_node(name, cpu="8")
        amounts = {"capacity": "16Gi", "allocatable": "16Gi", "available": "16Gi"}
        each = str(8 // zones)
        resources = [
            {"name": "cpu", "capacity": each, "allocatable": each, "available": each},
            {"name": "memory", **amounts},
        ]
        report = {
            "apiVersion": "topology.node.k8s.io/v1alpha2",
            "kind": "NodeResourceTopology",
            "metadata": {"name": name},
            "zones": [{"name": f"node-{zone}", "type": "Node", "resources": resources} for zone in range(zones)],
            "attributes": [{"name": "topologyManagerPolicy", "value": "single-numa-node"}],
        }
        if node == "tight" and name == "wide":
            report["zones"] = []
        cluster.api.create("/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies", report)
    start(cluster, tmp_path)
    amounts = {"cpu": cpu, "memory": "1Gi"}
    containers = [{"name": "main", "image": "app:1", "resources": {"requests": amounts, "limits": amounts}}]
    cluster.add_pod("aligned", schedulerName=NAME, containers=containers)
    if node:
        assert cluster.wait_bound("aligned") == {"aligned": node}
    else:
        assert "2 cannot align container" in cluster.wait_unschedulable("aligned")
