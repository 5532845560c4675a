"""Workloads become pods as their controllers would make them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mooring.api.codec import to_dict
from mooring.api.decode_errors import ManifestError
from mooring.api.pod import Pod
from mooring.api.storage import PersistentVolumeClaim
from mooring.api.workloads import ReplicaSet
from mooring.simulation.scenario import Workload
from tests.simulation.manifests import node, pod, scenario, workload

NODES = [node("n1"), node("n2", labels={"disk": "ssd"}), node("n3", taints=[{"key": "t", "effect": "NoSchedule"}])]


def pods_of(*objects: dict[str, Any] | str, seed: int = 0) -> list[Pod]:
    return [each.pod for each in scenario(*NODES, *objects, seed=seed).pods]


def owner(found: Pod) -> tuple[str, str, bool | None]:
    (reference,) = found.metadata.owner_references
    return reference.kind, reference.name, reference.controller


def owned(name: str, kind: str, by: str, **more: Any) -> dict[str, Any]:
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": by, "uid": "u", "controller": True}
    return pod(
        name, metadata={"labels": {"app": by}, "ownerReferences": [reference], **more.pop("metadata", {})}, **more
    )


@pytest.mark.parametrize(
    ("kind", "spec", "count"),
    [
        ("Deployment", {"replicas": 3}, 3),
        ("Deployment", {}, 1),
        ("Deployment", {"replicas": 0}, 0),
        ("ReplicaSet", {"replicas": 2}, 2),
        ("ReplicationController", {"replicas": 2}, 2),
        ("StatefulSet", {"replicas": 2}, 2),
        ("Job", {}, 1),
        ("Job", {"parallelism": 3}, 3),
        ("Job", {"parallelism": 3, "completions": 2}, 2),
        ("Job", {"completions": 5}, 1),
        ("Job", {"parallelism": 0}, 0),
        ("Job", {"parallelism": 3, "suspend": True}, 0),
        ("DaemonSet", {}, 2),
    ],
)
def test_how_many(kind: str, spec: dict[str, Any], count: int) -> None:
    found = scenario(*NODES, workload(kind, **spec)).pods
    assert len(found) == count
    assert len({each.pod.uid for each in found}) == len({each.pod.name for each in found}) == count
    assert all(each.workload == Workload(kind, "default", "w") for each in found)
    assert all(owner(each.pod)[0] == ("ReplicaSet" if kind == "Deployment" else kind) for each in found)


def test_a_deployment_makes_a_replica_set() -> None:
    made = scenario(workload("Deployment", replicas=2))
    (replicas,) = (item for item in made.objects if isinstance(item, ReplicaSet))
    code = replicas.name.removeprefix("w-")
    assert re.fullmatch(r"[bcdfghjklmnpqrstvwxz2456789]{5,10}", code)
    assert replicas.spec.selector is not None
    assert replicas.spec.selector.match_labels == {"app": "w", "pod-template-hash": code}
    assert controller(replicas) == ("Deployment", "w")
    for each in made.pods:
        assert each.pod.labels == {"app": "w", "pod-template-hash": code}
        assert owner(each.pod) == ("ReplicaSet", f"w-{code}", True)
        assert re.fullmatch(rf"w-{code}-[bcdfghjklmnpqrstvwxz2456789]{{5}}", each.pod.name)


def controller(item: ReplicaSet) -> tuple[str, str]:
    (reference,) = item.metadata.owner_references
    return reference.kind, reference.name


def test_names_depend_on_the_seed_and_the_workload_alone() -> None:
    alone = [p.name for p in pods_of(workload("Deployment", replicas=3))]
    beside = [p.name for p in pods_of(workload("Job", "other", parallelism=4), workload("Deployment", replicas=3))]
    assert beside[4:] == alone
    assert [p.name for p in pods_of(workload("Deployment", replicas=3), seed=1)] != alone


def test_another_template_has_another_hash() -> None:
    one, two = (
        pods_of(workload("Deployment", template={"priorityClassName": name}))[0].labels["pod-template-hash"]
        for name in ("system-node-critical", "system-cluster-critical")
    )
    assert one != two


def test_stateful_sets_number_their_pods_and_claims() -> None:
    spec = {
        "replicas": 2,
        "ordinals": {"start": 3},
        "volumeClaimTemplates": [
            {"metadata": {"name": "data", "labels": {"x": "y"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}
        ],
    }
    made = scenario(workload("StatefulSet", template={"volumes": [{"name": "data"}, {"name": "tmp"}]}, **spec))
    assert [each.pod.name for each in made.pods] == ["w-3", "w-4"]
    first = made.pods[0].pod
    assert first.labels.items() >= {
        ("app", "w"),
        ("statefulset.kubernetes.io/pod-name", "w-3"),
        ("apps.kubernetes.io/pod-index", "3"),
    }
    assert [volume.name for volume in first.spec.volumes] == ["data", "tmp"]
    assert first.spec.volumes[0].persistent_volume_claim is not None
    assert first.spec.volumes[0].persistent_volume_claim.claim_name == "data-w-3"
    claims = [item for item in made.objects if isinstance(item, PersistentVolumeClaim)]
    assert [claim.key for claim in claims] == ["default/data-w-3", "default/data-w-4"]
    assert claims[0].labels == {"x": "y", "app": "w"}


def test_jobs_label_their_pods() -> None:
    (found,) = pods_of(workload("Job"))
    labels = found.labels
    assert labels["job-name"] == labels["batch.kubernetes.io/job-name"] == "w"
    assert (
        labels["controller-uid"]
        == labels["batch.kubernetes.io/controller-uid"]
        == found.metadata.owner_references[0].uid
    )


def test_indexed_jobs_number_their_pods() -> None:
    key = "batch.kubernetes.io/job-completion-index"
    present = owned("w-0-aaaaa", "Job", "w", metadata={"annotations": {key: "0"}})
    found = pods_of(present, workload("Job", completionMode="Indexed", completions=4, parallelism=3))
    assert [p.annotations.get(key) for p in found] == ["0", "1", "2"]
    assert [p.name.rpartition("-")[0] for p in found] == ["w-0", "w-1", "w-2"]
    assert found[1].labels[key] == "1"


@pytest.mark.parametrize(
    ("template", "targets"),
    [
        ({}, ["n1", "n2"]),
        ({"nodeSelector": {"disk": "ssd"}}, ["n2"]),
        ({"tolerations": [{"operator": "Exists"}]}, ["n1", "n2", "n3"]),
        ({"nodeName": "n1"}, ["n1"]),
        (
            {
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}]
                        }
                    }
                }
            },
            ["n1"],
        ),
    ],
)
def test_daemons_go_to_fitting_nodes(template: dict[str, Any], targets: list[str]) -> None:
    found = pods_of(workload("DaemonSet", template=template))
    assert [target(p) for p in found] == targets
    assert all("controller-revision-hash" in p.labels for p in found)


def target(found: Pod) -> str:
    required = to_dict(found)["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (field,) = required["nodeSelectorTerms"][0]["matchFields"]
    assert (field["key"], field["operator"]) == ("metadata.name", "In")
    assert list(required["nodeSelectorTerms"][0]) == ["matchFields"]
    name: str = field["values"][0]
    return name


def test_daemons_tolerate_what_ails_a_node() -> None:
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    found = pods_of(workload("DaemonSet", template={"hostNetwork": True, "tolerations": [own]}))[0]
    tolerated = {(t.key.rpartition("/")[2], t.effect, t.toleration_seconds) for t in found.spec.tolerations}
    assert tolerated == {
        ("not-ready", "NoExecute", None),
        ("unreachable", "NoExecute", None),
        ("disk-pressure", "NoSchedule", None),
        ("memory-pressure", "NoSchedule", None),
        ("pid-pressure", "NoSchedule", None),
        ("unschedulable", "NoSchedule", None),
        ("network-unavailable", "NoSchedule", None),
    }


@pytest.mark.parametrize(
    ("objects", "made"),
    [
        ([workload("ReplicaSet", replicas=3), owned("old", "ReplicaSet", "w")], 2),
        ([workload("ReplicaSet", replicas=1), owned("a", "ReplicaSet", "w"), owned("b", "ReplicaSet", "w")], 0),
        ([workload("StatefulSet", replicas=2), owned("w-0", "StatefulSet", "w")], 1),
        ([workload("Job", parallelism=2), owned("old", "Job", "w")], 1),
        ([workload("DaemonSet"), owned("old", "DaemonSet", "w", nodeName="n1")], 1),
        ([workload("ReplicaSet", replicas=2), {**owned("old", "ReplicaSet", "w"), "status": {"phase": "Failed"}}], 2),
    ],
)
def test_pods_that_are_there_count(objects: list[Any], made: int) -> None:
    given = {each["metadata"]["name"] for each in objects if each["kind"] == "Pod"}
    assert len([p for p in pods_of(*objects) if p.name not in given]) == made


def test_a_deployment_leaves_the_pods_to_the_replica_set_it_has() -> None:
    replicas = workload("ReplicaSet", "w-abc", replicas=2)
    replicas["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w", "uid": "u", "controller": True}
    ]
    found = scenario(workload("Deployment", replicas=2), replicas).pods
    assert [each.pod.name.rpartition("-")[0] for each in found] == ["w-abc", "w-abc"]
    assert {each.workload for each in found} == {Workload("Deployment", "default", "w")}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (workload("Deployment", replicas=-1), "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (workload("StatefulSet", replicas=2_000_000), "spec.replicas: 2000000 pods are more than a simulation takes"),
        (workload("Job", parallelism=-2), "spec.parallelism: Invalid value: -2: must be greater than or equal to 0"),
        (workload("Job", completionMode="Indexed"), "spec.completions: is required when completionMode is Indexed"),
        (workload("Deployment", selector=None), "spec.selector: is required; write matchLabels: {app: w}"),
        (workload("DaemonSet", selector={}), "spec.selector: is required"),
        (
            workload("ReplicaSet", selector={"matchLabels": {"app": "x"}}),
            "spec.template.metadata.labels: does not match the selector",
        ),
        (
            workload("ReplicaSet", selector={"matchExpressions": [{"key": "app", "operator": "Is"}]}),
            'spec.selector: "Is" is not a valid label selector operator',
        ),
        (workload("Deployment", template={"containers": []}), "spec.template.spec.containers: is required"),
        (
            workload("DaemonSet", template={"priorityClassName": "none"}),
            "spec.template.spec.priorityClassName: no PriorityClass with name none was found",
        ),
        (
            {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "w"}, "spec": {}},
            "spec.template: is required",
        ),
    ],
)
def test_faults_name_the_field(item: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        scenario(*NODES, item)
    text = str(caught.value)
    assert message in text
    assert text.startswith("test.yaml, line ")
    assert f"{item['kind']} w: " in text
