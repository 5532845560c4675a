"""Expansion of workloads."""

from typing import Any

import msgspec
import pytest

from mooring.api.node import Node
from mooring.apiserver.workloads import (
    daemon_affinity,
    daemon_nodes,
    daemon_pod,
    daemon_target,
    ephemeral_claims,
    job_pod,
    label_job,
    replica_set_of,
    stateful_claims,
    stateful_ordinals,
    stateful_pod,
)


def workload(kind: str, template: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    inner = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}], **(template or {})}}
    selector = {"matchLabels": {"a": "b"}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "w", "namespace": "default", "uid": "u"},
        "spec": {"selector": selector, "template": inner, **spec},
    }


def test_a_replica_set_has_the_hash_in_its_name_selector_and_template() -> None:
    deployment = workload("Deployment", minReadySeconds=3)
    made = replica_set_of(deployment, 2)
    short = made["metadata"]["labels"]["pod-template-hash"]
    assert made["metadata"]["name"] == f"w-{short}"
    assert made["spec"]["selector"]["matchLabels"] == made["spec"]["template"]["metadata"]["labels"]
    assert (made["spec"]["replicas"], made["spec"]["minReadySeconds"]) == (2, 3)
    assert "pod-template-hash" not in deployment["spec"]["template"]["metadata"]["labels"]


def test_a_collision_changes_the_name() -> None:
    deployment = workload("Deployment")
    collided = {**deployment, "status": {"collisionCount": 1}}
    assert replica_set_of(deployment, 1)["metadata"]["name"] != replica_set_of(collided, 1)["metadata"]["name"]


def test_stateful_pods_have_their_own_claims() -> None:
    claims = [{"metadata": {"name": "data", "labels": {"x": "y"}}, "spec": {}}]
    volumes = [{"name": "data", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}]
    stateful = workload(
        "StatefulSet",
        {"volumes": volumes},
        replicas=2,
        ordinals={"start": 3},
        serviceName="s",
        volumeClaimTemplates=claims,
    )
    assert list(stateful_ordinals(stateful)) == [3, 4]
    pod = stateful_pod(stateful, 3, "w-1")
    assert (pod["metadata"]["name"], pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("w-3", "w-3", "s")
    assert pod["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data-w-3"}},
        {"name": "tmp", "emptyDir": {}},
    ]
    (claim,) = stateful_claims(stateful, 3)
    assert claim["metadata"] == {"name": "data-w-3", "labels": {"x": "y", "a": "b"}}


def test_daemons_replace_limited_tolerations_in_place() -> None:
    limited = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
    own = {"key": "k", "operator": "Exists"}
    pod = daemon_pod(workload("DaemonSet", {"tolerations": [{**limited, "tolerationSeconds": 5}, own]}), "r")
    assert pod["spec"]["tolerations"][:2] == [limited, own]
    assert len(pod["spec"]["tolerations"]) == 7
    assert pod["metadata"]["labels"] == {"a": "b", "controller-revision-hash": "r", "pod-template-generation": "1"}


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ({}, ["plain", "closed"]),
        ({"nodeName": "plain"}, ["plain"]),
        ({"nodeSelector": {"disk": "ssd"}}, []),
        ({"tolerations": [{"operator": "Exists"}]}, ["plain", "tainted", "closed"]),
    ],
)
def test_daemons_run_on_eligible_nodes(template: dict[str, Any], expected: list[str]) -> None:
    nodes = [
        msgspec.convert({"metadata": {"name": name}, "spec": spec}, Node)
        for name, spec in (
            ("plain", {}),
            ("tainted", {"taints": [{"key": "t", "effect": "NoSchedule"}]}),
            ("closed", {"unschedulable": True}),
        )
    ]
    assert [each.name for each in daemon_nodes(workload("DaemonSet", template), nodes)] == expected


def test_the_target_of_a_daemon_is_its_node_affinity() -> None:
    pod: dict[str, Any] = {"spec": {"affinity": daemon_affinity({"podAffinity": {}}, "n1")}}
    assert daemon_target(pod) == "n1"
    assert "podAffinity" in pod["spec"]["affinity"]
    assert daemon_target({"spec": {"nodeName": "n2", **pod["spec"]}}) == "n2"
    assert daemon_target({"spec": {}}) == ""


def test_a_job_selects_its_pods_by_uid() -> None:
    job = workload("Job")
    del job["spec"]["selector"]
    label_job(job)
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    assert job["spec"]["template"]["metadata"]["labels"]["job-name"] == "w"
    manual = workload("Job", manualSelector=True)
    label_job(manual)
    assert manual["spec"]["template"]["metadata"]["labels"] == {"a": "b"}


def test_pods_of_indexed_jobs_know_their_index() -> None:
    key = "batch.kubernetes.io/job-completion-index"
    pod = job_pod(workload("Job"), 2)
    assert pod["metadata"]["generateName"] == "w-2-"
    assert (pod["metadata"]["labels"][key], pod["metadata"]["annotations"][key]) == ("2", "2")
    assert pod["spec"]["containers"][0]["env"][0]["name"] == "JOB_COMPLETION_INDEX"
    assert job_pod(workload("Job"), None)["metadata"]["finalizers"] == ["batch.kubernetes.io/job-tracking"]


def test_ephemeral_claims_belong_to_their_pod() -> None:
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    volumes = [{"name": "v", "ephemeral": {"volumeClaimTemplate": template}}, {"name": "tmp"}]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u"}, "spec": {"volumes": volumes}}
    (claim,) = ephemeral_claims(pod)
    assert (claim["metadata"]["name"], claim["metadata"]["labels"]) == ("p-v", {"x": "y"})
    assert claim["metadata"]["ownerReferences"][0]["uid"] == "u"
