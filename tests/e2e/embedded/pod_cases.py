"""Requests about pods, good and bad, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
NAMESPACE = "/api/v1/namespaces/default"
PODS = f"{NAMESPACE}/pods"
STRICT = "?fieldValidation=Strict"

#: Method, path, body and content type.
Case = tuple[str, str, Any, str]


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    """A pod with one container."""
    return named("v1", "Pod", name, spec={"containers": [{"name": "c", "image": "busybox"}], **spec})


def named(version: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    """Any object."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **rest}


def _container(**fields: Any) -> dict[str, Any]:
    return pod(containers=[{"name": "c", "image": "busybox", **fields}])


def _required(kind: str, value: Any) -> dict[str, Any]:
    return pod(affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": value}})


def _preferred(kind: str, value: Any) -> dict[str, Any]:
    return pod(affinity={kind: {"preferredDuringSchedulingIgnoredDuringExecution": value}})


def _expressions(*expressions: tuple[str, str, list[str] | None]) -> dict[str, Any]:
    given = [
        {"key": key, "operator": operator, **({"values": values} if values else {})}
        for key, operator, values in expressions
    ]
    return _required("nodeAffinity", {"nodeSelectorTerms": [{"matchExpressions": given}]})


def _spread(**fields: Any) -> dict[str, Any]:
    return pod(
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", **fields}]
    )


def created_pods() -> list[dict[str, Any]]:
    """Pods to create; most are wrong in one way."""
    selector = {"matchLabels": {"a": "1"}}
    labelled = _spread(labelSelector=selector, matchLabelKeys=["b"])
    labelled["metadata"] = {"name": "labelled", "labels": {"a": "1", "b": "2"}}
    labelled["spec"]["affinity"] = {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "z", "labelSelector": selector, "matchLabelKeys": ["b"], "mismatchLabelKeys": ["c"]}
            ]
        }
    }
    return [
        pod("a"),
        pod("a"),
        pod("b", priorityClassName="nope"),
        _container(resources={"limits": {"cpu": "1"}, "requests": {"cpu": 2}}),
        _container(resources={"limits": {"foo": 1}}),
        _container(resources={"limits": {"x.com/gpu": "1.5"}}),
        _container(resources={"requests": {"x.com/gpu": "1"}}),
        _container(resources={"requests": {"cpu": "-1"}}),
        _container(image=""),
        _container(image=" x"),
        _container(name="A_b"),
        pod(containers=[]),
        pod(restartPolicy="Sometimes"),
        _container(ports=[{"containerPort": 0}]),
        _container(ports=[{"containerPort": 70000, "protocol": "X"}]),
        _container(volumeMounts=[{"name": "v", "mountPath": "/x"}]),
        pod(tolerations=[{"key": "a", "operator": "Foo"}]),
        pod(tolerations=[{"operator": "Equal", "value": "x"}]),
        pod(tolerations=[{"key": "a", "operator": "Exists", "value": "x"}]),
        pod(tolerations=[{"key": "a", "effect": "Bad"}]),
        pod(tolerations=[{"key": "a", "tolerationSeconds": 3}]),
        _spread(maxSkew=0, topologyKey="", whenUnsatisfiable="x"),
        _spread(whenUnsatisfiable="ScheduleAnyway", minDomains=2, labelSelector=selector),
        _required("nodeAffinity", {"nodeSelectorTerms": []}),
        _expressions(("a", "In", None), ("b c", "Foo", None), ("b", "Gt", ["1", "2"]), ("x", "Exists", ["1"])),
        _preferred(
            "nodeAffinity", [{"weight": 0, "preference": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]
        ),
        _required(
            "podAffinity",
            [{"labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}, "topologyKey": ""}],
        ),
        _preferred("podAntiAffinity", [{"weight": 101, "podAffinityTerm": {"topologyKey": "z", "labelSelector": {}}}]),
        pod(schedulingGates=[{"name": "a"}, {"name": "a"}]),
        pod("gated", schedulingGates=[{"name": "x.io/a"}]),
        pod(nodeName="n", schedulingGates=[{"name": "a"}]),
        pod(nodeSelector={"a b": "c"}),
        pod(activeDeadlineSeconds=0),
        pod(hostname="A"),
        pod(dnsPolicy="x"),
        pod(priority=5),
        pod(preemptionPolicy="Never"),
        pod(nodeName="N_1"),
        pod(volumes=[{"name": "v"}, {"name": "v", "emptyDir": {}}]),
        pod(volumes=[{"name": "v", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
        pod(
            "volumes",
            volumes=[
                {"name": "v", "persistentVolumeClaim": {"claimName": "x"}},
                {"name": "w", "configMap": {"name": "a"}},
                {"name": "h", "hostPath": {"path": "/x"}},
                {"name": "e"},
            ],
        ),
        _full(),
        labelled,
    ]


def _full() -> dict[str, Any]:
    first = {
        "name": "c",
        "image": "a/b:1",
        "ports": [{"containerPort": 80}],
        "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "livenessProbe": {"httpGet": {"port": 80}},
        "resources": {"limits": {"memory": "1Gi"}, "requests": {"cpu": "0.1", "memory": "512Mi"}},
    }
    return pod(
        "full",
        terminationGracePeriodSeconds=5,
        serviceAccountName="default",
        hostNetwork=True,
        containers=[first, {"name": "d", "image": "x@sha256:" + "0" * 64}],
        initContainers=[{"name": "i", "image": "x:latest", "restartPolicy": "Always"}],
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}],
        tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}],
    )


def _unreadable() -> list[Any]:
    return [
        named("v1", "Pod", "A"),
        {"apiVersion": "v1", "kind": "Pod", "metadata": {}},
        {"kind": "Pod"},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "A-"}},
        {**pod("x"), "metadata": {"name": "x", "namespace": "other"}},
        {**pod("x"), "metadata": {"name": "x", "resourceVersion": "5"}},
        pod("u", foo=1),
        pod("u", priority="x"),
        pod("u", containers={}),
        pod("u", nodeSelector={"a": True}),
        {**pod("x"), "metadata": {"name": "x", "labels": {"a": 1}}},
        _container(resources={"limits": {"cpu": "1x"}}),
        _container(command="x"),
        pod("u", terminationGracePeriodSeconds=1.5),
        {**pod("x"), "metadata": {"name": "x", "creationTimestamp": "yesterday"}},
        {**pod("x"), "metadata": {"name": "x", "labels": {"a b": "c", "x": "y z"}, "annotations": {"B C": "x"}}},
        pod("u", containers=[{"name": "c", "image": "x", "bar": {"a": 1}}]),
        b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"d","name":"d"},"spec":{"containers":[{"name":"c","image":"x"}]}}',
    ]


