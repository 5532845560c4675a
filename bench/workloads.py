"""The workloads of the decision benchmark: nodes, running pods, and pods to place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from mooring.api.node import Node
from mooring.api.pod import Pod, PodStatus
from mooring.plugins.node_resource_topology.zones import NodeResourceTopology

ZONES = 3
IMAGE = "registry.example/app:1"
Spec = dict[str, Any]


def node(number: int) -> Node:
    """Return a node of scheduler_perf's default size, in one of three zones."""
    name = f"node-{number:05d}"
    amounts = {"cpu": "4", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    raw = {
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/hostname": name,
                "topology.kubernetes.io/zone": f"zone-{number % ZONES}",
                "topology.kubernetes.io/region": "region-1",
                "disk": "ssd" if number % 4 else "hdd",
            },
        },
        "status": {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    return msgspec.convert(raw, Node)


def pod(number: int, *, labels: dict[str, str] | None = None, prefix: str = "pod", **spec: Any) -> Pod:
    """Return a pod of scheduler_perf's default size (100m, 500Mi), with additional spec fields."""
    requests = spec.pop("requests", {"cpu": "100m", "memory": "500Mi"})
    raw = {
        "metadata": {
            "name": f"{prefix}-{number}",
            "namespace": "default",
            "uid": f"{prefix}-{number}",
            "labels": labels or {"app": "basic"},
        },
        "spec": {
            "containers": [{"name": "c", "image": "registry.example/app:1", "resources": {"requests": requests}}],
            **spec,
        },
    }
    return msgspec.convert(raw, Pod)


def started(pod: Pod, number: int) -> Pod:
    """Return a running copy of a pod."""
    since = f"2026-01-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
    return msgspec.structs.replace(pod, status=PodStatus(phase="Running", start_time=since))


def basic(number: int) -> Pod:
    """Return a pod; all pods are from one template."""
    return pod(number)


def mixed(number: int) -> Pod:
    """Return a pod that differs from all others in requests, labels, tolerations and selectors."""
    spec: Spec = {"requests": {"cpu": f"{50 + number % 97}m", "memory": f"{100 + number % 389}Mi"}}
    if number % 3 == 0:
        spec["tolerations"] = [{"key": f"team-{number % 50}", "operator": "Exists"}]
    if number % 4 == 0:
        spec["nodeSelector"] = {"disk": "ssd"}
    if number % 5 == 0:
        zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [f"zone-{number % ZONES}"]}
        term = {"weight": 1 + number % 100, "preference": {"matchExpressions": [zone]}}
        spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    return pod(number, labels={"app": f"app-{number}", "team": f"team-{number % 50}"}, **spec)


def nodeaffinity(number: int) -> Pod:
    """Return a pod with required node affinity for two of three zones."""
    zones = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["zone-0", "zone-1"]}
    terms = [{"matchExpressions": [zones]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return pod(number, affinity={"nodeAffinity": required})


def spread(number: int) -> Pod:
    """Return a pod with a hard spread constraint over zones."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    return pod(number, labels={"app": "spread"}, topologySpreadConstraints=[constraint])


def affinity(number: int) -> Pod:
    """Return a pod with required affinity to pods of the same template in a zone."""
    term = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": "near"}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod(number, labels={"app": "near"}, affinity={"podAffinity": required})


def antiaffinity(number: int) -> Pod:
    """Return a pod of one of 200 applications, with required anti-affinity on the host."""
    app = f"app-{number % 200}"
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return pod(number, labels={"app": app}, affinity={"podAntiAffinity": required})


def preferred(number: int) -> Pod:
    """Return a pod with soft spread constraints over zones and hosts, and preferred affinity."""
    selector = {"matchLabels": {"app": "soft"}}
    constraints = [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}
        for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
    ]
    term = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": selector}
    liked = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": term}]}
    return pod(number, labels={"app": "soft"}, topologySpreadConstraints=constraints, affinity={"podAffinity": liked})


def preemption(number: int) -> Pod:
    """Return a pod that fits only after preemption."""
    return pod(number, prefix="urgent", priority=1000, requests={"cpu": "3", "memory": "1Gi"})


def numa(number: int) -> Pod:
    """Return a pod for nodes with NUMA zones (see ``zones``); all pods are from one template."""
    return _guaranteed(pod(number))


def numamixed(number: int) -> Pod:
    """Return a pod as in `numa`, with different requests; some pods have two containers."""
    requests = {"cpu": f"{50 + number % 97}m", "memory": f"{100 + number % 389}Mi"}
    made = pod(number, labels={"app": f"app-{number}"}, requests=requests)
    if number % 3 == 0:
        spec = msgspec.structs.replace(made.spec, containers=made.spec.containers * 2)
        made = msgspec.structs.replace(made, spec=spec)
    return _guaranteed(made)


def _guaranteed(made: Pod) -> Pod:
    held = tuple(
        msgspec.structs.replace(each, resources=msgspec.structs.replace(each.resources, limits=each.resources.requests))
        for each in made.spec.containers
    )
    return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, containers=held))


def zones(name: str, number: int) -> NodeResourceTopology:
    """Return the report of a node with two NUMA zones of two cores, which are partly in use."""
    used = number % 16
    raw = [
        {
            "name": f"node-{zone}",
            "type": "Node",
            "costs": [{"name": f"node-{other}", "value": 10 if other == zone else 20} for other in range(2)],
            "resources": [
                {"name": resource, "capacity": most, "allocatable": most, "available": left}
                for resource, most, left in (
                    ("cpu", "2", f"{2000 - 100 * used}m"),
                    ("memory", "16Gi", f"{16 - used}Gi"),
                )
            ],
        }
        for zone in range(2)
    ]
    scope = "pod" if number % 2 else "container"
    attributes = {"topologyManagerPolicy": "single-numa-node", "topologyManagerScope": scope}
    listed = [{"name": key, "value": value} for key, value in attributes.items()]
    return msgspec.convert({"metadata": {"name": name}, "zones": raw, "attributes": listed}, NodeResourceTopology)


#: "pernode" is "basic" with a user's plugin in the profile that filters and scores node by node; "numaleast" is
#: "numamixed" with the strategy LeastNUMANodes.
WORKLOADS: dict[str, Callable[[int], Pod]] = {
    "basic": basic,
    "mixed": mixed,
    "nodeaffinity": nodeaffinity,
    "spread": spread,
    "affinity": affinity,
    "antiaffinity": antiaffinity,
    "preferred": preferred,
    "preemption": preemption,
    "pernode": basic,
    "numa": numa,
    "numamixed": numamixed,
    "numaleast": numamixed,
}


def standing(workload: str, nodes: int) -> Iterator[tuple[Pod, int]]:
    """Yield the pods that run before the measurement, with the numbers of their nodes."""
    if workload == "preemption":
        for number in range(nodes * 4):
            requests = {"cpu": "900m", "memory": "500Mi"}
            low = pod(number, prefix="low", priority=number % 7, requests=requests)
            yield started(low, number), number % nodes
        return
    make = WORKLOADS[workload]
    for number in range(nodes):
        yield started(make(10_000_000 + number), number), number
