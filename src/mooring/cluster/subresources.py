"""What is done through the subresources: binding, eviction, scale and finalizing."""

from typing import Any, Final

from mooring.apiserver.documents import Document, condition, copied, look, replaced, rfc3339
from mooring.cluster.calls import Call
from mooring.cluster.deletion import DeleteOptions, delete
from mooring.cluster.errors import (
    MODIFIED,
    ApiError,
    Target,
    bad_request,
    conflict,
    invalid,
    invalid_object,
    not_supported,
    required,
    storage_conflict,
    too_many_requests,
    unnamed_failure,
)
from mooring.cluster.registry import Registry
from mooring.cluster.resources import Resource
from mooring.cluster.selectors import selector_of
from mooring.cluster.store import Stored

BUDGETS: Final = "poddisruptionbudgets.policy"


def bind(registry: Registry, namespace: str, name: str, binding: Document, call: Call) -> None:
    """Put a pod on a node. A pod is put on a node once."""
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
    if call.dry_run:
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


def evict(registry: Registry, resource: Resource, namespace: str, name: str, eviction: Document, call: Call) -> None:
    """Delete a pod if its disruption budget allows it."""
    stored = registry.get(resource, namespace, name)
    document = stored.document
    options = DeleteOptions.read(eviction.get("deleteOptions") or {}, {})
    phase = look(document, "status", "phase")
    if phase not in {"Succeeded", "Failed", "Pending"} and not document["metadata"].get("deletionTimestamp"):
        _spend_budget(registry, document, call)
    if not call.dry_run:
        registry.modify("pods", namespace, name, lambda each: _disrupted(each, rfc3339(registry.clock())))
    delete(registry, resource, namespace, name, options, call)


def _disrupted(document: Document, now: str) -> Document:
    fresh = {
        "type": "DisruptionTarget",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    status = document.get("status", {})
    others = [each for each in status.get("conditions", ()) if each["type"] != "DisruptionTarget"]
    return {**document, "status": {**status, "conditions": [*others, fresh]}}


def _spend_budget(registry: Registry, pod: Document, call: Call) -> None:
    metadata = pod["metadata"]
    labels = metadata.get("labels") or {}
    budgets = [
        each
        for each in registry.store.objects(BUDGETS, metadata["namespace"])
        if labels and selector_of(each.document["spec"].get("selector")).matches(labels)
    ]
    if len(budgets) > 1:
        raise ApiError(500, "InternalError", "This pod has more than one PodDisruptionBudget, which the eviction"
                       " subresource does not support.")  # fmt: skip
    if not budgets:
        return
    budget = budgets[0].document
    status = budget.get("status", {})
    ready = condition(pod, "Ready")
    unhealthy = not (ready and ready["status"] == "True")
    if unhealthy and (
        look(budget, "spec", "unhealthyPodEvictionPolicy") == "AlwaysAllow"
        or status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0
    ):
        return
    _require_budget(budget, status)
    if call.dry_run:
        return
    disrupted = {**status.get("disruptedPods", {}), metadata["name"]: rfc3339(registry.clock())}
    fresh = {**status, "disruptionsAllowed": status["disruptionsAllowed"] - 1, "disruptedPods": disrupted}
    registry.modify(BUDGETS, metadata["namespace"], budget["metadata"]["name"], lambda each: {**each, "status": fresh})


def _require_budget(budget: Document, status: Document) -> None:
    name = budget["metadata"]["name"]
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        cause = {
            "reason": "DisruptionBudget",
            "message": f"The disruption budget {name} is still being processed by the server.",
        }
        raise too_many_requests(message, causes=[cause], retry_after=10)
    if status.get("disruptionsAllowed", 0) <= 0:
        cause = {
            "reason": "DisruptionBudget",
            "message": f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods and has"
            f" {status.get('currentHealthy', 0)} currently",
        }
        raise too_many_requests(message, causes=[cause])


def scale_of(resource: Resource, document: Document, paths: Document | None = None) -> Document:
    """The Scale of a workload. `paths` says where a custom resource keeps its numbers."""
    metadata = document["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    if paths is None:
        wanted = document["spec"].get("replicas", 0)
        present = look(document, "status", "replicas") or 0
        selector = _selector_string(resource, document)
    else:
        wanted = _at(document, paths["specReplicasPath"]) or 0
        present = _at(document, paths["statusReplicasPath"]) or 0
        selector = _at(document, paths.get("labelSelectorPath", "")) or ""
    status: Document = {"replicas": present}
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in kept if key in metadata},
        "spec": {"replicas": wanted} if wanted else {},
        "status": status,
    }


def _selector_string(resource: Resource, document: Document) -> str:
    from mooring.cluster.tables.texts import labels_text, selector_text

    if resource.stored_as == "replicationcontrollers":
        return labels_text(document["spec"].get("selector"))
    return selector_text(document["spec"].get("selector"))


def _at(document: Document, path: str) -> Any:
    return look(document, *path.lstrip(".").split(".")) if path else None


def set_scale(
    registry: Registry,
    resource: Resource,
    namespace: str,
    name: str,
    scale: Document,
    call: Call,
    paths: Document | None,
) -> Stored:
    """Set how many replicas a workload wants."""
    replicas = look(scale, "spec", "replicas") or 0
    if replicas < 0:
        error = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid_object("Scale", "autoscaling", name, [error])
    old = registry.get(resource, namespace, name)
    document = copied(old.document)
    steps = paths["specReplicasPath"].lstrip(".").split(".") if paths else ["spec", "replicas"]
    inner = document
    for step in steps[:-1]:
        inner = inner.setdefault(step, {})
    inner[steps[-1]] = replicas
    given = look(scale, "metadata", "resourceVersion")
    document["metadata"]["resourceVersion"] = given or old.document["metadata"]["resourceVersion"]
    document["metadata"].pop("managedFields", None)
    return registry.update(resource, namespace, name, document, call, booked_as="scale")


def finalize_namespace(registry: Registry, resource: Resource, name: str, document: Document) -> Stored:
    """Set which finalizers of a namespace are still to do their work."""
    registry.get(resource, "", name)
    finalizers = look(document, "spec", "finalizers") or []
    if not isinstance(finalizers, list):
        raise bad_request("spec.finalizers must be a list")
    changed = registry.modify(
        "namespaces", "", name, lambda each: replaced(each, spec={"finalizers": finalizers} if finalizers else {})
    )
    if changed is None:
        raise bad_request(f'namespace "{name}" is gone')
    return changed
