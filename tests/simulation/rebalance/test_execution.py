"""Plans that are carried out on an embedded cluster with a scheduler, within their limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mooring.api.codec import decode_object
from mooring.api.meta import KubeObject
from mooring.api.pod import Pod
from mooring.cli.main import main
from mooring.kube import Client, load_access
from mooring.simulation.rebalance import Move, Plan
from mooring.simulation.rebalance.execution import Execution, ExecutionError
from mooring.testing import PluginCluster, make_node
from tests.waiting import wait_until


def replica_set(name: str, cpu: str, *, replicas: int = 1, node: str = "") -> KubeObject:
    """A ReplicaSet; ``node`` is preferred, so that the first pods are where a test needs them."""
    preferred = {
        "weight": 100,
        "preference": {"matchExpressions": [{"key": "name", "operator": "In", "values": [node]}]},
    }
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}]}
    if node:
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    template = {"metadata": {"labels": {"app": name}}, "spec": spec}
    document = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }
    return decode_object(document)  # type: ignore[return-value]


def budget(name: str, app: str, max_unavailable: int) -> KubeObject:
    return decode_object(  # type: ignore[return-value]
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"maxUnavailable": max_unavailable, "selector": {"matchLabels": {"app": app}}},
        }
    )


@pytest.fixture
def cluster() -> Iterator[PluginCluster]:
    with PluginCluster(nodes=0) as cluster:
        for name in "ab":
            node = make_node(name).capacity(cpu="4", memory="8Gi", pods=10).label(name=name)
            cluster.add(node.obj())
        cluster.start()
        yield cluster


def run(cluster: PluginCluster, *arguments: str) -> Result:
    where = ["--kubeconfig", str(cluster.kubeconfig)]
    return CliRunner().invoke(main, ["rebalance", *where, "--cool-down", "0", "--seconds", "1", *arguments])


def fill(cluster: PluginCluster, *more: KubeObject) -> None:
    """Use 3 of 4 cores of both nodes, so that a pod with 2 cores waits."""
    cluster.add(*more, replica_set("small", "1", node="a"), replica_set("large", "2", node="a"))
    cluster.add(replica_set("other", "3", node="b"))
    wait_for(cluster, {"small": "a", "large": "a", "other": "b"})
    cluster.add(replica_set("waiting", "2"))
    wait_for(cluster, {"waiting": ""})


def places(cluster: PluginCluster) -> dict[str, str]:
    async def read() -> list[Pod]:
        async with Client(load_access(kubeconfig=str(cluster.kubeconfig))) as client:
            return (await client.list(Pod, namespace="default")).items

    return {pod.labels["app"]: pod.node_name for pod in asyncio.run(read())}


def wait_for(cluster: PluginCluster, wanted: dict[str, str]) -> None:
    wait_until(lambda: wanted.items() <= places(cluster).items(), describe=lambda: places(cluster))


def test_a_plan_is_proposed_and_then_carried_out(cluster: PluginCluster) -> None:
    fill(cluster)
    proposed = run(cluster, "-o", "json")
    assert proposed.exit_code == 0, proposed.output
    plan = json.loads(proposed.stdout)
    assert [(each["source"], each["target"]) for each in plan["moves"]] == [("a", "b")]
    assert places(cluster)["small"] == "a"  # nothing was changed
    done = run(cluster, "--execute")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("1 pod was moved.\n")
    wait_for(cluster, {"small": "b", "large": "a", "other": "b", "waiting": "a"})
    again = run(cluster)
    assert again.stdout == "There is nothing to do.\n"


def test_pods_are_not_evicted_if_they_could_only_change_places(cluster: PluginCluster) -> None:
    fill(cluster, budget("keep", "small", 0))
    before = places(cluster)
    assert len(json.loads(run(cluster, "-o", "json").stdout)["moves"]) == 2
    found = run(cluster, "--execute")
    assert found.exit_code == 0, found.output
    assert found.stdout.startswith("0 pods were moved.\n\nPENDING\n")
    assert places(cluster) == before


def test_the_moves_of_an_hour_are_counted_across_runs(cluster: PluginCluster) -> None:
    fill(cluster)
    run(cluster, "--execute", "--moves-per-hour", "1")
    wait_for(cluster, {"waiting": "a"})
    # Another pod waits now, and the next move would be the second one of this hour.
    for name, cpu in (("c", "1"), ("d", "3")):
        cluster.add(make_node(name).capacity(cpu=cpu, memory="8Gi", pods=10).label(name=name).obj())
    cluster.add(replica_set("tiny", "1", node="d"))
    wait_for(cluster, {"tiny": "d"})
    cluster.add(replica_set("second", "3"))
    wait_for(cluster, {"second": ""})
    found = run(cluster, "--execute", "--moves-per-hour", "1")
    assert found.exit_code == 1
    assert "nothing was evicted: the plan has 1 moves, and only 0 more are allowed this hour" in found.stderr
    assert places(cluster)["tiny"] == "d"


def test_a_plan_that_no_longer_describes_the_cluster(cluster: PluginCluster) -> None:
    fill(cluster)
    move = Move(pod="default/gone", source="a", target="b", priority=0, step=1)
    plan = Plan(
        moves=[move], placements=[], goals=[], fragmentation_before=0, fragmentation_after=0, emptied=[], seconds=0
    )

    async def execute() -> None:
        async with Client(load_access(kubeconfig=str(cluster.kubeconfig))) as client:
            await Execution(client, moves_per_hour=5).carry_out(plan, report=lambda _: None)

    with pytest.raises(ExecutionError, match="nothing was evicted: pod default/gone is no longer on a"):
        asyncio.run(execute())
