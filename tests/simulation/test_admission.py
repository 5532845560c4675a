"""What an API server does to a pod before a scheduler sees it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from mooring.api.codec import to_dict
from mooring.api.pod import Pod
from mooring.api.policy import PriorityClass
from mooring.simulation.admission import Admission, AdmissionError

PREEMPT = "PreemptLowerPriority"
COMPUTED = (
    "the {} must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass"
    " name"
)
CLASSES = [
    msgspec.convert(each, PriorityClass)
    for each in (
        {"metadata": {"name": "high"}, "value": 1000},
        {"metadata": {"name": "meek"}, "value": 5, "preemptionPolicy": "Never"},
    )
]
DEFAULT = msgspec.convert({"metadata": {"name": "usual"}, "value": 7, "globalDefault": True}, PriorityClass)
LOWER_DEFAULT = msgspec.convert({"metadata": {"name": "low"}, "value": 3, "globalDefault": True}, PriorityClass)


def pod(uid: str = "", labels: dict[str, str] | None = None, **spec: Any) -> Pod:
    spec.setdefault("containers", [{"name": "c"}])
    return msgspec.convert({"metadata": {"name": "p", "uid": uid, "labels": labels or {}}, "spec": spec}, Pod)


def admitted(given: Pod, *classes: PriorityClass) -> dict[str, Any]:
    spec: dict[str, Any] = to_dict(Admission(classes).admit(given))["spec"]
    return spec


def container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "resources": resources}


@pytest.mark.parametrize(
    ("resources", "requests"),
    [
        ({"limits": {"cpu": "2"}}, {"cpu": "2"}),
        ({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}, {"cpu": "1", "memory": "1Gi"}),
        ({"requests": {"cpu": "1"}}, {"cpu": "1"}),
        ({"limits": {"cpu": "2"}, "requests": {"cpu": "0"}}, {"cpu": "0"}),
        ({}, None),
    ],
)
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_limits_become_requests(field: str, resources: Any, requests: Any) -> None:
    spec = admitted(pod(**{field: [container(**resources)]}))
    assert spec[field][0].get("resources", {}).get("requests") == requests


@pytest.mark.parametrize(
    ("resources", "containers", "requests"),
    [
        ({"limits": {"cpu": "4"}}, [container()], {"cpu": "4"}),
        ({"limits": {"cpu": "4"}}, [container(requests={"cpu": "1"})] * 2, {"cpu": "2"}),
        ({"limits": {"cpu": "4"}, "requests": {"cpu": "3"}}, [container(requests={"cpu": "1"})], {"cpu": "3"}),
        ({"limits": {"cpu": "4"}}, [container(requests={"memory": "1Gi"})], {"cpu": "4", "memory": "1Gi"}),
        ({"requests": {"cpu": "4"}}, [container(requests={"memory": "1Gi"})], {"cpu": "4"}),
        (
            {"requests": {"cpu": "4"}},
            [container(limits={"hugepages-2Mi": "4Mi"}, requests={"hugepages-2Mi": "4Mi"})],
            {"cpu": "4", "hugepages-2Mi": "4Mi"},
        ),
        ({"limits": {"cpu": "4"}}, [container(requests={"nvidia.com/gpu": "1"})], {"cpu": "4"}),
    ],
)
def test_requests_of_a_pod_as_a_whole(resources: Any, containers: Any, requests: Any) -> None:
    assert admitted(pod(resources=resources, containers=containers))["resources"]["requests"] == requests


@pytest.mark.parametrize(
    ("host_network", "port", "host_port"),
    [
        (True, {"containerPort": 80}, 80),
        (True, {"containerPort": 80, "hostPort": 81}, 81),
        (False, {"containerPort": 80}, None),
    ],
)
def test_ports_on_the_hosts_network(host_network: bool, port: Any, host_port: int | None) -> None:
    spec = admitted(pod(hostNetwork=host_network, containers=[{"name": "c", "ports": [port]}]))
    assert spec["containers"][0]["ports"][0].get("hostPort") == host_port


@pytest.mark.parametrize(
    ("spec", "classes", "priority", "name", "policy"),
    [
        ({}, [], 0, None, PREEMPT),
        ({}, [*CLASSES, DEFAULT], 7, "usual", PREEMPT),
        ({}, [DEFAULT, LOWER_DEFAULT], 3, "low", PREEMPT),
        ({"priorityClassName": "high"}, [*CLASSES, DEFAULT], 1000, "high", PREEMPT),
        ({"priorityClassName": "meek"}, CLASSES, 5, "meek", "Never"),
        ({"priorityClassName": "high", "priority": 1000}, CLASSES, 1000, "high", PREEMPT),
        ({"priorityClassName": "system-node-critical"}, [], 2000001000, "system-node-critical", PREEMPT),
        ({"priorityClassName": "system-cluster-critical"}, [], 2000000000, "system-cluster-critical", PREEMPT),
        ({"priorityClassName": "unheard-of", "priority": 9}, [], 9, "unheard-of", PREEMPT),
    ],
)
def test_priority(spec: Any, classes: Any, priority: int, name: str | None, policy: str) -> None:
    found = admitted(pod(**spec), *classes)
    assert (found["priority"], found.get("priorityClassName"), found["preemptionPolicy"]) == (priority, name, policy)


def test_a_pod_from_a_cluster_keeps_its_priority() -> None:
    found = admitted(pod("uid-1", priorityClassName="high", priority=5, preemptionPolicy="Never"), *CLASSES)
    assert (found["priority"], found["preemptionPolicy"]) == (5, "Never")


NOT_READY = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}
UNREACHABLE = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}


@pytest.mark.parametrize(
    ("given", "added"),
    [
        ([], [NOT_READY, UNREACHABLE]),
        ([NOT_READY], [UNREACHABLE]),
        ([{"operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
        ([{"key": "node.kubernetes.io/unreachable", "operator": "Exists"}], [NOT_READY]),
    ],
)
def test_pods_stay_five_minutes(given: Any, added: Any) -> None:
    expected = [*given, *({**each, "tolerationSeconds": 300} for each in added)]
    assert admitted(pod(tolerations=given))["tolerations"] == expected


def test_label_keys_are_merged_into_selectors_once() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"a": "b"}},
        "matchLabelKeys": ["v", "absent"],
        "mismatchLabelKeys": ["tenant"],
    }
    spread = {"topologyKey": "zone", "labelSelector": {}, "matchLabelKeys": ["v"]}
    bare = {"topologyKey": "zone", "matchLabelKeys": ["v"]}
    given = pod(
        labels={"v": "1", "tenant": "x"},
        affinity={
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
            },
        },
        topologySpreadConstraints=[spread, bare],
    )
    once = Admission().admit(given)
    spec = to_dict(once)["spec"]
    own = {"key": "v", "operator": "In", "values": ["1"]}
    others = {"key": "tenant", "operator": "NotIn", "values": ["x"]}
    near = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    far = spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"]
    assert near["labelSelector"] == far["labelSelector"]
    assert near["labelSelector"] == {"matchLabels": {"a": "b"}, "matchExpressions": [own, others]}
    assert spec["topologySpreadConstraints"][0]["labelSelector"] == {"matchExpressions": [own]}
    assert "labelSelector" not in spec["topologySpreadConstraints"][1]
    stored = msgspec.structs.replace(once, metadata=msgspec.structs.replace(once.metadata, uid="u"))
    assert Admission().admit(stored) == stored


def test_names_are_filled_in() -> None:
    found = Admission().admit(pod())
    assert (found.metadata.namespace, found.spec.scheduler_name) == ("default", "default-scheduler")


@pytest.mark.parametrize(
    ("spec", "steps", "problem"),
    [
        ({"containers": []}, ("spec", "containers"), "is required"),
        ({"priorityClassName": "hihg"}, ("spec", "priorityClassName"), "no PriorityClass with name hihg was found"),
        ({"priority": 3}, ("spec", "priority"), COMPUTED.format("integer value of priority (3)", 0)),
        (
            {"priority": 3, "priorityClassName": "high"},
            ("spec", "priority"),
            COMPUTED.format("integer value of priority (3)", 1000),
        ),
        (
            {"preemptionPolicy": "Never"},
            ("spec", "preemptionPolicy"),
            COMPUTED.format("string value of PreemptionPolicy (Never)", PREEMPT),
        ),
    ],
)
def test_refused(spec: Any, steps: Any, problem: str) -> None:
    with pytest.raises(AdmissionError) as caught:
        Admission(CLASSES).admit(pod(**spec))
    assert (caught.value.steps, caught.value.problem) == (steps, problem)
    assert caught.value.remedy
