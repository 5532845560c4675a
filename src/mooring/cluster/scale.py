"""The `scale` subresource of workloads and custom resources."""

from typing import Any

from mooring.apiserver.documents import Document, deep_copy, nested_field
from mooring.apiserver.field_errors import invalid
from mooring.cluster.api_resource import Resource
from mooring.cluster.errors import invalid_object
from mooring.cluster.registry import Registry
from mooring.cluster.request_context import RequestContext
from mooring.cluster.store import Stored
from mooring.cluster.table_printer import labels_text, selector_text


def scale_of(resource: Resource, document: Document, paths: Document | None = None) -> Document:
    """Return the Scale of a workload. `paths` are the paths of the fields in a custom resource."""
    metadata = document["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    if paths is None:
        wanted = document["spec"].get("replicas", 0)
        present = nested_field(document, "status", "replicas") or 0
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
    if resource.stored_as == "replicationcontrollers":
        return labels_text(document["spec"].get("selector"))
    return selector_text(document["spec"].get("selector"))


def _at(document: Document, path: str) -> Any:
    return nested_field(document, *path.lstrip(".").split(".")) if path else None


def set_scale(
    registry: Registry,
    resource: Resource,
    namespace: str,
    name: str,
    scale: Document,
    context: RequestContext,
    paths: Document | None,
) -> Stored:
    """Set the number of replicas of a workload."""
    replicas = nested_field(scale, "spec", "replicas") or 0
    if replicas < 0:
        error = invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid_object("Scale", "autoscaling", name, [error])
    old = registry.get(resource, namespace, name)
    document = deep_copy(old.document)
    steps = paths["specReplicasPath"].lstrip(".").split(".") if paths else ["spec", "replicas"]
    inner = document
    for step in steps[:-1]:
        inner = inner.setdefault(step, {})
    inner[steps[-1]] = replicas
    given = nested_field(scale, "metadata", "resourceVersion")
    document["metadata"]["resourceVersion"] = given or old.document["metadata"]["resourceVersion"]
    document["metadata"].pop("managedFields", None)
    return registry.update(resource, namespace, name, document, context, owning_subresource="scale")
