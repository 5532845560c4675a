"""All kinds: their declarations, defaults, validation messages and table rows."""

from typing import Any

import pytest

from mooring.apiserver.documents import deep_copy
from mooring.cluster.errors import ApiError
from mooring.cluster.kind import Kind
from mooring.cluster.kinds import KINDS
from mooring.cluster.rest_mapper import RestMapper
from mooring.cluster.store import Store
from tests.cluster.conftest import template

TABLE = RestMapper(KINDS)
NOW = 1_000_000_000.0
CREATED = "2001-09-09T01:45:40Z"


def kind(name: str) -> Kind:
    return next(each for each in KINDS if each.resource.kind == name)


def new(name: str, **fields: Any) -> dict[str, Any]:
    """An object with defaults."""
    found = kind(name)
    document: dict[str, Any] = {
        "apiVersion": found.resource.group_version,
        "kind": name,
        "metadata": {"name": "o", "namespace": "default", "uid": "u", "creationTimestamp": CREATED},
        **fields,
    }
    if not found.resource.is_custom:
        for key in found.resource.shape.always:
            document.setdefault(key, {})
    found.set_defaults(document)
    return document


def errors(name: str, **fields: Any) -> list[str]:
    return [str(each) for each in kind(name).validate(new(name, **fields))]


def row(name: str, **fields: Any) -> dict[str, Any]:
    columns = kind(name).columns
    cells = columns.row(new(name, **fields), NOW)
    assert len(cells) == len(columns.definitions)
    return dict(zip([each["name"] for each in columns.definitions], cells, strict=True))


def selected(**spec: Any) -> dict[str, Any]:
    return {"selector": {"matchLabels": {"a": "b"}}, "template": template(a="b"), **spec}


def test_every_resource_belongs_to_one_kind() -> None:
    resources = [each for found in KINDS for each in (found.resource, *found.aliases)]
    assert len({(each.group, each.version, each.plural) for each in resources}) == len(resources)
    assert list(TABLE) == sorted(resources, key=lambda each: list(TABLE).index(each))
    assert all(TABLE.kind(found.resource) is found for found in KINDS)


def test_discovery_lists_groups_in_the_order_of_kubernetes() -> None:
    groups = list(TABLE.groups())
    assert groups[:4] == ["", "apiregistration.k8s.io", "apps", "events.k8s.io"]
    for versions in TABLE.groups().values():
        for resources in versions.values():
            assert [each.plural for each in resources] == sorted(each.plural for each in resources)


