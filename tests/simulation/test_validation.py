"""Manifests that the API server would reject are errors that name the file, the line, the object and the field."""

from __future__ import annotations

import re
from typing import Any

import pytest

from mooring.api.decode_errors import ManifestError
from tests.simulation.manifests import node, pod, scenario, workload

SPREAD = {"maxSkew": -1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
NEGATIVE = "must be greater than or equal to 0"


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "image": "i", "resources": resources}


def custom(kind: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


def node_with(field: str, **amounts: Any) -> dict[str, Any]:
    return {**node("n"), "status": {field: {"cpu": "4", "memory": "8Gi", "pods": "110", **amounts}}}


@pytest.mark.parametrize("amount", [-1, "-1", "-0.5", "-100m", "-1Gi", -0.001])
@pytest.mark.parametrize("resource", ["cpu", "memory", "ephemeral-storage", "nvidia.com/gpu", "hugepages-2Mi"])
def test_negative_amounts(resource: str, amount: Any) -> None:
    for objects, field in (
        (pod("p", containers=[container(requests={"cpu": 1, resource: amount}, limits={resource: amount})]), "limits"),
        (pod("p", initContainers=[container(limits={"cpu": 1, resource: amount})]), "initContainers[0]"),
        (pod("p", resources={"limits": {"cpu": 1, resource: amount}}), "spec.resources"),
        (pod("p", overhead={resource: amount}), "spec.overhead"),
        (node_with("allocatable", **{resource: amount}), "status.allocatable"),
        (node_with("capacity", **{resource: amount}), "status.capacity"),
        (custom("Queue", capability={resource: amount}), "spec.capability"),
        (custom("Queue", guarantee={"resource": {resource: amount}}), "spec.guarantee.resource"),
        (custom("PodGroup", minResources={resource: amount}), "spec.minResources"),
        (workload("Deployment", template={"containers": [container(limits={"cpu": 1, resource: amount})]}), "template"),
    ):
        with pytest.raises(ManifestError) as caught:
            scenario(objects)
        assert field in caught.value.path
        assert resource in caught.value.path
        assert NEGATIVE in str(caught.value)
        assert caught.value.line is not None


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            pod("p", containers=[container(requests={"cpu": -1})]),
            'Pod p: spec.containers[0].resources.requests.cpu: Invalid value: "-1": must be greater than or equal to 0',
        ),
        (
            node_with("allocatable", pods=-5),
            'Node n: status.allocatable.pods: Invalid value: "-5": must be greater than or equal to 0',
        ),
        (node_with("allocatable", pods="1500m"), 'status.allocatable.pods: Invalid value: "1500m": must be an integer'),
        (
            pod("p", containers=[container(requests={"cpu": 2}, limits={"cpu": 1})]),
            'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1',
        ),
        (
            pod("p", containers=[container(requests={"example.com/a": 1})]),
            "spec.containers[0].resources: Required value: Limit must be set for non overcommitable resources",
        ),
        (
            pod("p", topologySpreadConstraints=[SPREAD]),
            "spec.topologySpreadConstraints[0].maxSkew: Invalid value: -1: must be greater than zero",
        ),
        (workload("Deployment", replicas=-1), "Deployment w: spec.replicas: Invalid value: -1: " + NEGATIVE),
        (workload("Job", parallelism=-1), "Job w: spec.parallelism: Invalid value: -1: " + NEGATIVE),
        (custom("PodGroup", minMember=-2), "PodGroup x: spec.minMember: Invalid value: -2: " + NEGATIVE),
        (
            workload(
                "StatefulSet",
                volumeClaimTemplates=[
                    {"metadata": {"name": "d"}, "spec": {"resources": {"requests": {"storage": "-1Gi"}}}}
                ],
            ),
            'spec.volumeClaimTemplates[0].spec.resources.requests.storage: Invalid value: "-1Gi": ' + NEGATIVE,
        ),
    ],
)  # fmt: skip
def test_messages(item: dict[str, Any], message: str) -> None:
    with pytest.raises(ManifestError, match=r"^test\.yaml, line \d+: .*" + re.escape(message)):
        scenario(item)


def test_valid_amounts_pass() -> None:
    limits = {"cpu": 0, "memory": "0.5Gi", "nvidia.com/gpu": 2, "hugepages-2Mi": "4Mi"}
    made = scenario(node("n"), pod("p", containers=[container(limits=limits, requests={"cpu": "0"})]))
    assert [each.pod.name for each in made.pods] == ["p"]
