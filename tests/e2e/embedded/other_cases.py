"""Requests about everything but pods, in the order in which they are asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.e2e.embedded.pod_cases import MERGE, NAMESPACE, PODS, STRATEGIC, STRICT, Case, named, pod

APPS = "/apis/apps/v1/namespaces/default"
BATCH = "/apis/batch/v1/namespaces/default"
STORAGE = "/apis/storage.k8s.io/v1"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
FOOS = "/apis/ex.io/v1/namespaces/default/foos"
_TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
_SELECTOR = {"matchLabels": {"a": "b"}}

#: What is compared as the tables that `kubectl get` prints, after everything else.
TABLES = (
    "/api/v1/nodes",
    f"{STORAGE}/storageclasses",
    f"{STORAGE}/csinodes",
    f"{STORAGE}/csidrivers",
    f"{APPS}/replicasets",
    "/apis/node.k8s.io/v1/runtimeclasses",
    f"{BATCH}/cronjobs",
    f"{APPS}/daemonsets",
    f"{APPS}/statefulsets",
    f"{APPS}/deployments",
    f"{NAMESPACE}/limitranges",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    f"{NAMESPACE}/secrets",
    "/api/v1/persistentvolumes",
    f"{NAMESPACE}/persistentvolumeclaims",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    f"{NAMESPACE}/configmaps",
    f"{PODS}?fieldSelector=metadata.name=classy",
)


def _workload(kind: str, name: str, **spec: Any) -> dict[str, Any]:
    return named("apps/v1", kind, name, spec={"selector": _SELECTOR, "template": _TEMPLATE, **spec})


def _job(name: str, **spec: Any) -> dict[str, Any]:
    inner = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}
    return named("batch/v1", "Job", name, spec={"template": {"spec": inner}, **spec})


def other_cases() -> Iterator[Case]:
    """Everything but pods."""
    yield from _workloads()
    yield from _policy()
    yield from _nodes()
    yield from _services_and_storage()
    yield from _events_and_leases()
    yield from _access()
    yield from _stored_kinds()
    yield from _patches()
    yield from _definitions()


def _workloads() -> Iterator[Case]:
    never = {**_TEMPLATE, "spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}
    rolling = {"maxSurge": "x", "maxUnavailable": "200%"}
    for each in (
        _workload("Deployment", "d"),
        _workload("Deployment", "d2", replicas=-1),
        _workload("Deployment", "d4", selector={}),
        _workload("Deployment", "d3", selector={"matchLabels": {"z": "z"}}),
        _workload("Deployment", "d6", strategy={"type": "Foo"}),
        named("apps/v1", "Deployment", "d5", spec={"template": _TEMPLATE}),
        _workload("Deployment", "d10", template=never),
        _workload("Deployment", "d7", strategy={"type": "Recreate", "rollingUpdate": {}}),
        _workload("Deployment", "d8", strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
        _workload("Deployment", "d9", strategy={"rollingUpdate": rolling}),
        _workload("Deployment", "d11", strategy={"type": "Recreate"}),
        _workload("Deployment", "d12", progressDeadlineSeconds=1, minReadySeconds=5),
    ):
        yield "POST", f"{APPS}/deployments{STRICT}", each, ""
    yield "PATCH", f"{APPS}/deployments/d", {"spec": {"selector": {"matchLabels": {"q": "r"}}}}, MERGE
    yield "GET", f"{APPS}/deployments/d/scale", None, ""
    for replicas in (4, -4):
        yield "PATCH", f"{APPS}/deployments/d/scale", {"spec": {"replicas": replicas}}, MERGE
    yield "GET", f"{APPS}/deployments/d", None, ""
    yield "PUT", f"{APPS}/deployments/d/status", {**_workload("Deployment", "d"), "status": {"replicas": 3}}, ""
    yield "DELETE", f"{APPS}/deployments/d", None, ""
    for each in (
        _workload("ReplicaSet", "r"),
        _workload("ReplicaSet", "r2", replicas=-1),
        _workload("ReplicaSet", "r3", selector=None),
    ):
        yield "POST", f"{APPS}/replicasets{STRICT}", each, ""
    for each in (
        _job("j"),
        _job("j2", parallelism=3),
        _job("j3", completions=-1),
        _job("j4", completionMode="Indexed"),
        _job("j7", selector=_SELECTOR),
        _job("j5", template={"spec": {"containers": [{"name": "c", "image": "x"}]}}),
        _job("j6", completions=5, parallelism=2, backoffLimit=0, ttlSecondsAfterFinished=3, suspend=True),
    ):
        yield "POST", f"{BATCH}/jobs{STRICT}", each, ""
    yield "PATCH", f"{BATCH}/jobs/j", {"spec": {"completions": 4}}, MERGE
    yield "DELETE", f"{BATCH}/jobs/j", None, ""
    for schedule in ("* * * * *", "x"):
        spec = {"schedule": schedule, "jobTemplate": {"spec": _job("j")["spec"]}}
        yield "POST", f"{BATCH}/cronjobs{STRICT}", named("batch/v1", "CronJob", f"c{len(schedule)}", spec=spec), ""
    yield "POST", f"{APPS}/statefulsets{STRICT}", _workload("StatefulSet", "s", serviceName="x"), ""
    yield "POST", f"{APPS}/daemonsets{STRICT}", _workload("DaemonSet", "s"), ""


def _policy() -> Iterator[Case]:
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    for number, spec in enumerate(
        (
            {"minAvailable": 1},
            {"minAvailable": 1, "maxUnavailable": 1},
            {"minAvailable": "101%"},
            {"maxUnavailable": -1},
        )
    ):
        budget = named("policy/v1", "PodDisruptionBudget", f"p{number}", spec={**spec, "selector": _SELECTOR})
        yield "POST", path + STRICT, budget, ""
    yield (
        "PUT",
        f"{path}/p0",
        named("policy/v1", "PodDisruptionBudget", "p0", spec={"minAvailable": 2, "selector": _SELECTOR}),
        "",
    )
    for name, fields in (
        ("hi", {"value": 100}),
        ("hi2", {"value": 2000000000}),
        ("system-x", {"value": 1}),
        ("def", {"value": 7, "globalDefault": True}),
        ("def2", {"value": 8, "globalDefault": True}),
        ("pp", {"value": 7, "preemptionPolicy": "Foo"}),
    ):
        yield "POST", CLASSES + STRICT, named("scheduling.k8s.io/v1", "PriorityClass", name, **fields), ""
    yield "PATCH", f"{CLASSES}/hi", {"value": 3}, MERGE
    yield "POST", PODS, pod("default-class"), ""
    yield "POST", PODS, pod("classy", priorityClassName="hi"), ""
    yield "POST", PODS, pod("critical", priorityClassName="system-node-critical"), ""
    yield "DELETE", f"{CLASSES}/def", None, ""
    yield "DELETE", f"{CLASSES}/system-node-critical", None, ""


def _nodes() -> Iterator[Case]:
    def taints(*given: dict[str, str]) -> dict[str, Any]:
        return {"spec": {"taints": list(given)}}

    status = {"capacity": {"cpu": "4", "memory": "8Gi", "pods": 110}}
    for number, fields in enumerate(
        (
            {},
            {"status": status, **taints({"key": "a", "effect": "NoSchedule"})},
            taints({"key": "a b", "effect": "X"}),
            taints({"key": "a", "effect": "NoSchedule", "value": "1"}, {"key": "a", "effect": "NoSchedule"}),
            {"status": {"capacity": {"cpu": "-4"}}},
        )
    ):
        yield "POST", f"/api/v1/nodes{STRICT}", named("v1", "Node", f"n{number}", **fields), ""
    yield "PATCH", "/api/v1/nodes/n0", taints({"key": "x", "effect": "NoExecute"}), STRATEGIC
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": 2}}
    yield "PATCH", "/api/v1/nodes/n0/status", {"status": ready}, STRATEGIC
    for unschedulable in (True, None):
        yield "PATCH", "/api/v1/nodes/n0", {"spec": {"unschedulable": unschedulable}}, MERGE
    yield "PATCH", "/api/v1/nodes/n0", {"status": {"phase": "X"}}, MERGE
    yield "DELETE", "/api/v1/nodes/n0", None, ""


def _services_and_storage() -> Iterator[Case]:
    for name, spec in (
        ("s", {"ports": [{"port": 80}]}),
        ("s2", {}),
        ("s3", {"ports": [{"port": 80}, {"port": 81}]}),
        ("1s", {"ports": [{"port": 80}]}),
        ("s4", {"type": "Foo", "ports": [{"port": 0}]}),
        ("s5", {"clusterIP": "None", "selector": {"a": "b"}}),
        ("s6", {"type": "ExternalName", "externalName": "x.y"}),
    ):
        yield "POST", f"{NAMESPACE}/services{STRICT}", named("v1", "Service", name, spec=spec), ""
    version = "storage.k8s.io/v1"
    default = named(version, "StorageClass", "scd", provisioner="x.io/y", volumeBindingMode="WaitForFirstConsumer")
    default["metadata"]["annotations"] = {"storageclass.kubernetes.io/is-default-class": "true"}
    for each in (
        named(version, "StorageClass", "sc", provisioner="x.io/y"),
        named(version, "StorageClass", "sc2"),
        named(version, "StorageClass", "sc3", provisioner="x", volumeBindingMode="Foo", reclaimPolicy="Bar"),
        default,
    ):
        yield "POST", f"{STORAGE}/storageclasses{STRICT}", each, ""
    yield "PATCH", f"{STORAGE}/storageclasses/sc", {"provisioner": "z"}, MERGE
    base = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    for number, spec in enumerate(
        ({}, {"accessModes": []}, {"accessModes": ["X"]}, {"resources": {}}, {"storageClassName": ""})
    ):
        claim = named("v1", "PersistentVolumeClaim", f"c{number}", spec={**base, **spec})
        yield "POST", f"{NAMESPACE}/persistentvolumeclaims{STRICT}", claim, ""
    yield "PATCH", f"{NAMESPACE}/persistentvolumeclaims/c0", {"spec": {"accessModes": ["ReadOnlyMany"]}}, MERGE
    yield "DELETE", f"{NAMESPACE}/persistentvolumeclaims/c0", None, ""
    volume: dict[str, Any] = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
    }
    for number, spec in enumerate(
        (
            {},
            {"capacity": {}},
            {"accessModes": []},
            {"hostPath": None},
            {"hostPath": None, "local": {"path": "/x"}},
            {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}},
            {"csi": {"driver": "d", "volumeHandle": "h"}},
        )
    ):
        yield (
            "POST",
            f"/api/v1/persistentvolumes{STRICT}",
            named("v1", "PersistentVolume", f"v{number}", spec={**volume, **spec}),
            "",
        )
    driver = {"name": "d", "nodeID": "x", "topologyKeys": ["a"], "allocatable": {"count": 3}}
    yield "POST", f"{STORAGE}/csinodes", named(version, "CSINode", "n", spec={"drivers": [driver]}), ""
    yield "POST", f"{STORAGE}/csidrivers", named(version, "CSIDriver", "d", spec={}), ""


def _events_and_leases() -> Iterator[Case]:
    path, version = "/apis/coordination.k8s.io/v1/namespaces/default/leases", "coordination.k8s.io/v1"
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": "2026-01-01T00:00:00.000000Z"}
    yield "POST", path + STRICT, named(version, "Lease", "l", spec=spec), ""
    yield "POST", path + STRICT, named(version, "Lease", "l2", spec={"leaseDurationSeconds": 0}), ""
    for name in ("l", "new"):
        yield "PUT", f"{path}/{name}", named(version, "Lease", name, spec={"holderIdentity": "you"}), ""
    events = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = named(
        "events.k8s.io/v1",
        "Event",
        "e",
        eventTime="2026-01-01T00:00:00.000000Z",
        reportingController="sched",
        reportingInstance="i",
        action="Binding",
        reason="Scheduled",
        regarding={"kind": "Pod", "name": "p", "namespace": "default"},
        note="hello",
        type="Normal",
    )
    yield "POST", events + STRICT, event, ""
    yield "GET", f"{events}/e", None, ""
    yield "GET", f"{NAMESPACE}/events/e", None, ""
    yield "POST", events, {**event, "metadata": {"name": "e2"}, "eventTime": None}, ""
    yield "POST", events, {**event, "metadata": {"name": "e3"}, "type": "Foo", "reportingController": ""}, ""
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    yield "PATCH", f"{events}/e", series, STRATEGIC
    old = named(
        "v1",
        "Event",
        "ce",
        involvedObject={"kind": "Pod", "name": "p", "namespace": "default"},
        reason="R",
        message="m",
        type="Normal",
        firstTimestamp="2026-01-01T00:00:00Z",
        lastTimestamp="2026-01-01T00:00:00Z",
        count=1,
        source={"component": "x"},
    )
    yield "POST", f"{NAMESPACE}/events", old, ""
    yield "GET", f"{events}/ce", None, ""
    elsewhere = {"kind": "Pod", "name": "p", "namespace": "other"}
    yield "POST", f"{NAMESPACE}/events", named("v1", "Event", "ce3", involvedObject=elsewhere), ""


def _access() -> Iterator[Case]:
    version = "rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]
    yield "POST", f"{RBAC}/clusterroles", named(version, "ClusterRole", "cr", rules=rules), ""
    for name, role in (("crb", {"kind": "ClusterRole", "name": "cr"}), ("crb2", {"kind": "X"})):
        binding = named(version, "ClusterRoleBinding", name, roleRef=role, subjects=[{"kind": "User", "name": "u"}])
        yield "POST", f"{RBAC}/clusterrolebindings{STRICT}", binding, ""
    yield "PATCH", f"{RBAC}/clusterrolebindings/crb", {"roleRef": {"name": "z"}}, MERGE
    kind = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    for wish in (
        {"verb": "list", "resource": "pods"},
        {"verb": "delete", "resource": "pods"},
        {"verb": "get", "resource": "pods", "subresource": "status"},
    ):
        yield (
            "POST",
            "/apis/authorization.k8s.io/v1/subjectaccessreviews",
            {**kind, "spec": {"user": "u", "resourceAttributes": wish}},
            "",
        )
    for name in ("foo", "Foo"):
        yield "POST", "/api/v1/namespaces", named("v1", "Namespace", name), ""
    yield "POST", f"{NAMESPACE}/secrets", named("v1", "Secret", "s", stringData={"a": "b"}), ""
    yield "POST", f"{NAMESPACE}/secrets{STRICT}", named("v1", "Secret", "s2", data={"a": "!!"}), ""
    runtime = named("node.k8s.io/v1", "RuntimeClass", "rc", handler="h", overhead={"podFixed": {"cpu": "250m"}})
    yield "POST", "/apis/node.k8s.io/v1/runtimeclasses", {**runtime, "scheduling": {"nodeSelector": {"a": "b"}}}, ""
    for name in ("rc", "nope"):
        yield "POST", PODS, pod(f"on-{name}", runtimeClassName=name), ""
    limits = {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "100m"}}]}
    yield "POST", f"{NAMESPACE}/limitranges", named("v1", "LimitRange", "lr", spec=limits), ""
    yield "POST", PODS, pod("limited"), ""
    yield (
        "POST",
        PODS,
        pod("large", containers=[{"name": "c", "image": "x", "resources": {"limits": {"cpu": "3"}}}]),
        "",
    )
    yield "POST", f"{PODS}/classy/eviction", named("policy/v1", "Eviction", "classy"), ""


def definition(**spec: Any) -> dict[str, Any]:
    """A definition of Foos."""
    fields = {
        "n": {"type": "integer", "minimum": 1, "maximum": 5},
        "s": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "p": {"type": "string", "pattern": "^x+$", "maxLength": 3},
        "l": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
        "m": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "ios": {"x-kubernetes-int-or-string": True},
    }
    properties = {
        "spec": {"type": "object", "required": ["n"], "properties": fields},
        "status": {"type": "object", "properties": {"n": {"type": "integer"}}},
    }
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "N", "type": "integer", "jsonPath": ".spec.n"}],
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    }
    given = {
        "group": "ex.io",
        "scope": "Namespaced",
        "names": {"plural": "foos", "kind": "Foo"},
        "versions": [version],
        **spec,
    }
    return named("apiextensions.k8s.io/v1", "CustomResourceDefinition", "foos.ex.io", spec=given)


def _stored_kinds() -> Iterator[Case]:
    """Kinds without a controller here; the real control plane of this test has no controllers either."""
    scalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}
    for name, spec in (
        ("h1", {"maxReplicas": 3, "scaleTargetRef": target}),
        ("h2", {"maxReplicas": 1, "minReplicas": 2, "scaleTargetRef": target}),
        ("h3", {"maxReplicas": 0, "scaleTargetRef": {"kind": "Deployment"}}),
    ):
        yield "POST", scalers, named("autoscaling/v2", "HorizontalPodAutoscaler", name, spec=spec), ""
    admission = "/apis/admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    webhook = {
        "name": "w.example.com",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {"service": {"name": "s", "namespace": "nowhere"}},
        "rules": [{**rule, "resources": ["nothings"]}],
    }
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        body = named("admissionregistration.k8s.io/v1", kind, "w", webhooks=[webhook])
        yield "POST", f"{admission}/{kind.lower()}s", body, ""
        yield "DELETE", f"{admission}/{kind.lower()}s/w", None, ""
    spec = {"group": "late.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 1}
    services = "/apis/apiregistration.k8s.io/v1/apiservices"
    far = {"service": {"name": "s", "namespace": "nowhere"}, "insecureSkipTLSVerify": True}
    yield (
        "POST",
        services,
        named("apiregistration.k8s.io/v1", "APIService", "v1.late.example.com", spec={**spec, **far}),
        "",
    )
    yield "DELETE", f"{services}/v1.late.example.com", None, ""


def _patches() -> Iterator[Case]:
    """The order of lists, absent fields, and metadata in writes to the status."""
    yield "POST", f"{APPS}/deployments", _workload("Deployment", "patched"), ""
    for names in (["n"], ["c", "o"], ["p", "c"]):
        containers = [{"name": each, "image": "y"} for each in names]
        body = {"spec": {"template": {"spec": {"containers": containers}}}}
        yield "PATCH", f"{APPS}/deployments/patched", body, STRATEGIC
    json_patch = "application/json-patch+json"
    for path in (
        "/metadata/annotations",
        "/metadata/annotations/b",
        "/spec/nope/b",
        "/spec/template/spec/containers/9",
    ):
        value = {"a": "1"} if path.endswith("annotations") else "2"
        yield (
            "PATCH",
            f"{APPS}/deployments/patched",
            [{"op": "replace", "path": path, "value": value}],
            json_patch,
        )
    for kind in ("deployments/patched", "replicasets/r", "daemonsets/ds", "statefulsets/ss"):
        change = {"metadata": {"annotations": {"x": "y"}, "labels": {"l": "m"}, "finalizers": ["ex.io/f"]}}
        yield "PATCH", f"{APPS}/{kind}/status", {**change, "status": {"observedGeneration": 7}}, MERGE
        yield "PATCH", f"{APPS}/{kind}", {"metadata": {"finalizers": None}}, MERGE


def _definitions() -> Iterator[Case]:
    schemaless = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"properties": {"spec": {}}}}}
    ]
    for spec in (
        {"group": "x", "scope": "Q"},
        {"versions": [{"name": "v1", "served": True, "storage": True}]},
        {"versions": schemaless},
        {},
    ):
        yield "POST", DEFINITIONS + STRICT, definition(**spec), ""
    # Until the real API server serves the new resource; asking it again and again is the test's business.
    yield "WAIT", FOOS, None, ""
    yield "GET", f"{DEFINITIONS}/foos.ex.io", None, ""
    wrong = {"n": 9, "s": "z", "p": "yyyyy", "l": ["a", "b", "c"], "m": {"a": 1}}
    for number, spec in enumerate(
        (
            {"n": 1},
            {},
            wrong,
            {"n": "x"},
            {"n": 2, "zz": 1},
            {"n": 2, "any": {"q": {"r": 1}}, "ios": "5%", "l": [1]},
            {"n": None},
        )
    ):
        yield "POST", FOOS + STRICT, named("ex.io/v1", "Foo", f"f{number}", spec=spec), ""
    yield "POST", FOOS + STRICT, named("ex.io/v1", "Foo", "empty"), ""
    yield "POST", FOOS, named("ex.io/v1", "Foo", "warned", spec={"n": 1, "zz": 1}), ""
    yield "PUT", f"{FOOS}/f0", named("ex.io/v1", "Foo", "f0", spec={"n": 2}), ""
    yield "PATCH", f"{FOOS}/f0", {"spec": {"n": 3}, "status": {"n": 9}}, MERGE
    yield "PATCH", f"{FOOS}/f0", {}, STRATEGIC
    yield "PATCH", f"{FOOS}/f0/status", {"spec": {"n": 4}, "status": {"n": 9}}, MERGE
    yield "GET", f"{FOOS}?limit=1", None, ""
    yield "DELETE", f"{FOOS}/f0", None, ""