@pytest.mark.parametrize(
    ("name", "fields", "path", "expected"),
    [
        ("Deployment", {"spec": selected()}, ("spec", "strategy", "rollingUpdate", "maxSurge"), "25%"),
        ("Deployment", {"spec": selected()}, ("spec", "template", "spec", "restartPolicy"), "Always"),
        ("ReplicaSet", {"spec": selected()}, ("spec", "replicas"), 1),
        ("ReplicationController", {"spec": {"template": template(a="b")}}, ("spec", "selector"), {"a": "b"}),
        ("StatefulSet", {"spec": selected()}, ("spec", "podManagementPolicy"), "OrderedReady"),
        ("DaemonSet", {"spec": selected()}, ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable"), 1),
        ("Job", {"spec": {"template": template()}}, ("spec", "completions"), 1),
        ("Job", {"spec": {"template": template(), "parallelism": 2}}, ("spec", "backoffLimit"), 6),
        ("CronJob", {"spec": {"jobTemplate": {}}}, ("spec", "concurrencyPolicy"), "Allow"),
        ("Service", {"spec": {"ports": [{"port": 80}]}}, ("spec", "ports"),
         [{"port": 80, "protocol": "TCP", "targetPort": 80}]),
        ("Namespace", {}, ("metadata", "labels"), {"kubernetes.io/metadata.name": "o"}),
        ("Node", {"status": {"capacity": {"cpu": "1"}}}, ("status", "allocatable"), {"cpu": "1"}),
        ("PersistentVolume", {"spec": {"hostPath": {}}}, ("spec", "persistentVolumeReclaimPolicy"), "Retain"),
        ("PersistentVolumeClaim", {"spec": {}}, ("spec", "volumeMode"), "Filesystem"),
        ("StorageClass", {"provisioner": "p"}, ("volumeBindingMode",), "Immediate"),
        ("CSIDriver", {"spec": {}}, ("spec", "volumeLifecycleModes"), ["Persistent"]),
        ("PriorityClass", {}, ("preemptionPolicy",), "PreemptLowerPriority"),
        ("Secret", {"stringData": {"a": "b"}}, ("data",), {"a": "Yg=="}),
        ("RoleBinding", {"roleRef": {"kind": "Role", "name": "r"}}, ("roleRef", "apiGroup"),
         "rbac.authorization.k8s.io"),
        ("LimitRange", {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}}, ("spec", "limits"),
         [{"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "2"}, "defaultRequest": {"cpu": "2"}}]),
        ("ResourceClaim", {"spec": {"devices": {"requests": [{"exactly": {}}]}}}, ("spec", "devices", "requests"),
         [{"exactly": {"allocationMode": "ExactCount", "count": 1}}]),
        ("NetworkPolicy", {"spec": {"egress": []}}, ("spec", "policyTypes"), ["Ingress", "Egress"]),
        ("CustomResourceDefinition", {"spec": {"names": {"kind": "Foo"}}}, ("spec", "names", "listKind"), "FooList"),
        ("Event", {}, ("eventTime",), None),
    ],
)  # fmt: skip
def test_defaults(name: str, fields: dict[str, Any], path: tuple[str, ...], expected: Any) -> None:
    found: Any = new(name, **fields)
    again = deep_copy(found)
    kind(name).set_defaults(again)
    assert again == found
    for step in path:
        found = found[step]
    assert found == expected


REQUIRED = "Required value"


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("Deployment", {"spec": selected(replicas=-1)},
         "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        ("Deployment", {"spec": selected(strategy={"type": "Recreate", "rollingUpdate": {}})},
         "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"),
        ("ReplicaSet", {"spec": {"template": template(a="b")}}, f"spec.selector: {REQUIRED}"),
        ("StatefulSet", {"spec": selected(template=template(a="c"))},
         'spec.template.metadata.labels: Invalid value: {"a":"c"}: `selector` does not match template `labels`'),
        ("DaemonSet", {"spec": selected(selector={})},
         "spec.selector: Invalid value: {}: empty selector is invalid for deployment"),
        ("ReplicationController", {"spec": {"template": template()}}, f"spec.selector: {REQUIRED}"),
        ("Job", {"spec": selected(manualSelector=True)},
         f'spec.template.spec.restartPolicy: {REQUIRED}: valid values: "OnFailure", "Never"'),
        ("CronJob", {"spec": {"schedule": "* *", "jobTemplate": {}}},
         'spec.schedule: Invalid value: "* *": expected exactly 5 fields, found 2: [* *]'),
        ("PodDisruptionBudget", {"spec": {"minAvailable": "a"}}, ("spec.minAvailable: Invalid value: \"a\": a valid"
         " percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for"
         " validation is '[0-9]+%')")),
        ("Node", {"spec": {"taints": [{"key": "k", "effect": "No"}]}},
         ('metadata.taints[0].effect: Unsupported value: "No": supported values: "NoSchedule", "PreferNoSchedule",'
         ' "NoExecute"')),
        ("PriorityClass", {"value": 2_000_000_000},
         "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"),
        ("Service", {"spec": {}}, f"spec.ports: {REQUIRED}"),
        ("PersistentVolumeClaim", {"spec": {}}, f"spec.accessModes: {REQUIRED}: at least 1 access mode is required"),
        ("PersistentVolume", {"spec": {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}}},
         f"spec: {REQUIRED}: must specify a volume type"),
        ("StorageClass", {}, f"provisioner: {REQUIRED}"),
        ("Lease", {"spec": {"leaseDurationSeconds": 0}},
         "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"),
        ("RuntimeClass", {"handler": "A"}, ('handler: Invalid value: "A": a lowercase RFC 1123 label must consist of'
         " lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g."
         " 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')")),
        ("RoleBinding", {"roleRef": {"kind": "Role"}}, f"roleRef.name: {REQUIRED}"),
        ("Event", {"involvedObject": {"namespace": "other"}},
         'involvedObject.namespace: Invalid value: "other": does not match event.namespace'),
        ("CustomResourceDefinition", {"spec": {"group": "g", "names": {}, "scope": "Cluster"}},
         'spec.group: Invalid value: "g": should be a domain with at least one dot'),
    ],
)  # fmt: skip
def test_validation_messages(name: str, fields: dict[str, Any], message: str) -> None:
    assert message in errors(name, **fields)


