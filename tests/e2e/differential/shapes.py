"""Random pods, and the objects beside them that they name: claims, volumes, budgets, services."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from tests.e2e.controlplane import Object
from tests.e2e.differential.steps import Step

#: Name -> value and preemption policy.
PRIORITIES: Final = {
    "low": (10, "PreemptLowerPriority"),
    "middle": (100, "PreemptLowerPriority"),
    "high": (1000, "PreemptLowerPriority"),
    "polite": (1000, "Never"),
}
_APPS: Final = ("web", "db", "cache")
_HOST: Final = "kubernetes.io/hostname"
_ZONE: Final = "topology.kubernetes.io/zone"
#: Nobody plays the kubelet, so what is deleted stays, terminating, until the test removes it.
_GRACE_SECONDS: Final = 600


class Shapes:
    """Makes pods of a scenario; the objects that they name are its `surroundings`."""

    def __init__(self, rng: Random, namespace: str, nodes: list[str], zones: int) -> None:
        self._rng = rng
        self._namespace = namespace
        self._nodes = nodes
        self._zones = zones

    def surroundings(self) -> list[Step]:
        """Budgets, volumes and claims."""
        rng, namespace = self._rng, self._namespace
        budgets = f"/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
        steps = []
        for app in _APPS:
            if rng.random() < 0.4:
                allowed = rng.choice([0, 1, 2])
                spec = {"selector": {"matchLabels": {"app": app}}, "minAvailable": 1}
                steps.append(Step("create", budgets, {"metadata": {"name": app}, "spec": spec}))
                counts = {"currentHealthy": 3, "desiredHealthy": 1, "expectedPods": 3}
                status = {"disruptionsAllowed": allowed, "observedGeneration": 1, **counts}
                steps.append(Step("patch", f"{budgets}/{app}/status", {"status": status}))
        return steps + self._storage()

    def _storage(self) -> list[Step]:
        """A claim bound to a volume of one node, one that waits for a volume, and one that waits for a controller."""
        rng, suffix, namespace = self._rng, self._namespace, self._namespace
        now = f"now-{suffix}"
        claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        classes = "/apis/storage.k8s.io/v1/storageclasses"
        here = {"matchExpressions": [{"key": _HOST, "operator": "In", "values": [rng.choice(self._nodes)]}]}
        volume = {
            "metadata": {"name": f"bound-{suffix}"},
            "spec": {
                **_storage("capacity", now),
                "local": {"path": "/disk"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [here]}},
                "claimRef": {"namespace": namespace, "name": "bound"},
            },
        }
        bound = {"volumeName": f"bound-{suffix}"}
        done = {"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}}
        return [
            Step("create", classes, _class(f"later-{suffix}", "WaitForFirstConsumer")),
            Step("create", classes, _class(f"now-{suffix}", "Immediate")),
            Step("create", "/api/v1/persistentvolumes", volume),
            Step("create", claims, {"metadata": {"name": "bound", **done["metadata"]}, "spec": _claim(now, bound)}),
            Step("create", claims, {"metadata": {"name": "waiting"}, "spec": _claim(f"later-{suffix}", {})}),
            Step("create", claims, {"metadata": {"name": "unbound"}, "spec": _claim(now, {})}),
        ]

    def pod(self, name: str) -> Object:
        """A pod with a few of all features."""
        rng = self._rng
        app = rng.choice(_APPS)
        requests = {
            "cpu": rng.choice(["100m", "250m", "500m", "1", "1500m", "2", "5", "20"]),
            "memory": rng.choice(["64Mi", "256Mi", "512Mi", "1Gi", "3Gi"]),
        }
        container: dict[str, Any] = {"name": "main", "image": rng.choice(["example/app:1", "example/other:2"])}
        if rng.random() < 0.92:
            container["resources"] = {"requests": requests}
        spec: dict[str, Any] = {"containers": [container], "terminationGracePeriodSeconds": _GRACE_SECONDS}
        if rng.random() < 0.5:
            spec["priorityClassName"] = rng.choice([*PRIORITIES, "high"])
        features: list[Callable[[Object, str], None]] = [
            self._tolerations, self._selector, self._node_affinity, self._pod_affinity, self._pod_anti_affinity,
            self._spread, self._ports, self._claims, self._gates, self._gpu, self._init,
        ]  # fmt: skip
        for feature in rng.sample(features, rng.choice([0, 1, 1, 2, 2, 3])):
            feature(spec, app)
        if rng.random() < 0.6:
            self._prefer(spec)
        return {"metadata": {"name": name, "labels": {"app": app}}, "spec": spec}

    def _prefer(self, spec: Object) -> None:
        """Like every node differently, so that one is the best."""
        weights = self._rng.sample(range(5, 100, 4), len(self._nodes))
        terms = [
            {"weight": weight, "preference": {"matchExpressions": [_in("slot", str(number))]}}
            for number, weight in enumerate(weights)
        ]
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = terms

    def _tolerations(self, spec: Object, app: str) -> None:
        spec["tolerations"] = self._rng.choice(
            [
                [{"key": "dedicated", "operator": "Exists"}],
                [{"key": "dedicated", "value": "batch", "effect": "NoSchedule"}],
                [{"operator": "Exists"}],
                [{"key": "slow", "operator": "Exists", "effect": "PreferNoSchedule"}],
            ]
        )

    def _selector(self, spec: Object, app: str) -> None:
        spec["nodeSelector"] = self._rng.choice([{"disk": "ssd"}, {"disk": "hdd"}, {_ZONE: "zone-0"}, {"disk": "none"}])

    def _node_affinity(self, spec: Object, app: str) -> None:
        rng = self._rng
        expression = rng.choice(
            [
                _in("disk", "ssd", "nvme"),
                {"key": "slot", "operator": "Gt", "values": ["2"]},
                {"key": _ZONE, "operator": "Exists"},
                {"key": "disk", "operator": "NotIn", "values": ["hdd"]},
                {"key": "missing", "operator": "DoesNotExist"},
            ]
        )
        terms: list[Object] = [{"matchExpressions": [expression]}]
        if rng.random() < 0.3:
            field = {"key": "metadata.name", "operator": "In", "values": [rng.choice(self._nodes)]}
            terms.append({"matchFields": [field]})
        affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}

    def _pod_affinity(self, spec: Object, app: str) -> None:
        self._pod_terms(spec.setdefault("affinity", {}).setdefault("podAffinity", {}))

    def _pod_anti_affinity(self, spec: Object, app: str) -> None:
        self._pod_terms(spec.setdefault("affinity", {}).setdefault("podAntiAffinity", {}))

    def _pod_terms(self, affinity: Object) -> None:
        rng = self._rng
        term = {
            "labelSelector": {"matchLabels": {"app": rng.choice(_APPS)}},
            "topologyKey": rng.choice([_HOST, _ZONE]),
        }
        if rng.random() < 0.2:
            term["namespaceSelector"] = {"matchLabels": {"team": "a"}}
        if rng.random() < 0.7:
            affinity["requiredDuringSchedulingIgnoredDuringExecution"] = [term]
        else:
            weighted = {"weight": rng.randint(1, 100), "podAffinityTerm": term}
            affinity["preferredDuringSchedulingIgnoredDuringExecution"] = [weighted]

    def _spread(self, spec: Object, app: str) -> None:
        rng = self._rng
        constraints = []
        for key in rng.sample([_HOST, _ZONE], rng.choice([1, 1, 2])):
            constraint: dict[str, Any] = {
                "maxSkew": rng.choice([1, 1, 2]),
                "topologyKey": key,
                "whenUnsatisfiable": rng.choice(["DoNotSchedule", "DoNotSchedule", "ScheduleAnyway"]),
                "labelSelector": {"matchLabels": {"app": app}},
            }
            if constraint["whenUnsatisfiable"] == "DoNotSchedule" and rng.random() < 0.3:
                constraint["minDomains"] = rng.choice([2, 4])
            if rng.random() < 0.3:
                constraint["nodeTaintsPolicy"] = "Honor"
            constraints.append(constraint)
        spec["topologySpreadConstraints"] = constraints

    def _ports(self, spec: Object, app: str) -> None:
        port = self._rng.choice([8080, 8080, 9090])
        spec["containers"][0]["ports"] = [{"containerPort": port, "hostPort": port}]

    def _claims(self, spec: Object, app: str) -> None:
        name = self._rng.choice(["bound", "bound", "missing", "waiting", "unbound"])
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]

    def _gates(self, spec: Object, app: str) -> None:
        spec["schedulingGates"] = [{"name": "example.com/wait"}]

    def _gpu(self, spec: Object, app: str) -> None:
        count = str(self._rng.choice([1, 2]))
        resources = spec["containers"][0].setdefault("resources", {})
        resources.setdefault("requests", {})["example.com/gpu"] = count
        resources["limits"] = {"example.com/gpu": count}

    def _init(self, spec: Object, app: str) -> None:
        requests = {"cpu": self._rng.choice(["200m", "3"]), "memory": "128Mi"}
        init: dict[str, Any] = {"name": "init", "image": "example/init:1", "resources": {"requests": requests}}
        if self._rng.random() < 0.5:
            init["restartPolicy"] = "Always"
        spec["initContainers"] = [init]


def preplaced(rng: Random, name: str, node: Object) -> Object:
    """A pod that is on a node already."""
    requests = {"cpu": rng.choice(["100m", "500m", "1"]), "memory": rng.choice(["64Mi", "512Mi"])}
    container = {"name": "main", "image": "example/app:1", "resources": {"requests": requests}}
    spec: dict[str, Any] = {
        "containers": [container],
        "nodeName": node["metadata"]["name"],
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
    }
    if rng.random() < 0.4:
        spec["priorityClassName"] = rng.choice(["low", "middle"])
    return {"metadata": {"name": name, "labels": {"app": rng.choice(_APPS)}}, "spec": spec}


def _in(key: str, *values: str) -> Object:
    return {"key": key, "operator": "In", "values": list(values)}


def _class(name: str, mode: str) -> Object:
    return {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode}


def _storage(amounts: str, storage_class: str) -> Object:
    return {amounts: {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class}


def _claim(storage_class: str, more: Object) -> Object:
    return {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "resources": {"requests": {"storage": "1Gi"}},
        **more,
    }
