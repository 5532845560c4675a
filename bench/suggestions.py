"""Suggestions for pending pods: `python -m bench.suggestions --nodes 5000 --pods 500`.

Generates pending pods of all causes, applies the first suggestion for each to a new engine, and counts how many pods
are schedulable there. Prints the share by cause, and the time that suggestions take.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import click
import msgspec

from bench.tables import row
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.scheduler.attempt_results import AssumedPod, ScheduleFailure
from mooring.scheduler.engine import Engine
from mooring.scheduler.schedule_pod import schedule_pod
from mooring.scheduler.suggestions import Suggestion, suggest

_ZONES, _TYPES = 3, (("m.large", 8), ("m.xlarge", 16), ("g.gpu", 32))


def cluster(nodes: int, rng: random.Random) -> list[KubeObject]:
    """Return nodes of three types, of which some are tainted or cordoned, with pods that use most of their cpu."""
    found: list[KubeObject] = []
    for number in range(nodes):
        kind, cpu = _TYPES[number % len(_TYPES)]
        name = f"node-{number}"
        spec: dict[str, Any] = {}
        if number % 7 == 3:
            spec["taints"] = [{"key": "dedicated", "value": f"team-{number % 3}", "effect": "NoSchedule"}]
        if number % 11 == 5:
            spec = {
                "unschedulable": True,
                "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}],
            }
        labels = {
            "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": f"zone-{number % _ZONES}",
            "node.kubernetes.io/instance-type": kind,
            "disk": "ssd" if number % 2 else "hdd",
        }
        amounts = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        if kind == "g.gpu":
            amounts["nvidia.com/gpu"] = "4"
        status = {"allocatable": amounts, "capacity": amounts}
        found.append(
            _object(
                {"kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": spec, "status": status}, Node
            )
        )
        for index in range(3):
            share = rng.uniform(0.15, 0.3) * cpu
            found.append(
                _pod(
                    f"run-{number}-{index}",
                    cpu=f"{int(1000 * share)}m",
                    labels={"app": f"app-{index}"},
                    nodeName=name,
                    priority=100,
                )
            )
        found.append(
            _pod(
                f"guard-{number}",
                labels={"app": "guard"},
                nodeName=name,
                priority=100,
                ports=[{"containerPort": 80, "hostPort": 8080}],
            )
        )
    return found


def _object(document: dict[str, Any], kind: type[KubeObject]) -> Any:
    return msgspec.convert({"apiVersion": "v1", **document}, kind)


def _pod(
    name: str,
    *,
    cpu: str = "100m",
    memory: str = "64Mi",
    more: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    ports: Any = (),
    **spec: Any,
) -> Pod:
    requests = {"cpu": cpu, "memory": memory, **(more or {})}
    container = {"name": "main", "image": "app", "resources": {"requests": requests}, "ports": list(ports)}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    made: Pod = _object(
        {
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [container], "schedulerName": "default-scheduler", **spec},
        },
        Pod,
    )
    return made


def _term(key: str, app: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def _required(*expressions: tuple[str, str, list[str]]) -> dict[str, Any]:
    terms = [{"key": key, "operator": operator, "values": values} for key, operator, values in expressions]
    wanted = {"nodeSelectorTerms": [{"matchExpressions": terms}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}


#: Cause -> a pod that is pending for it.
CAUSES: dict[str, Callable[[str, random.Random], Pod]] = {
    "cpu": lambda name, rng: _pod(name, cpu=str(rng.randint(33, 64))),
    "memory": lambda name, rng: _pod(name, memory=f"{rng.randint(200, 900)}Gi"),
    "cpu and memory": lambda name, rng: _pod(name, cpu="40", memory=f"{rng.randint(200, 300)}Gi"),
    "gpu": lambda name, rng: _pod(name, more={"nvidia.com/gpu": str(rng.randint(5, 9))}),
    "unknown resource": lambda name, rng: _pod(name, more={"example.com/fpga": str(rng.randint(1, 4))}),
    "node selector": lambda name, rng: _pod(name, nodeSelector={"disk": f"nvme{rng.randint(0, 3)}"}),
    "two labels": lambda name, rng: _pod(name, nodeSelector={"disk": "ssd", "tier": f"t{rng.randint(0, 3)}"}),
    "node affinity": lambda name, rng: _pod(name, affinity=_required(("disk", "In", [f"nvme{rng.randint(0, 3)}"]))),
    "two expressions": lambda name, rng: _pod(
        name, affinity=_required(("disk", "In", ["ssd"]), ("rack", "In", [f"r{rng.randint(0, 9)}"]))
    ),
    "taint": lambda name, rng: _pod(
        name, affinity=_required(("kubernetes.io/hostname", "In", [f"node-{3 + 7 * rng.randint(0, 3)}"]))
    ),
    "cordoned": lambda name, _: _pod(name, affinity=_required(("kubernetes.io/hostname", "In", ["node-5"]))),
    "host port": lambda name, _: _pod(name, ports=[{"containerPort": 80, "hostPort": 8080}]),
    "anti-affinity": lambda name, _: _pod(
        name,
        affinity={
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [_term("topology.kubernetes.io/zone", "guard")]
            }
        },
    ),
    "affinity": lambda name, rng: _pod(
        name,
        affinity={
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    _term("kubernetes.io/hostname", f"none-{rng.randint(0, 9)}")
                ]
            }
        },
    ),
    "spread": lambda name, rng: _pod(
        name,
        labels={"app": "app-1"},
        nodeSelector={"kubernetes.io/hostname": f"node-{rng.choice((0, 1, 2))}"},
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "missing",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "app-1"}},
            }
        ],
    ),
    "claim": lambda name, _: _pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}]),
    "gate": lambda name, _: _pod(name, schedulingGates=[{"name": "example.com/quota"}]),
    "gate and cpu": lambda name, _: _pod(name, cpu="40", schedulingGates=[{"name": "example.com/quota"}]),
    "selector and cpu": lambda name, rng: _pod(name, cpu=str(rng.randint(33, 64)), nodeSelector={"disk": "nvme"}),
    "taint and cpu": lambda name, _: _pod(name, cpu="40", nodeSelector={"kubernetes.io/hostname": "node-3"}),
}


def engine_with(objects: list[KubeObject]) -> Engine:
    """Return an engine that has seen the objects of a cluster."""
    engine = Engine(default_config(), rng=random.Random(0))
    for item in objects:
        engine.put(item)
    return engine


def works(objects: list[KubeObject], suggestion: Suggestion) -> bool:
    """Apply a suggestion to a new engine, and return whether the pod is scheduled there."""
    change = suggestion.change
    gone = {pod.uid for pod in change.victims}
    changed = {node.name: node for node in change.nodes}
    kept = [item for item in objects if not (isinstance(item, Pod) and item.uid in gone)]
    kept = [changed.pop(item.name, item) if isinstance(item, Node) else item for item in kept]
    engine = engine_with([*kept, *changed.values()])
    engine.put(change.pod)
    return isinstance(engine.schedule_one(), AssumedPod)


def measure(nodes: int, pods: int, seed: int, *, verified: int | None = None) -> dict[str, Any]:
    """Return the shares of suggestions that exist and work, by cause, and the times. Verify at most ``verified``."""
    rng = random.Random(seed)
    objects = cluster(nodes, rng)
    engine = engine_with(objects)
    causes: dict[str, list[bool]] = {name: [] for name in CAUSES}
    times: list[float] = []
    texts: dict[str, str] = {}
    for number in range(pods):
        cause = list(CAUSES)[number % len(CAUSES)]
        pod = CAUSES[cause](f"pending-{number}", rng)
        ungated = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=()))
        outcome = schedule_pod(engine.profiles.first, ungated)
        assert isinstance(outcome, ScheduleFailure) or pod.spec.scheduling_gates, f"{cause}: the pod is schedulable"
        started = time.perf_counter()
        found = suggest(engine, pod)
        times.append(time.perf_counter() - started)
        if found:
            texts.setdefault(cause, found[0].change.text)
        if verified is None or number < verified:
            causes[cause].append(bool(found) and works(objects, found[0]))
    results = [each for found in causes.values() for each in found]
    times.sort()
    return {
        "nodes": nodes,
        "pods": pods,
        "verified": len(results),
        "work_pct": round(100 * sum(results) / len(results), 2),
        "median_ms": round(1000 * statistics.median(times), 1),
        "p99_ms": round(1000 * times[min(len(times) - 1, int(0.99 * len(times)))], 1),
        "causes": {name: [sum(found), len(found), texts.get(name, "")] for name, found in causes.items()},
    }


@click.command()
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=500, show_default=True)
@click.option("--verified", default=None, type=int, help="Verify the suggestions of only so many pods.")
@click.option("--seed", default=0, show_default=True)
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def main(nodes: int, pods: int, verified: int | None, seed: int, output: str) -> None:
    """Measure how many first suggestions make a pending pod schedulable, and how long suggestions take."""
    found = measure(nodes, pods, seed, verified=verified)
    if output == "json":
        print(json.dumps(found))
        return
    print(row(["cause", "work", "of"]) + "  first suggestion")
    for cause, (good, total, text) in found["causes"].items():
        print(row([cause, good, total]) + f"  {text}")
    print(
        f"{found['work_pct']} % of {found['verified']} work; median {found['median_ms']} ms, p99 {found['p99_ms']} ms"
    )


if __name__ == "__main__":
    main()