@pytest.mark.parametrize(
    ("name", "before", "after", "message"),
    [
        ("Deployment", {"spec": selected()}, {"spec": selected(selector={"matchLabels": {"a": "c"}})},
         'spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable'),
        ("StatefulSet", {"spec": selected()}, {"spec": selected(serviceName="s")},
         ("spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template',"
         " 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are"
         " forbidden")),
        ("PriorityClass", {"value": 1}, {"value": 2}, "value: Forbidden: may not be changed in an update."),
        ("ConfigMap", {"immutable": True, "data": {"a": "1"}}, {"immutable": True, "data": {"a": "2"}},
         "data: Forbidden: field is immutable when `immutable` is set"),
        ("StorageClass", {"provisioner": "a"}, {"provisioner": "b"},
         'provisioner: Invalid value: "b": field is immutable'),
        ("Node", {"spec": {"providerID": "a"}}, {"spec": {"providerID": "b"}},
         'spec.providerID: Forbidden: node updates may not change providerID except from "" to valid'),
        ("ClusterRoleBinding", {"roleRef": {"name": "a"}}, {"roleRef": {"name": "b"}},
         ('roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"","Name":"b"}: cannot change'
         " roleRef")),
    ],
)  # fmt: skip
def test_changes_that_are_not_allowed(name: str, before: dict[str, Any], after: dict[str, Any], message: str) -> None:
    old, changed = new(name, **before), new(name, **after)
    assert [str(each) for each in kind(name).validate_update(changed, old)] == [message]
    assert kind(name).validate_update(old, old) == []


