"""Shapes of hostile pods, which a tenant creates to block the scheduler.

Each shape is a valid pod, close to the size limit of the API server, that makes one part of a decision as expensive as
possible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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


#: Scales the number of entries of a shape.
Scale = Callable[[int], int]
#: Name -> the spec of the pod, without containers unless it has its own.
SPECS: dict[str, Callable[[Scale], Manifest]] = {
    # Required node affinity
    "Gt on the hostname": lambda n: _affinity(
        _node_terms(*([_expression(HOST, "Gt", str(i))] for i in range(n(10_000))))
    ),
    "Lt on a number": lambda n: _affinity(
        _node_terms(*([_expression("number", "Lt", str(i))] for i in range(n(10_000))))
    ),
    "Gt and Lt in one term": lambda n: _affinity(
        _node_terms([_expression("number", "Gt" if i % 2 else "Lt", str(i)) for i in range(n(10_000))])
    ),
    "In with one host per term": lambda n: _affinity(
        _node_terms(*([_expression(HOST, "In", f"missing-{i}")] for i in range(n(10_000))))
    ),
    "NotIn, all in one term": lambda n: _affinity(
        _node_terms([_expression(HOST, "NotIn", f"missing-{i}") for i in range(n(10_000))])
    ),
    "In with many values": lambda n: _affinity(
        _node_terms([_expression(HOST, "In", *(f"missing-{i}" for i in range(n(30_000))))])
    ),
    "Exists with many keys": lambda n: _affinity(
        _node_terms(*([_expression(f"key-{i}", "Exists")] for i in range(n(10_000))))
    ),
    "DoesNotExist with many keys": lambda n: _affinity(
        _node_terms([_expression(f"key-{i}", "DoesNotExist") for i in range(n(10_000))])
    ),
    "the same term": lambda n: _affinity(_node_terms(*([_expression(HOST, "Gt", "1")] for _ in range(n(20_000))))),
    "empty terms": lambda n: _affinity({"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": [{}] * n(30_000)}}}),
    "one node name per term": lambda n: _affinity(
        {
            "nodeAffinity": {
                _REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchFields": [_expression("metadata.name", "In", f"missing-{i}")]} for i in range(n(10_000))
                    ]
                }
            }
        }
    ),
    "not these node names": lambda n: _affinity(
        {
            "nodeAffinity": {
                _REQUIRED: {
                    "nodeSelectorTerms": [
                        {
                            "matchFields": [
                                _expression("metadata.name", "NotIn", f"missing-{i}") for i in range(n(10_000))
                            ]
                        }
                    ]
                }
            }
        }
    ),
    "a large nodeSelector": lambda n: {"nodeSelector": {f"key-{i}": "value" for i in range(n(20_000))}},
    # Preferred node affinity
    "preferred Gt": lambda n: _affinity(
        _preferred_node_terms(*([_expression(HOST, "Gt", str(i))] for i in range(n(9_000))))
    ),
    "preferred In": lambda n: _affinity(
        _preferred_node_terms(*([_expression(HOST, "In", f"node-{i:05d}")] for i in range(n(9_000))))
    ),
    "preferred Exists": lambda n: _affinity(
        _preferred_node_terms(*([_expression(f"key-{i}", "Exists")] for i in range(n(9_000))))
    ),
    "preferred, all in one term": lambda n: _affinity(
        _preferred_node_terms([_expression(HOST, "NotIn", f"missing-{i}") for i in range(n(9_000))])
    ),
    # Tolerations
    "tolerations of many keys": lambda n: {
        "tolerations": [{"key": f"key-{i}", "operator": "Exists", "effect": "NoSchedule"} for i in range(n(14_000))]
    },
    "preferred tolerations": lambda n: {
        "tolerations": [
            {"key": f"key-{i}", "operator": "Equal", "value": "x", "effect": "PreferNoSchedule"}
            for i in range(n(12_000))
        ]
    },
    # Topology spread
    "soft spread keys": lambda n: {
        "topologySpreadConstraints": [_spread(f"key-{i}", "ScheduleAnyway") for i in range(n(8_000))]
    },
    "hard spread keys": lambda n: {
        "topologySpreadConstraints": [_spread(f"key-{i}", "DoNotSchedule") for i in range(n(8_000))]
    },
    "spread with many expressions": lambda n: {
        "topologySpreadConstraints": [
            _spread(
                HOST,
                "DoNotSchedule",
                {"matchExpressions": [_expression(f"k{i}", "DoesNotExist") for i in range(n(9_000))]},
            )
        ]
    },
    "spread selectors": lambda n: {
        "topologySpreadConstraints": [
            _spread(f"key-{i}", "ScheduleAnyway", {"matchLabels": {f"label-{i}": "value"}}) for i in range(n(6_000))
        ]
    },
    # Affinity to pods
    "pod affinity terms": lambda n: _affinity(
        _pod_terms("podAffinity", [_pod_term(ZONE, {f"label-{i}": "v"}) for i in range(n(8_000))])
    ),
    "pod anti-affinity terms": lambda n: _affinity(
        _pod_terms("podAntiAffinity", [_pod_term(ZONE, {f"label-{i}": "v"}) for i in range(n(8_000))])
    ),
    "pod anti-affinity keys": lambda n: _affinity(
        _pod_terms("podAntiAffinity", [_pod_term(f"key-{i}", {"app": "hostile"}) for i in range(n(8_000))])
    ),
    "preferred pod affinity": lambda n: _affinity(
        _pod_terms("podAffinity", [_pod_term(ZONE, {f"label-{i}": "v"}) for i in range(n(7_000))], preferred=True)
    ),
    "preferred anti-affinity keys": lambda n: _affinity(
        _pod_terms(
            "podAntiAffinity", [_pod_term(f"key-{i}", {"app": "hostile"}) for i in range(n(7_000))], preferred=True
        )
    ),
    "preferred terms of itself": lambda n: _affinity(
        _pod_terms("podAffinity", [_pod_term(HOST, {"app": "hostile"})] * n(7_000), preferred=True)
    ),
    "pod terms of many namespaces": lambda n: _affinity(
        _pod_terms(
            "podAntiAffinity",
            [_pod_term(ZONE, {"app": str(i)}, namespaces=[f"ns-{j}" for j in range(n(500))]) for i in range(n(200))],
        )
    ),
    "pod terms with namespace selectors": lambda n: _affinity(
        _pod_terms(
            "podAntiAffinity",
            [_pod_term(ZONE, {"app": "x"}, namespaceSelector={"matchLabels": {f"l{i}": "v"}}) for i in range(n(5_000))],
        )
    ),
    "pod terms with many values": lambda n: _affinity(
        _pod_terms(
            "podAffinity",
            [
                {
                    "topologyKey": ZONE,
                    "labelSelector": {
                        "matchExpressions": [_expression("app", "NotIn", *(f"value-{i}-{j}" for j in range(n(1_000))))]
                    },
                }
                for i in range(n(60))
            ],
        )
    ),
    # The pod itself
    "containers": lambda n: {
        "containers": [_container(i, resources={"requests": {"cpu": "1m", "memory": "1Mi"}}) for i in range(n(8_000))]
    },
    "init containers": lambda n: {
        "initContainers": [_container(i, resources={"requests": {"cpu": f"{i % 100}m"}}) for i in range(n(8_000))],
        "containers": [_container(100_000)],
    },
    "images": lambda n: {
        "containers": [{"name": f"c{i}", "image": f"registry.example/app:{i}"} for i in range(n(10_000))]
    },
    "extended resources": lambda n: {
        "containers": [
            _container(
                0,
                resources={
                    "requests": {f"example.com/r{i}": "1" for i in range(n(9_000))},
                    "limits": {f"example.com/r{i}": "1" for i in range(n(9_000))},
                },
            )
        ]
    },
    "host ports": lambda n: {
        "containers": [
            _container(
                0, ports=[{"containerPort": 1 + i, "hostPort": 1 + i, "protocol": "TCP"} for i in range(n(15_000))]
            )
        ]
    },
    "volumes": lambda n: {"volumes": [{"name": f"v{i}", "emptyDir": {}} for i in range(n(15_000))]},
    "missing claims": lambda n: {
        "volumes": [{"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"missing-{i}"}} for i in range(n(10_000))]
    },
    "scheduling constraints of all kinds": lambda n: {
        "affinity": {
            **_node_terms(*([_expression(HOST, "Gt", str(i))] for i in range(n(2_000)))),
            **_pod_terms("podAntiAffinity", [_pod_term(ZONE, {f"label-{i}": "v"}) for i in range(n(1_500))]),
        },
        "tolerations": [{"key": f"key-{i}", "operator": "Exists"} for i in range(n(2_000))],
        "topologySpreadConstraints": [_spread(f"key-{i}", "ScheduleAnyway") for i in range(n(1_000))],
    },
}
#: Shapes in the metadata.
LABELS: dict[str, Callable[[Scale], dict[str, str]]] = {
    "labels": lambda n: {f"label-{i}": f"value-{i}" for i in range(n(15_000))},
}
SHAPES: tuple[str, ...] = (*SPECS, *LABELS)


def manifest(shape: str, name: str, scale: float = 1.0) -> Manifest:
    """Return a pod of a shape; ``scale`` multiplies the number of its terms."""

    def number(full: int) -> int:
        return max(1, int(full * scale))

    labels = {"app": "hostile", **(LABELS[shape](number) if shape in LABELS else {})}
    spec: Manifest = {"containers": [_container(0)], **(SPECS[shape](number) if shape in SPECS else {})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": spec,
    }
