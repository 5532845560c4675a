"""What is decided about a new object because of the other objects: priorities, tolerations, namespaces, classes."""

from collections.abc import Callable
from typing import Final

from mooring.apiserver.admission import AdmissionError, add_tolerations, assign_priority, default_storage_class
from mooring.apiserver.documents import Document
from mooring.apiserver.pod_defaults import qos_class
from mooring.cluster.errors import ApiError, Target, forbidden, not_found
from mooring.cluster.limits import apply_limits
from mooring.cluster.resources import Resource
from mooring.cluster.store import Store

PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
STORAGE_CLASSES: Final = "storageclasses.storage.k8s.io"
RUNTIME_CLASSES: Final = "runtimeclasses.node.k8s.io"


def admit(store: Store, resource: Resource, document: Document) -> None:
    """Complete a new object in place, or refuse it."""
    _check_namespace(store, resource, document)
    special = _SPECIAL.get(resource.stored_as)
    if special is not None:
        special(store, document)


def _check_namespace(store: Store, resource: Resource, document: Document) -> None:
    if not resource.namespaced:
        return
    name = document["metadata"]["namespace"]
    found = store.get("namespaces", "", name)
    if found is None:
        raise not_found(Target("", "namespaces", name))
    if found.document["metadata"].get("deletionTimestamp"):
        error = forbidden(
            resource.target(document["metadata"].get("name", "")),
            f"unable to create new content in namespace {name} because it is being terminated",
        )
        cause = {"reason": "NamespaceTerminating", "message": f"namespace {name} is being terminated",
                 "field": "metadata.namespace"}  # fmt: skip
        raise ApiError(error.code, error.reason, error.message, details={**(error.details or {}), "causes": [cause]})


def _pod(store: Store, document: Document) -> None:
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


def _claim(store: Store, document: Document) -> None:
    _finalizer(document, "kubernetes.io/pvc-protection")
    if "storageClassName" in document["spec"]:
        return
    name = default_storage_class(each.document for each in store.objects(STORAGE_CLASSES))
    if name is not None:
        document["spec"]["storageClassName"] = name


def _volume(_store: Store, document: Document) -> None:
    _finalizer(document, "kubernetes.io/pv-protection")


def _finalizer(document: Document, name: str) -> None:
    finalizers = document["metadata"].setdefault("finalizers", [])
    if name not in finalizers:
        finalizers.append(name)


def _priority_class(store: Store, document: Document) -> None:
    if not document.get("globalDefault"):
        return
    for each in store.objects(PRIORITY_CLASSES):
        if each.document.get("globalDefault") and each.document["metadata"]["name"] != document["metadata"].get("name"):
            raise forbidden(
                Target("scheduling.k8s.io", "priorityclasses", document["metadata"].get("name", "")),
                f"PriorityClass {each.document['metadata']['name']} is already marked as default."
                " Only one default can exist",
            )


_SPECIAL: Final[dict[str, Callable[[Store, Document], None]]] = {
    "persistentvolumeclaims": _claim,
    "persistentvolumes": _volume,
    "pods": _pod,
    PRIORITY_CLASSES: _priority_class,
}