def pod_cases() -> Iterator[Case]:
    """Everything about pods."""
    for each in [*created_pods(), *_unreadable()]:
        yield "POST", PODS + STRICT, each, ""
    yield "POST", PODS, pod("warned", foo=1), ""
    yield "POST", "/api/v1/namespaces/nope/pods", pod("x"), ""
    for path in ("/zz", "/a", "/a/status", "/a/foo"):
        yield "GET", PODS + path, None, ""
    for query in (
        "fieldSelector=spec.foo=1",
        "labelSelector=a%20b",
        "labelSelector=a%3Db%2C",
        "labelSelector=a+in+(b",
        "limit=x",
        "resourceVersion=abc",
    ):
        yield "GET", f"{PODS}?{query}", None, ""
    yield "GET", f"{NAMESPACE}/podz", None, ""
    yield "GET", f"{NAMESPACE}/nodes", None, ""
    yield from _changes()
    yield from _bindings()
    yield from _applies()
    yield from _updates()
    yield from _deletions()


def _changes() -> Iterator[Case]:
    yield "DELETE", f"{PODS}/zz", None, ""
    yield "PUT", f"{PODS}/zz", pod("zz"), ""
    yield "PATCH", f"{PODS}/zz", {}, MERGE
    yield "PATCH", f"{PODS}/a", {}, "application/json"
    yield "PATCH", f"{PODS}/a", [{"op": "test", "path": "/metadata/name", "value": "q"}], JSON_PATCH
    yield "PATCH", f"{PODS}/a", [{"op": "remove", "path": "/metadata/foo"}], JSON_PATCH
    for patch in ({"name": "other"}, {"resourceVersion": "1"}, {"uid": "xx"}):
        yield "PATCH", f"{PODS}/a", {"metadata": patch}, MERGE
    image = {"containers": [{"name": "c", "image": "new"}]}
    for spec in (
        image,
        {"nodeSelector": {"a": "b"}},
        {"containers": [{"name": "new", "image": "new"}]},
        {"tolerations": [{"key": "x", "operator": "Exists"}]},
    ):
        yield "PATCH", f"{PODS}/a", {"spec": spec}, STRATEGIC
    for content in (STRATEGIC, MERGE):
        yield "PATCH", f"{PODS}/a{STRICT}", {"spec": {"foo": 1}}, content
    yield "PATCH", f"{PODS}/a", {"spec": {"foo": 1}}, MERGE
    yield "PATCH", f"{PODS}/a{STRICT}", {"spec": {"priority": "x"}}, MERGE
    yield "PATCH", f"{PODS}/a", {"spec": {"tolerations": []}}, MERGE
    for spec in ({"schedulingGates": [{"name": "new"}]}, {"nodeSelector": {"a": "b"}}, {"schedulingGates": []}):
        yield "PATCH", f"{PODS}/gated", {"spec": spec}, MERGE


