"""The benchmark of hostile pods, which a tenant creates to block the scheduler: `python -m bench.hostile --nodes 1000`.

Each shape is a valid pod, close to the size limit of the API server, that makes one part of a decision as expensive as
possible. `tests/e2e/test_hostile_pods.py` runs the same shapes on a real API server and compares with kube-scheduler.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from typing import Any

import click
import msgspec

from bench.workloads import node
from mooring.api.pod import Pod
from mooring.config import default_config
from mooring.scheduler.attempt_results import ScheduleResult
from mooring.scheduler.cache import Cache
from mooring.scheduler.profiles import Profiles
from mooring.scheduler.schedule_one import schedule_pod

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
Manifest = dict[str, Any]


def _expression(key: str, operator: str, *values: str) -> Manifest:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def _node_terms(*terms: list[Manifest]) -> Manifest:
    return {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": each} for each in terms]}}}


def _preferred_node_terms(*terms: list[Manifest]) -> Manifest:
    preferences = [{"weight": 1 + i % 100, "preference": {"matchExpressions": e}} for i, e in enumerate(terms)]
    return {"nodeAffinity": {_PREFERRED: preferences}}


def _pod_terms(kind: str, terms: list[Manifest], *, preferred: bool = False) -> Manifest:
    if not preferred:
        return {kind: {_REQUIRED: terms}}
    return {kind: {_PREFERRED: [{"weight": 1 + i % 100, "podAffinityTerm": each} for i, each in enumerate(terms)]}}


def _pod_term(key: str, labels: dict[str, str], **more: Any) -> Manifest:
    return {"topologyKey": key, "labelSelector": {"matchLabels": labels}, **more}


def _spread(key: str, when: str, selector: Manifest | None = None) -> Manifest:
    chosen = selector or {"matchLabels": {"app": "hostile"}}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": when, "labelSelector": chosen}


def _container(number: int, **more: Any) -> Manifest:
    return {"name": f"c{number}", "image": "registry.example/app:1", **more}


def _affinity(affinity: Manifest) -> Manifest:
    return {"affinity": affinity}


#: Name -> the spec of the pod, without containers unless it has its own.
SPECS: dict[str, Callable[[], Manifest]] = {
    # Required node affinity
    "Gt on the hostname": lambda: _affinity(_node_terms(*([_expression(HOST, "Gt", str(i))] for i in range(10_000)))),
    "Lt on a number": lambda: _affinity(_node_terms(*([_expression("number", "Lt", f"-{i}")] for i in range(10_000)))),
    "Gt and Lt in one term": lambda: _affinity(
        _node_terms([_expression("number", "Gt" if i % 2 else "Lt", str(i)) for i in range(10_000)])
    ),
    "In with one host per term": lambda: _affinity(
        _node_terms(*([_expression(HOST, "In", f"missing-{i}")] for i in range(10_000)))
    ),
    "NotIn, all in one term": lambda: _affinity(
        _node_terms([_expression(HOST, "NotIn", f"missing-{i}") for i in range(10_000)])
    ),
    "In with many values": lambda: _affinity(
        _node_terms([_expression(HOST, "In", *(f"missing-{i}" for i in range(30_000)))])
    ),
    "Exists with many keys": lambda: _affinity(
        _node_terms(*([_expression(f"key-{i}", "Exists")] for i in range(10_000)))
    ),
    "DoesNotExist with many keys": lambda: _affinity(
        _node_terms([_expression(f"key-{i}", "DoesNotExist") for i in range(10_000)])
    ),
    "the same term": lambda: _affinity(_node_terms(*([_expression(HOST, "Gt", "1")] for _ in range(20_000)))),
    "empty terms": lambda: _affinity({"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{}] * 30_000}}}),
    "one node name per term": lambda: _affinity(
        {
            "nodeAffinity": {
                _REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchFields": [_expression("metadata.name", "In", f"missing-{i}")]} for i in range(10_000)
                    ]
                }
            }
        }
    ),
    "not these node names": lambda: _affinity(
        {
            "nodeAffinity": {
                _REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchFields": [_expression("metadata.name", "NotIn", f"missing-{i}") for i in range(10_000)]}
                    ]
                }
            }
        }
    ),
    "a large nodeSelector": lambda: {"nodeSelector": {f"key-{i}": "value" for i in range(20_000)}},
    # Preferred node affinity
    "preferred Gt": lambda: _affinity(
        _preferred_node_terms(*([_expression(HOST, "Gt", str(i))] for i in range(9_000)))
    ),
    "preferred In": lambda: _affinity(
        _preferred_node_terms(*([_expression(HOST, "In", f"node-{i:05d}")] for i in range(9_000)))
    ),
    "preferred Exists": lambda: _affinity(
        _preferred_node_terms(*([_expression(f"key-{i}", "Exists")] for i in range(9_000)))
    ),
    "preferred, all in one term": lambda: _affinity(
        _preferred_node_terms([_expression(HOST, "NotIn", f"missing-{i}") for i in range(9_000)])
    ),
    # Tolerations
    "tolerations of many keys": lambda: {
        "tolerations": [{"key": f"key-{i}", "operator": "Exists", "effect": "NoSchedule"} for i in range(14_000)]
    },
    "preferred tolerations": lambda: {
        "tolerations": [
            {"key": f"key-{i}", "operator": "Equal", "value": "x", "effect": "PreferNoSchedule"} for i in range(12_000)
        ]
    },
    # Topology spread
    "soft spread keys": lambda: {
        "topologySpreadConstraints": [_spread(f"key-{i}", "ScheduleAnyway") for i in range(8_000)]
    },
    "hard spread keys": lambda: {
        "topologySpreadConstraints": [_spread(f"key-{i}", "DoNotSchedule") for i in range(8_000)]
    },
    "spread with many expressions": lambda: {
        "topologySpreadConstraints": [
            _spread(
                HOST,
                "DoNotSchedule",
                {"matchExpressions": [_expression(f"k{i}", "DoesNotExist") for i in range(9_000)]},
            )
        ]
    },
    "spread selectors": lambda: {
        "topologySpreadConstraints": [
            _spread(f"key-{i}", "ScheduleAnyway", {"matchLabels": {f"label-{i}": "value"}}) for i in range(6_000)
        ]
    },
    # Affinity to pods
    "pod affinity terms": lambda: _affinity(
        _pod_terms("podAffinity", [_pod_term(ZONE, {f"label-{i}": "v"}) for i in range(8_000)])
    ),
    "pod anti-affinity terms": lambda: _affinity(
        _pod_terms("podAntiAffinity", [_pod_term(ZONE, {f"label-{i}": "v"}) for i in range(8_000)])
    ),
    "pod anti-affinity keys": lambda: _affinity(
        _pod_terms("podAntiAffinity", [_pod_term(f"key-{i}", {"app": "hostile"}) for i in range(8_000)])
    ),
    "preferred pod affinity": lambda: _affinity(
        _pod_terms("podAffinity", [_pod_term(ZONE, {f"label-{i}": "v"}) for i in range(7_000)], preferred=True)
    ),
    "preferred anti-affinity keys": lambda: _affinity(
        _pod_terms("podAntiAffinity", [_pod_term(f"key-{i}", {"app": "hostile"}) for i in range(7_000)], preferred=True)
    ),
    "preferred terms of itself": lambda: _affinity(
        _pod_terms("podAffinity", [_pod_term(HOST, {"app": "hostile"})] * 7_000, preferred=True)
    ),
    "pod terms of many namespaces": lambda: _affinity(
        _pod_terms(
            "podAntiAffinity",
            [_pod_term(ZONE, {"app": str(i)}, namespaces=[f"ns-{j}" for j in range(500)]) for i in range(200)],
        )
    ),
    "pod terms with namespace selectors": lambda: _affinity(
        _pod_terms(
            "podAntiAffinity",
            [_pod_term(ZONE, {"app": "x"}, namespaceSelector={"matchLabels": {f"l{i}": "v"}}) for i in range(5_000)],
        )
    ),
    "pod terms with many values": lambda: _affinity(
        _pod_terms(
            "podAffinity",
            [
                {
                    "topologyKey": ZONE,
                    "labelSelector": {
                        "matchExpressions": [_expression("app", "NotIn", *(f"value-{i}-{j}" for j in range(1_000)))]
                    },
                }
                for i in range(60)
            ],
        )
    ),
    # The pod itself
    "containers": lambda: {
        "containers": [_container(i, resources={"requests": {"cpu": "1m", "memory": "1Mi"}}) for i in range(8_000)]
    },
    "init containers": lambda: {
        "initContainers": [_container(i, resources={"requests": {"cpu": f"{i % 100}m"}}) for i in range(8_000)],
        "containers": [_container(100_000)],
    },
    "images": lambda: {"containers": [{"name": f"c{i}", "image": f"registry.example/app:{i}"} for i in range(10_000)]},
    "extended resources": lambda: {
        "containers": [
            _container(
                0,
                resources={
                    "requests": {f"example.com/r{i}": "1" for i in range(9_000)},
                    "limits": {f"example.com/r{i}": "1" for i in range(9_000)},
                },
            )
        ]
    },
    "host ports": lambda: {
        "containers": [
            _container(0, ports=[{"containerPort": 1 + i, "hostPort": 1 + i, "protocol": "TCP"} for i in range(15_000)])
        ]
    },
    "volumes": lambda: {"volumes": [{"name": f"v{i}", "emptyDir": {}} for i in range(15_000)]},
    "missing claims": lambda: {
        "volumes": [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"missing-{i}"}} for i in range(10_000)]
    },
    "scheduling constraints of all kinds": lambda: {
        "affinity": {
            **_node_terms(*([_expression(HOST, "Gt", str(i))] for i in range(2_000))),
            **_pod_terms("podAntiAffinity", [_pod_term(ZONE, {f"label-{i}": "v"}) for i in range(1_500)]),
        },
        "tolerations": [{"key": f"key-{i}", "operator": "Exists"} for i in range(2_000)],
        "topologySpreadConstraints": [_spread(f"key-{i}", "ScheduleAnyway") for i in range(1_000)],
    },
}
#: Shapes in the metadata.
LABELS: dict[str, Callable[[], dict[str, str]]] = {
    "labels": lambda: {f"label-{i}": f"value-{i}" for i in range(15_000)},
}
SHAPES: tuple[str, ...] = (*SPECS, *LABELS)


def manifest(shape: str, name: str) -> Manifest:
    """Return a pod of a shape."""
    labels = {"app": "hostile", **(LABELS[shape]() if shape in LABELS else {})}
    spec: Manifest = {"containers": [_container(0)], **(SPECS[shape]() if shape in SPECS else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": spec,
    }


def measure(shape: str, nodes: int) -> dict[str, float | int | str]:
    """Schedule two pods of a shape and then an ordinary pod, and return the CPU seconds."""
    cache = Cache()
    for number in range(nodes):
        cache.put(node(number))
    runner = Profiles(default_config(), cache, rng=random.Random(1)).first
    result: dict[str, float | int | str] = {"shape": shape, "nodes": nodes}
    text = msgspec.json.encode(manifest(shape, "pod"))
    ordinary = msgspec.json.encode(manifest("", "ordinary") if "" in SPECS else _ordinary())
    for number, (key, body) in enumerate([("first", text), ("second", text), ("ordinary", ordinary)]):
        pod = msgspec.json.decode(body, type=Pod)
        pod = msgspec.structs.replace(
            pod, metadata=msgspec.structs.replace(pod.metadata, name=f"p{number}", uid=f"u{number}")
        )
        started = time.process_time()
        decision = schedule_pod(runner, pod)
        if isinstance(decision, ScheduleResult):
            cache.assume(pod, decision.node_name)
        result[key] = round(time.process_time() - started, 4)
        if key == "first":
            result["placed"] = isinstance(decision, ScheduleResult)
            result["kilobytes"] = len(text) // 1024
    return result


def _ordinary() -> Manifest:
    made = manifest("labels", "ordinary")
    made["metadata"]["labels"] = {"app": "ordinary"}
    return made


@click.command()
@click.option("--nodes", default=1000, show_default=True)
@click.option("--shape", "shapes", multiple=True, type=click.Choice(SHAPES), help="By default all.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def main(nodes: int, shapes: tuple[str, ...], output: str) -> None:
    """Time decisions about hostile pods."""
    for shape in shapes or SHAPES:
        found = measure(shape, nodes)
        if output == "json":
            print(json.dumps(found), flush=True)
        else:
            print("  ".join(f"{key}={value}" for key, value in found.items()), flush=True)


if __name__ == "__main__":
    main()
