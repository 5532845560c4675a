"""Random clusters and what happens in them, from a seed: nodes, pods in place, and steps one after the other."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.e2e.controlplane import Object
from tests.e2e.differential.shapes import PRIORITIES, Shapes, preplaced
from tests.e2e.differential.steps import Step

#: Pods that a scheduler has to decide about in one scenario.
PODS: Final = 15
_TAINTS: Final = (
    {"key": "dedicated", "value": "batch", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "NoSchedule"},
    {"key": "slow", "value": "", "effect": "PreferNoSchedule"},
    {"key": "leaving", "value": "soon", "effect": "NoExecute"},
)


@dataclass(frozen=True)
class Scenario:
    """A cluster at the start, and what happens then."""

    seed: int
    namespace: str
    #: Applied before anything is compared; pods among them are in place.
    setup: tuple[Step, ...]
    steps: tuple[Step, ...]


def generate(seed: int) -> Scenario:
    """The scenario of a seed."""
    rng = Random(f"mooring differential {seed}")
    namespace = f"case-{seed}"
    zones = rng.choice([1, 2, 3])
    nodes = [_node(rng, number, zones) for number in range(rng.randint(3, 9))]
    names = [node["metadata"]["name"] for node in nodes]
    setup = [Step("create", "/api/v1/namespaces", {"metadata": {"name": namespace, "labels": {"team": "a"}}})]
    setup += [Step("create", "/api/v1/nodes", node) for node in nodes]
    shapes = Shapes(rng, namespace, names, zones)
    setup += shapes.surroundings()
    pods = f"/api/v1/namespaces/{namespace}/pods"
    setup += [
        Step("create", pods, preplaced(rng, f"old-{number}", rng.choice(nodes))) for number in range(rng.randint(0, 10))
    ]
    return Scenario(seed, namespace, tuple(setup), tuple(_steps(rng, pods, names, shapes)))


def _steps(rng: Random, pods: str, names: list[str], shapes: Shapes) -> list[Step]:
    steps: list[Step] = []
    for number in range(PODS):
        pod = shapes.pod(f"new-{number}")
        steps.append(Step("create", pods, pod))
        if pod["spec"].get("schedulingGates") and rng.random() < 0.7:
            steps.append(Step("patch", f"{pods}/new-{number}", {"spec": {"schedulingGates": []}}))
        if rng.random() < 0.25:
            steps.append(_event(rng, pods, rng.choice(names), rng.randrange(number + 1)))
    return steps


def _event(rng: Random, pods: str, node: str, number: int) -> Step:
    """Something that may make room, or take it."""
    path = f"/api/v1/nodes/{node}"
    return rng.choice(
        [
            Step("patch", path, {"spec": {"unschedulable": None}}),
            Step("patch", path, {"spec": {"taints": None}}),
            Step("patch", path, {"metadata": {"labels": {"disk": rng.choice(["ssd", "hdd"])}}}),
            Step("patch", f"{path}/status", {"status": {"allocatable": {"cpu": rng.choice(["3", "9", "17"])}}}),
            Step("patch", path, {"spec": {"unschedulable": True}}),
            Step("delete", f"{pods}/new-{number}"),
            Step("delete", f"{pods}/old-{rng.randrange(6)}"),
        ]
    )


def _node(rng: Random, number: int, zones: int) -> Object:
    """No two nodes alike: scores tie less often."""
    name = f"n{number}"
    amounts: dict[str, str] = {
        "cpu": f"{rng.choice([1000, 2000, 3000, 4000, 6000, 8000]) + 10 * number}m",
        "memory": f"{rng.choice([2048, 4096, 8192, 16384]) + 37 * number}Mi",
        "pods": str(rng.choice([3, 8, 110])),
        "ephemeral-storage": "20Gi",
    }
    if rng.random() < 0.3:
        amounts["example.com/gpu"] = str(rng.choice([1, 2, 4]))
    labels = {"kubernetes.io/hostname": name, "slot": str(number), "disk": rng.choice(["ssd", "hdd"])}
    if rng.random() < 0.9:
        labels["topology.kubernetes.io/zone"] = f"zone-{number % zones}"
    spec: dict[str, Any] = {}
    if rng.random() < 0.3:
        spec["taints"] = [rng.choice(_TAINTS)]
    if rng.random() < 0.08:
        spec["unschedulable"] = True
    status: dict[str, Any] = {
        "allocatable": amounts,
        "capacity": amounts,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Made"}],
    }
    if rng.random() < 0.4:
        status["images"] = [{"names": ["example/app:1"], "sizeBytes": rng.choice([30, 300, 900]) << 20}]
    return {"metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}


def priority_classes() -> list[Step]:
    """What the pods' priorityClassName may be."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    return [
        Step("create", path, {"metadata": {"name": name}, "value": value, "preemptionPolicy": policy})
        for name, (value, policy) in PRIORITIES.items()
    ]