def _bindings() -> Iterator[Case]:
    binding = named("v1", "Binding", "a", target={"kind": "Node", "name": "n1"})
    for target in ({}, {"kind": "Pod", "name": "x"}):
        yield "POST", f"{PODS}/a/binding", {**binding, "target": target}, ""
    yield "POST", f"{PODS}/a/binding", {**binding, "metadata": {"name": "a", "uid": "u"}}, ""
    for _ in range(2):
        yield "POST", f"{PODS}/a/binding", binding, ""
    yield "POST", f"{PODS}/zz/binding", binding, ""
    yield "POST", f"{PODS}/zz/binding", {**binding, "metadata": {"name": "zz"}}, ""
    yield "GET", f"{PODS}/a", None, ""
    yield "PATCH", f"{PODS}/a/status", {"status": {"nominatedNodeName": "q"}}, STRATEGIC
    condition = {"type": "PodScheduled", "status": "False", "reason": "X"}
    yield (
        "PATCH",
        f"{PODS}/labelled/status",
        {"status": {"conditions": [condition], "nominatedNodeName": "q"}},
        STRATEGIC,
    )


def _applies() -> Iterator[Case]:
    path = f"{NAMESPACE}/configmaps/s{STRICT}"
    yield "PATCH", path, named("v1", "ConfigMap", "s", data={"a": "b"}), APPLY
    first = named("v1", "ConfigMap", "s", data={"a": "b", "c": "d"})
    first["metadata"]["labels"] = {"x": "y"}
    yield "PATCH", f"{path}&fieldManager=m1", first, APPLY
    yield "PATCH", f"{path}&fieldManager=m2", named("v1", "ConfigMap", "s", data={"a": "z"}), APPLY
    yield "PATCH", f"{path}&fieldManager=m2", named("v1", "ConfigMap", "s", data={"a": "z", "c": "q"}), APPLY
    yield "PATCH", f"{path}&fieldManager=m2&force=true", named("v1", "ConfigMap", "s", data={"a": "z"}), APPLY
    yield "PATCH", f"{path}&fieldManager=m1", named("v1", "ConfigMap", "s", data={"a": "z"}), APPLY
    yield "PATCH", f"{path}&fieldManager=m1", named("v1", "ConfigMap", "t"), APPLY
    yield "PATCH", f"{path}&fieldManager=m1", named("v1", "ConfigMap", "s", foo=1), APPLY
    yield "PATCH", f"{path}&fieldManager=m1", named("v1", "Secret", "s"), APPLY


def _updates() -> Iterator[Case]:
    path = f"{NAMESPACE}/configmaps/s"
    yield "PUT", path, named("v1", "ConfigMap", "s", data={"n": "1"}, immutable=True), ""
    yield "PUT", path, named("v1", "ConfigMap", "s", data={"n": "2"}), ""
    yield "PUT", path, {**named("v1", "ConfigMap", "s"), "metadata": {"name": "s", "resourceVersion": "1"}}, ""
    yield "PUT", path, named("v1", "ConfigMap", "t"), ""
    yield "PUT", path, {**named("v1", "ConfigMap", "s"), "metadata": {"name": "s", "uid": "zz"}}, ""


def _deletions() -> Iterator[Case]:
    options = {"apiVersion": "v1", "kind": "DeleteOptions"}
    configs = f"{NAMESPACE}/configmaps"
    yield "DELETE", f"{configs}/s", {**options, "preconditions": {"uid": "zz"}}, ""
    yield "DELETE", f"{configs}/s", {**options, "propagationPolicy": "X"}, ""
    yield "DELETE", f"{configs}/s", None, ""
    for _ in range(2):
        yield "DELETE", f"{PODS}/a", None, ""
    yield "POST", f"{PODS}/a/binding", named("v1", "Binding", "a", target={"name": "n1"}), ""
    yield "DELETE", f"{PODS}/a?gracePeriodSeconds=0", None, ""
    yield "DELETE", f"{PODS}/full", None, ""
    yield "DELETE", "/api/v1/namespaces/default", None, ""
    yield "POST", configs, {**named("v1", "ConfigMap", "f"), "metadata": {"name": "f", "finalizers": ["a.b/c"]}}, ""
    yield "DELETE", f"{configs}/f", None, ""
    for finalizers in (["a.b/c", "a.b/d"], []):
        yield "PATCH", f"{configs}/f", {"metadata": {"finalizers": finalizers}}, MERGE
    yield "GET", f"{configs}/f", None, ""
