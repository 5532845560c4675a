"""Pods and PodTemplates: preparation, admission, binding and declaration."""

from typing import Any, Final

from mooring.apiserver.admission import AdmissionError, add_tolerations, assign_priority, merge_label_keys
from mooring.apiserver.documents import Document, nested_field, rfc3339
from mooring.apiserver.field_errors import not_supported, required
from mooring.apiserver.pod_defaults import qos_class, set_pod_defaults, set_template_defaults
from mooring.apiserver.pod_validation import (
    pod_errors,
    pod_status_errors,
    pod_subresource_errors,
    pod_update_errors,
    pod_warnings,
)
from mooring.cluster.api_resource import Resource
from mooring.cluster.errors import (
    MODIFIED,
    ApiError,
    Target,
    bad_request,
    conflict,
    forbidden,
    storage_conflict,
    unnamed_failure,
)
from mooring.cluster.kind import Kind
from mooring.cluster.kinds.limit_range import apply_limits
from mooring.cluster.kinds.pod_table import pod_row
from mooring.cluster.kinds.priority_class import PRIORITY_CLASSES
from mooring.cluster.kinds.runtime_class import RUNTIME_CLASSES
from mooring.cluster.registry import Registry
from mooring.cluster.request_context import RequestContext
from mooring.cluster.selectors import field_reader
from mooring.cluster.store import Store
from mooring.cluster.table_printer import columns, container_cells, labels_text

_GATED: Final = "Scheduling is blocked due to non-empty scheduling gates"


def _prepare(document: Document, _store: Store, now: float) -> None:
    status: Document = {"phase": "Pending", "qosClass": qos_class(document["spec"])}
    if document["spec"].get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": rfc3339(now),
                "reason": "SchedulingGated",
                "message": _GATED,
            }
        ]
    document["status"] = status
    merge_label_keys(document)


def _admit(store: Store, document: Document) -> None:
    spec = document["spec"]
    _runtime_class(store, document)
    apply_limits(store, document)
    try:
        assign_priority(spec, [each.document for each in store.objects(PRIORITY_CLASSES)])
    except AdmissionError as error:
        raise forbidden(Target("", "pods", document["metadata"].get("name", "")), str(error)) from None
    add_tolerations(spec)
    document["status"]["qosClass"] = qos_class(spec)


def _runtime_class(store: Store, document: Document) -> None:
    spec = document["spec"]
    name = spec.get("runtimeClassName")
    target = Target("", "pods", document["metadata"].get("name", ""))
    if not name:
        if "overhead" in spec:
            raise forbidden(
                target, "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
            )
        return
    found = store.get(RUNTIME_CLASSES, "", name)
    if found is None:
        raise forbidden(target, f'pod rejected: RuntimeClass "{name}" not found')
    overhead = found.document.get("overhead", {}).get("podFixed")
    if overhead:
        spec["overhead"] = dict(overhead)
    scheduling = found.document.get("scheduling") or {}
    if scheduling.get("nodeSelector"):
        for key, value in scheduling["nodeSelector"].items():
            if spec.get("nodeSelector", {}).get(key, value) != value:
                raise forbidden(
                    target,
                    f"pod rejected: conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value};"
                    f" pod.spec.nodeSelector[{key}] = {spec['nodeSelector'][key]}",
                )
        spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **scheduling["nodeSelector"]}
    for each in scheduling.get("tolerations", ()):
        if each not in spec.setdefault("tolerations", []):
            spec["tolerations"].append(dict(each))


