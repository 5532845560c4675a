"""Small clusters for tests of batch sessions, as the objects of a case."""

from __future__ import annotations

import itertools
from typing import Any

from mooring.batch.evaluate import evaluate

Object = dict[str, Any]
_numbers = itertools.count(1)
PLUGINS = ("priority", "gang", "conformance"), ("drf", "predicates", "proportion", "nodeorder", "binpack")


def conf(*tiers: tuple[str, ...], actions: str = "enqueue, allocate, backfill", **arguments: Any) -> str:
    """A configuration; ``arguments`` are YAML flow mappings by plugin."""
    lines = [f'actions: "{actions}"', "tiers:"]
    for tier in tiers or PLUGINS:
        lines.append("- plugins:")
        for name in tier:
            lines.append(f"  - name: {name}")
            given = arguments.get(name.replace("-", "_"))
            if given:
                lines.append(f"    arguments: {given}")
    return "\n".join(lines)


def metadata(name: str, namespace: str = "default", **rest: Any) -> Object:
    """Times and uids are distinct, and in the order in which objects are made."""
    number = next(_numbers)
    created = f"2026-01-01T{number // 3600 % 24:02d}:{number // 60 % 60:02d}:{number % 60:02d}Z"
    return {"name": name, "namespace": namespace, "uid": f"uid-{number:06d}", "creationTimestamp": created, **rest}


def node(name: str, cpu: str = "4", *, labels: dict[str, str] | None = None, **more: str) -> Object:
    amounts = {"cpu": cpu, "memory": "32Gi", "pods": "110", **more}
    own = {"kubernetes.io/hostname": name, **(labels or {})}
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata(name, "", labels=own), "status": status}


def queue(name: str, weight: int = 1, state: str = "Open", **spec: Any) -> Object:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": metadata(name, "")}
    return {**head, "spec": {"weight": weight, "reclaimable": True, **spec}, "status": {"state": state}}


def group(name: str, least: int, *, queue: str = "default", phase: str = "Pending", **spec: Any) -> Object:
    head = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata(name)}
    return {**head, "spec": {"minMember": least, "queue": queue, **spec}, "status": {"phase": phase}}


def pod(name: str, gang: str, *, cpu: str = "1", on: str = "", phase: str = "", **spec: Any) -> Object:
    requests = {"cpu": cpu} if cpu else {}
    container = {"name": "app", "image": "app", "resources": {"requests": requests}}
    own = metadata(name, annotations={"scheduling.k8s.io/group-name": gang})
    whole = {"schedulerName": "volcano", "containers": [container], **spec, **({"nodeName": on} if on else {})}
    status = {"phase": phase or ("Running" if on else "Pending")}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": own, "spec": whole, "status": status}


def gang(name: str, pods: int, least: int = -1, *, queue: str = "default", cpu: str = "1", **rest: Any) -> list[Object]:
    """A group and its pods, which wait."""
    members = [pod(f"{name}-task-{number}", name, cpu=cpu) for number in range(pods)]
    return [group(name, pods if least < 0 else least, queue=queue, **rest), *members]


def running(name: str, nodes: list[str], least: int = 1, *, queue: str = "default", cpu: str = "1") -> list[Object]:
    """A group whose pods run on nodes."""
    members = [pod(f"{name}-task-{number}", name, cpu=cpu, on=each) for number, each in enumerate(nodes)]
    return [group(name, least, queue=queue, phase="Running"), *members]


def decide(text: str, *objects: Object | list[Object]) -> dict[str, Any]:
    """What a session decides on some objects, beside a root and a default queue."""
    flat: list[Object] = [queue("root"), queue("default")]
    for each in objects:
        flat += each if isinstance(each, list) else [each]
    return evaluate({"conf": text, "objects": flat})
