"""What is decided about a new object because of the other objects: priorities, tolerations, namespaces, classes."""

from collections.abc import Callable
from typing import Final

from mooring.cluster.documents import Document
from mooring.cluster.errors import ApiError, Target, forbidden, not_found
from mooring.cluster.limits import apply_limits
from mooring.cluster.qos import qos_class
from mooring.cluster.resources import Resource
from mooring.cluster.store import Store

PRIORITY_CLASSES: Final = "priorityclasses.scheduling.k8s.io"
STORAGE_CLASSES: Final = "storageclasses.storage.k8s.io"
RUNTIME_CLASSES: Final = "runtimeclasses.node.k8s.io"
DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"

#: What a pod puts up with for five minutes unless it says otherwise.
_TOLERATED: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


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
    _priority(store, document)
    add_tolerations(spec)
    document["status"]["qosClass"] = qos_class(spec)


def add_tolerations(spec: Document) -> None:
    """Let a pod put up with a node that is away for a while, unless it says how long itself."""
    tolerations = spec.setdefault("tolerations", [])
    for key in _TOLERATED:
        if not any(_covers(each, key) for each in tolerations):
            tolerations.append({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300})


def _covers(toleration: Document, key: str) -> bool:
    return toleration.get("key", "") in {key, ""} and toleration.get("effect", "") in {"NoExecute", ""}


def _priority(store: Store, document: Document) -> None:
    spec = document["spec"]
    name = spec.get("priorityClassName", "")
    target = Target("", "pods", document["metadata"].get("name", ""))
    chosen: Document | None = None
    if name:
        found = store.get(PRIORITY_CLASSES, "", name)
        if found is None:
            raise forbidden(target, f"no PriorityClass with name {name} was found")
        chosen = found.document
    else:
        chosen = _default_priority_class(store)
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
    value = chosen["value"] if chosen else 0
    if "priority" in spec and spec["priority"] != value:
        raise forbidden(
            target,
            f"the integer value of priority ({spec['priority']}) must not be provided in pod spec;"
            f" priority admission controller computed {value} from the given PriorityClass name",
        )
    policy = (chosen or {}).get("preemptionPolicy", "PreemptLowerPriority")
    if "preemptionPolicy" in spec and spec["preemptionPolicy"] != policy:
        raise forbidden(
            target,
            f"the string value of PreemptionPolicy ({spec['preemptionPolicy']}) must not be provided in pod spec;"
            f" priority admission controller computed {policy} from the given PriorityClass name",
        )
    spec["priority"], spec["preemptionPolicy"] = value, policy


def _default_priority_class(store: Store) -> Document | None:
    """The class that pods get who name none; the lowest where there are several."""
    classes = [each.document for each in store.objects(PRIORITY_CLASSES) if each.document.get("globalDefault")]
    return min(classes, key=lambda each: int(each["value"]), default=None)


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
    defaults = [
        each.document
        for each in store.objects(STORAGE_CLASSES)
        if each.document["metadata"].get("annotations", {}).get(DEFAULT_CLASS) == "true"
    ]
    if defaults:
        newest = max(defaults, key=lambda each: str(each["metadata"]["creationTimestamp"]))
        document["spec"]["storageClassName"] = newest["metadata"]["name"]


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