def bind(registry: Registry, namespace: str, name: str, binding: Document, context: RequestContext) -> None:
    """Bind a pod to a node."""
    target = binding.get("target") or {}
    if (binding.get("metadata") or {}).get("name") != name:
        raise bad_request("name in URL does not match name in Binding object")
    if target.get("kind", "") not in {"", "Node"}:
        raise unnamed_failure(str(not_supported("target.kind", target["kind"], ("Node", "<empty>"))))
    if not target.get("name"):
        raise unnamed_failure(str(required("target.name")))
    stored = registry.store.get("pods", namespace, name)
    if stored is None:
        raise ApiError(404, "NotFound", f'pods "{name}" not found', details=Target("", "pods", name).details)
    document = stored.document
    _check_binding(document, binding)
    if context.dry_run:
        return
    metadata = document["metadata"]
    annotations = (binding.get("metadata") or {}).get("annotations")
    if annotations:
        metadata = {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}
    registry.store.put(
        "pods",
        namespace,
        name,
        {
            **document,
            "metadata": metadata,
            "spec": {**document["spec"], "nodeName": target["name"]},
            "status": _scheduled(document.get("status", {}), rfc3339(registry.clock())),
        },
    )


def _check_binding(document: Document, binding: Document) -> None:
    metadata, spec = document["metadata"], document["spec"]
    name = metadata["name"]
    target = Target("", "pods/binding", name)
    uid = (binding.get("metadata") or {}).get("uid")
    if uid and uid != metadata["uid"]:
        path = f"pods/{metadata['namespace']}/{name}"
        raise storage_conflict(Target("", "pods", name), path, uid, metadata["uid"])
    version = (binding.get("metadata") or {}).get("resourceVersion")
    if version and version != metadata["resourceVersion"]:
        raise conflict(target, MODIFIED)
    if metadata.get("deletionTimestamp"):
        raise conflict(target, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise conflict(target, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise conflict(target, f"pod {name} has non-empty .spec.schedulingGates")


def _scheduled(status: Document, now: str) -> Document:
    fresh = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    others = [each for each in status.get("conditions", ()) if each["type"] != "PodScheduled"]
    status = {key: value for key, value in status.items() if key != "nominatedNodeName"}
    return {**status, "conditions": [*others, fresh]}


def _set_pod_template_defaults(document: Document) -> None:
    set_template_defaults(document["template"])


def _pod_template_row(document: Document, _now: float) -> list[Any]:
    template = document["template"]
    names, images = container_cells(template["spec"].get("containers", ()))
    return [document["metadata"]["name"], names, images, labels_text(nested_field(template, "metadata", "labels"))]


POD: Final = Kind(
    Resource(
        "",
        "v1",
        "pods",
        "Pod",
        short_names=("po",),
        categories=("all",),
        subresources=(
            "attach",
            "binding",
            "ephemeralcontainers",
            "eviction",
            "exec",
            "log",
            "portforward",
            "proxy",
            "resize",
            "status",
        ),
    ),
    set_defaults=set_pod_defaults,
    prepare=_prepare,
    admit=_admit,
    validate=pod_errors,
    validate_update=pod_update_errors,
    validate_subresource=pod_subresource_errors,
    validate_status=pod_status_errors,
    status_protects=("ownerReferences",),
    warnings=lambda document: pod_warnings(document["spec"], "spec"),
    columns=columns("Name Ready Status Restarts Age +IP +Node +Nominated_Node +Readiness_Gates", pod_row),
    fields={
        "spec.nodeName": field_reader("spec", "nodeName"),
        "spec.restartPolicy": field_reader("spec", "restartPolicy"),
        "spec.schedulerName": field_reader("spec", "schedulerName"),
        "spec.serviceAccountName": field_reader("spec", "serviceAccountName"),
        "spec.hostNetwork": field_reader("spec", "hostNetwork", default="false"),
        "status.phase": field_reader("status", "phase"),
        "status.podIP": field_reader("status", "podIP"),
        "status.nominatedNodeName": field_reader("status", "nominatedNodeName"),
    },
    counts_generation=True,
    returns_deleted=True,
)
POD_TEMPLATE: Final = Kind(
    Resource("", "v1", "podtemplates", "PodTemplate"),
    set_defaults=_set_pod_template_defaults,
    columns=columns("Name Containers Images Pod_Labels", _pod_template_row),
    counts_generation=True,
    returns_deleted=True,
)
