"""Suggestions for pending pods: `python -m bench.suggestions --nodes 5000 --pods 500`.

Generates pending pods and gangs of all causes, applies the first suggestion for each to a new engine or session, and
counts how many are schedulable there. Prints the share by cause, and the time that suggestions take.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import json
import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import click
import msgspec

from bench.decide import GC_THRESHOLDS
from bench.pending_gangs import (
    GANGS,
    Gang,
    gang_engine,
    gang_works,
    session_cluster,
    suggest_for,
)
from bench.tables import row
from mooring.api.meta import KubeObject
from mooring.api.node import Node
from mooring.api.pod import Pod
from mooring.batch.cluster import BatchCluster
from mooring.config import default_config
from mooring.scheduler.attempt_results import AssumedPod, PendingAttempt, ScheduleFailure
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
    outcome = engine.schedule_one()
    if isinstance(outcome, PendingAttempt):  # it took long, and pauses
        outcome = asyncio.run(engine.complete(outcome))
    return isinstance(outcome, AssumedPod)


def measure(nodes: int, pods: int, seed: int, *, verified: int | None = None) -> dict[str, Any]:
    """Return the shares of suggestions that exist and work, by cause, and the times. Verify at most ``verified``."""
    rng = random.Random(seed)
    objects = cluster(nodes, rng)
    engine = gang_engine(objects)
    sessions = session_cluster(engine)
    _gang(engine, sessions, GANGS["gang: cpu"]("first", rng))  # as if sessions had run before
    gc.freeze()  # as the live scheduler does after the informers have synced
    gc.set_threshold(*GC_THRESHOLDS)
    names = [*CAUSES, *GANGS]
    times: dict[bool, list[float]] = {False: [], True: []}
    texts: dict[str, str] = {}
    checks: list[tuple[str, Callable[[], bool]]] = []
    for number in range(pods):
        cause = names[number % len(names)]
        found, seconds, check = (
            _gang(engine, sessions, GANGS[cause](f"pending-{number}", rng))
            if cause in GANGS
            else _single(engine, CAUSES[cause](f"pending-{number}", rng))
        )
        times[cause in GANGS].append(seconds)
        if found:
            texts.setdefault(cause, found[0].change.text)
        checks.append((cause, functools.partial(check, objects)))
    causes: dict[str, list[bool]] = {name: [] for name in names}
    for cause, holds in checks[:verified]:
        causes[cause].append(holds())
    results = [each for found in causes.values() for each in found]
    return {
        "nodes": nodes,
        "pods": pods,
        "verified": len(results),
        "work_pct": round(100 * sum(results) / len(results), 2),
        "pods_ms": _quantiles(times[False]),
        "gangs_ms": _quantiles(times[True]),
        "causes": {name: [sum(found), len(found), texts.get(name, "")] for name, found in causes.items()},
    }


#: The suggestions, the time that they took, and whether the first one works on a cluster.
_Answer = tuple[Sequence[Any], float, Callable[[list[KubeObject]], bool]]


def _single(engine: Engine, pod: Pod) -> _Answer:
    """Return the suggestions for a pod."""
    ungated = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=()))
    outcome = schedule_pod(engine.profiles.first, ungated)
    assert isinstance(outcome, ScheduleFailure) or pod.spec.scheduling_gates, f"{pod.name}: the pod is schedulable"
    started = time.perf_counter()
    found = suggest(engine, pod)
    seconds = time.perf_counter() - started
    return found, seconds, lambda objects: bool(found) and works(objects, cast("Suggestion", found[0]))


def _gang(engine: Engine, sessions: BatchCluster, gang: Gang) -> _Answer:
    """Return the suggestions for a gang."""
    for item in gang.objects:
        engine.put(item)
    try:
        started = time.perf_counter()
        found = suggest_for(engine, sessions, gang)
        seconds = time.perf_counter() - started
    finally:
        for item in reversed(gang.objects):
            engine.remove(item)
    return found, seconds, lambda objects: bool(found) and gang_works(objects, gang, found[0])


def _quantiles(times: list[float]) -> dict[str, float]:
    """Return the median, the 99th percentile and the maximum, in milliseconds."""
    times = sorted(times) or [0.0]
    named = {"median": statistics.median(times), "p99": times[min(len(times) - 1, int(0.99 * len(times)))]}
    return {name: round(1000 * value, 1) for name, value in {**named, "max": times[-1]}.items()}


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
    print(f"{found['work_pct']} % of {found['verified']} work")
    for what in ("pods", "gangs"):
        times = found[f"{what}_ms"]
        print(f"{what}: median {times['median']} ms, p99 {times['p99']} ms, longest {times['max']} ms")


if __name__ == "__main__":
    main()
