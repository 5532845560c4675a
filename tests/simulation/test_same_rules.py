"""`mooring simulate` and the embedded cluster make the same pods of the same manifests."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from mooring.api.codec import to_dict
from mooring.api.pod import Pod
from mooring.cluster import EmbeddedCluster
from tests.cluster.conftest import Client
from tests.simulation.manifests import node, pod, scenario, workload

#: Fields that only one of the two can know: identities, times and what a kubelet writes.
_UNCOMPARED = ("uid", "resourceVersion", "creationTimestamp", "generation")
_PLURALS = {
    "Deployment": "/apis/apps/v1/namespaces/default/deployments",
    "ReplicaSet": "/apis/apps/v1/namespaces/default/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/default/statefulsets",
    "DaemonSet": "/apis/apps/v1/namespaces/default/daemonsets",
    "Job": "/apis/batch/v1/namespaces/default/jobs",
    "ReplicationController": "/api/v1/namespaces/default/replicationcontrollers",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/default/pods",
}

_SPREAD = {
    "maxSkew": 1,
    "topologyKey": "kubernetes.io/hostname",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "w"}},
    "matchLabelKeys": ["pod-template-hash", "app"],
}
_TERM = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["w"]}]},
    "matchLabelKeys": ["app"],
}
_RESOURCES = {"limits": {"cpu": "0.5", "memory": "1024Mi"}, "requests": {"cpu": "250m"}}
_RICH: dict[str, Any] = {
    "containers": [{
        "name": "c", "image": "i", "command": ["serve"], "resources": _RESOURCES,
        "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "ports": [{"containerPort": 80}],
        "readinessProbe": {"httpGet": {"port": 80}},
    }],
    "initContainers": [{"name": "init", "image": "i", "resources": {"limits": {"cpu": "2"}}}],
    "hostNetwork": True,
    "topologySpreadConstraints": [_SPREAD],
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}},
    "tolerations": [
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    ],
}  # fmt: skip
_ONCE = {"restartPolicy": "Never"}
_STORAGE = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_CLAIMS = [{"metadata": {"name": name}, "spec": _STORAGE} for name in ("logs", "data")]

_CASES: dict[str, tuple[dict[str, Any], int]] = {
    "deployment": (workload("Deployment", replicas=2), 2),
    "rich deployment": (workload("Deployment", template=_RICH), 1),
    "replica set": (workload("ReplicaSet", replicas=2, template=_RICH), 2),
    "replication controller": (workload("ReplicationController"), 1),
    "stateful set": (workload("StatefulSet", replicas=1, ordinals={"start": 3}, serviceName="s", template={
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "tmp"}]}, volumeClaimTemplates=_CLAIMS), 1),
    "daemon set": (workload("DaemonSet", template=_RICH), 2),
    "job": (workload("Job", parallelism=2, completions=3, template=_ONCE), 2),
    "labelled job": (workload("Job", template=_ONCE), 1),
    "indexed job": (workload("Job", completionMode="Indexed", completions=2, parallelism=2, template=_ONCE), 2),
    "pod": (pod("w", **_RICH), 1),
    "pod with limits of its own": (pod("w", containers=[
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}},
        {"name": "d", "image": "i", "resources": {"requests": {"cpu": "0.2"}, "limits": {"memory": "1Gi"}}},
    ], initContainers=[{"name": "e", "image": "i", "resources": {"requests": {"cpu": "1"}}}],
        resources={"limits": {"cpu": "2", "memory": "4Gi"}}), 1),
    "pod with a priority class": (pod("w", priorityClassName="high"), 1),
}  # fmt: skip
_CLASSES = [
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000,
     "preemptionPolicy": "Never"},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "usual"}, "value": 7,
     "globalDefault": True},
]  # fmt: skip


def _comparable(found: Pod) -> dict[str, Any]:
    """A pod without identities, times and random suffixes."""
    document = to_dict(found)
    metadata = {key: value for key, value in document["metadata"].items() if key not in _UNCOMPARED}
    if "generateName" in metadata:
        assert metadata["name"].startswith(metadata["generateName"])
        del metadata["name"]
    for each in metadata.get("ownerReferences", ()):
        each.pop("uid", None)
    for kind in ("labels", "annotations"):
        for key in ("controller-uid", "batch.kubernetes.io/controller-uid"):
            if key in metadata.get(kind, {}):
                metadata[kind][key] = "UID"
    return {"metadata": metadata, "spec": document["spec"]}


def _by_identity(pods: list[Pod]) -> list[dict[str, Any]]:
    return sorted(map(_comparable, pods), key=lambda each: msgspec.json.encode(each, order="deterministic"))


@pytest.fixture
async def client() -> Any:
    cluster = EmbeddedCluster()
    await cluster.start()
    client = Client(cluster)
    yield client
    await client.close()
    await cluster.stop()


async def _pods_in_cluster(client: Client, objects: list[dict[str, Any]], count: int) -> list[Pod]:
    for each in objects:
        await client.create(_PLURALS[each["kind"]], each)

    async def found() -> list[dict[str, Any]] | None:
        items: list[dict[str, Any]] = (await client.get(_PLURALS["Pod"]))["items"]
        return items if len(items) == count else None

    wait: Callable[..., Awaitable[Any]] = client.wait
    return [msgspec.convert({"apiVersion": "v1", "kind": "Pod", **each}, Pod) for each in await wait(found)]


@pytest.mark.parametrize("case", _CASES)
async def test_pods_are_the_same(client: Client, case: str) -> None:
    item, count = _CASES[case]
    objects = [node("n1"), node("n2"), *_CLASSES, item]
    simulated = [each.pod for each in scenario(*objects).pods]
    assert _by_identity(simulated) == _by_identity(await _pods_in_cluster(client, objects, count))