CONTAINER = {"Containers": "c", "Images": "busybox"}


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        ("Deployment", {"spec": selected(replicas=3), "status": {"readyReplicas": 1, "updatedReplicas": 2}},
         {"Ready": "1/3", "Up-to-date": 2, "Available": 0, "Selector": "a=b", **CONTAINER}),
        ("ReplicaSet", {"spec": selected(replicas=3)}, {"Desired": 3, "Current": 0, "Ready": 0, **CONTAINER}),
        ("StatefulSet", {"spec": selected(), "status": {"readyReplicas": 1}}, {"Ready": "1/1", **CONTAINER}),
        ("DaemonSet", {"spec": selected()}, {"Desired": 0, "Node Selector": "<none>", **CONTAINER}),
        ("Job", {"spec": {"template": template()}, "status": {"startTime": CREATED}},
         {"Status": "Running", "Completions": "0/1", "Duration": "60s", **CONTAINER}),
        ("CronJob", {"spec": {"schedule": "@daily", "jobTemplate": {}}},
         {"Schedule": "@daily", "Suspend": "False", "Last Schedule": "<none>"}),
        ("Node", {"metadata": {"name": "o", "labels": {"node-role.kubernetes.io/worker": ""}},
                  "spec": {"unschedulable": True}},
         {"Status": "Unknown,SchedulingDisabled", "Roles": "worker", "Kernel-Version": "<unknown>"}),
        ("Namespace", {}, {"Status": "Active", "Age": "60s"}),
        ("Service", {"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30000}]}},
         {"External-IP": "<pending>", "Port(s)": "80:30000/TCP"}),
        ("PersistentVolumeClaim", {"spec": {"volumeName": "v"}, "status": {"accessModes": ["ReadWriteOnce"],
                                   "capacity": {"storage": "1Gi"}}}, {"Capacity": "1Gi", "Access Modes": "RWO"}),
        ("PersistentVolume", {"spec": {"claimRef": {"namespace": "n", "name": "c"}, "capacity": {"storage": "1Gi"}}},
         {"Claim": "n/c", "Capacity": "1Gi", "Status": "Pending"}),
        ("StorageClass", {"metadata": {"name": "o", "annotations": {
            "storageclass.kubernetes.io/is-default-class": "true"}}}, {"Name": "o (default)"}),
        ("PodDisruptionBudget", {"spec": {"minAvailable": 1}},
         {"Min Available": "1", "Max Unavailable": "N/A", "Allowed Disruptions": 0}),
        ("Event", {"involvedObject": {"kind": "Pod", "name": "p"}, "lastTimestamp": CREATED, "message": " m "},
         {"Last Seen": "60s", "Object": "pod/p", "Message": "m", "Count": 1}),
        ("ResourceQuota", {"status": {"hard": {"pods": "2", "limits.cpu": "4"}, "used": {"pods": "1"}}},
         {"Request": "pods: 1/2", "Limit": "limits.cpu: 0/4"}),
        ("RoleBinding", {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}]},
         {"Role": "Role/r", "Users": "u", "ServiceAccounts": "n/s"}),
        ("ResourceClaim", {"status": {"allocation": {"a": 1}}}, {"State": "allocated"}),
        ("Secret", {"data": {"a": "Yg=="}}, {"Type": "Opaque", "Data": 1}),
        ("Lease", {"spec": {"holderIdentity": "h"}}, {"Holder": "h"}),
    ],
)  # fmt: skip
def test_table_rows(name: str, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    assert row(name, **fields).items() >= expected.items()


@pytest.mark.parametrize(
    ("name", "object_name", "message"),
    [
        ("Namespace", "default", 'namespaces "default" is forbidden: this namespace may not be deleted'),
        ("PriorityClass", "system-node-critical", ('priorityclasses.scheduling.k8s.io "system-node-critical" is'
         " forbidden: this is a system priority class and cannot be deleted")),
    ],
)  # fmt: skip
def test_objects_that_cannot_be_deleted(name: str, object_name: str, message: str) -> None:
    document = new(name)
    kind(name).check_deletion(document)
    document["metadata"]["name"] = object_name
    with pytest.raises(ApiError) as caught:
        kind(name).check_deletion(document)
    assert caught.value.message == message


def test_only_one_priority_class_is_the_default() -> None:
    store = Store()
    store.put("priorityclasses.scheduling.k8s.io", "", "one", {"metadata": {"name": "one"}, "globalDefault": True})
    with pytest.raises(ApiError, match="PriorityClass one is already marked as default"):
        kind("PriorityClass").admit(store, new("PriorityClass", globalDefault=True))
    kind("PriorityClass").admit(store, new("PriorityClass"))


def test_services_get_free_addresses_and_ports() -> None:
    store, seen = Store(), []
    for name in ("one", "two"):
        service = new("Service", spec={"type": "NodePort", "ports": [{"port": 80}]})
        prepare = kind("Service").prepare
        assert prepare is not None
        prepare(service, store, NOW)
        seen.append((service["spec"]["clusterIP"], service["spec"]["ports"][0]["nodePort"]))
        store.put("services", "default", name, service)
    assert seen == [("10.96.0.10", 30000), ("10.96.0.11", 30001)]


def test_claims_get_the_default_storage_class() -> None:
    store, claim = Store(), new("PersistentVolumeClaim", spec={})
    marked = {"name": "c", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    store.put("storageclasses.storage.k8s.io", "", "c", {"metadata": marked})
    kind("PersistentVolumeClaim").admit(store, claim)
    assert claim["spec"]["storageClassName"] == "c"
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


@pytest.mark.parametrize("name", ["Ingress", "NetworkPolicy"])
def test_kinds_without_a_controller_warn(name: str) -> None:
    (warning,) = kind(name).warnings(new(name, spec={"jobTemplate": {}}))
    assert warning.startswith("the embedded cluster has no controller for")


@pytest.mark.parametrize(
    ("name", "fields", "cells"),
    [
        (
            "HorizontalPodAutoscaler",
            {"spec": {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3}},
            {"Reference": "Deployment/web", "Targets": "cpu: <unknown>/80%", "MinPods": "1", "MaxPods": "3"},
        ),
        ("MutatingWebhookConfiguration", {"webhooks": [{"name": "w.example.com"}]}, {"Webhooks": 1}),
        ("ValidatingWebhookConfiguration", {}, {"Webhooks": 0}),
        ("ValidatingAdmissionPolicy", {"spec": {"validations": [{"expression": "true"}]}}, {"Validations": 1}),
        ("ValidatingAdmissionPolicyBinding", {"spec": {"policyName": "p"}}, {"PolicyName": "p"}),
        (
            "APIService",
            {"spec": {"service": {"name": "s", "namespace": "n"}}},
            {"Service": "n/s", "Available": "Unknown"},
        ),
        ("CertificateSigningRequest", {"spec": {"signerName": "ex.io/s"}}, {"Condition": "Pending"}),
    ],
)
def test_kinds_without_effect_are_stored_with_a_warning(
    name: str, fields: dict[str, Any], cells: dict[str, Any]
) -> None:
    (warning,) = kind(name).warnings(new(name, **fields))
    assert warning.startswith("the embedded cluster ")
    assert warning.endswith(": it is stored, and nothing happens")
    assert row(name, **fields).items() >= cells.items()


@pytest.mark.parametrize(
    ("name", "fields", "expected"),
    [
        (
            "HorizontalPodAutoscaler",
            {"spec": {"minReplicas": 5, "maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment"}}},
            ["spec.scaleTargetRef.name", "spec.scaleTargetRef.apiVersion", "spec.maxReplicas"],
        ),
        ("APIService", {"spec": {"group": "g", "version": "v1"}}, ["metadata.name"]),
        ("CertificateSigningRequest", {"spec": {"signerName": "ex.io/s"}}, ["spec.request"]),
    ],
)
def test_kinds_without_effect_are_validated(name: str, fields: dict[str, Any], expected: list[str]) -> None:
    assert [each.field for each in kind(name).validate(new(name, **fields))] == expected
