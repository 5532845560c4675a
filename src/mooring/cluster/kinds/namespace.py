"""Namespaces: rules, and the controller that deletes the content of terminating ones."""

from collections.abc import Iterable
from typing import Any, Final

from mooring.apiserver.documents import Document, nested_field, replaced
from mooring.apiserver.object_names import dns_label
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.errors import Target, bad_request, conflict, forbidden
from mooring.cluster.kind import Kind
from mooring.cluster.registry import Registry
from mooring.cluster.selectors import field_reader
from mooring.cluster.store import DELETED, Change, Store, Stored
from mooring.cluster.table_printer import age, columns

_RETRY_AFTER: Final = 0.2


#: Namespaces that cannot be deleted.
_PERMANENT: Final = frozenset({"default", "kube-system", "kube-public"})


def _set_namespace_defaults(document: Document) -> None:
    name = document["metadata"].get("name")
    if name:
        document["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name
    document["status"].setdefault("phase", "Active")


def _prepare(document: Document, _store: Store, _now: float) -> None:
    document["status"] = {"phase": "Active"}
    finalizers = document["spec"].get("finalizers", [])
    if "kubernetes" not in finalizers:
        document["spec"]["finalizers"] = ["kubernetes", *finalizers]


def _namespace_row(document: Document, now: float) -> list[Any]:
    return [document["metadata"]["name"], nested_field(document, "status", "phase") or "", age(document, now)]


def _check_deletion(document: Document) -> None:
    name = document["metadata"]["name"]
    target = Target("", "namespaces", name)
    if name in _PERMANENT:
        raise forbidden(target, "this namespace may not be deleted")
    if document["metadata"].get("deletionTimestamp") and document["spec"].get("finalizers"):
        raise conflict(
            target,
            "The system is ensuring all content is removed from this namespace.  Upon completion, this namespace will"
            " automatically be purged by the system.",
        )


class NamespaceController(Controller):
    """A controller that deletes the content of terminating namespaces."""

    name = "namespace-controller"

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return the namespace, or the terminating namespace of a deleted object."""
        metadata = change.stored.document["metadata"]
        if storage == "namespaces":
            return [("", metadata["name"])]
        if change.kind != DELETED or not metadata.get("namespace"):
            return []
        space = self.tools.find("namespaces", "", metadata["namespace"])
        return [("", metadata["namespace"])] if space and space["metadata"].get("deletionTimestamp") else []

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Delete the content of a terminating namespace."""
        document = self.tools.find("namespaces", "", name)
        if document is None:
            return None
        if not document["metadata"].get("deletionTimestamp"):
            return None
        if self._empty(name):
            spec = {**document["spec"], "finalizers": [
                each for each in document["spec"].get("finalizers", ()) if each != "kubernetes"
            ]}  # fmt: skip
            if not spec["finalizers"]:
                del spec["finalizers"]
            self.tools.registry.modify("namespaces", "", name, lambda each: {**each, "spec": spec})
            return None
        return _RETRY_AFTER

    def _empty(self, name: str) -> bool:
        """Delete all objects in the namespace, and return whether it is empty."""
        left = False
        for storage in self.tools.store.storages():
            for stored in list(self.tools.store.objects(storage, name)):
                metadata = stored.document["metadata"]
                if not metadata.get("deletionTimestamp"):
                    self.tools.delete(storage, name, metadata["name"])
                left = left or self.tools.find(storage, name, metadata["name"]) is not None
        return not left


def finalize_namespace(registry: Registry, resource: Resource, name: str, document: Document) -> Stored:
    """Set the remaining finalizers of a namespace."""
    registry.get(resource, "", name)
    finalizers = nested_field(document, "spec", "finalizers") or []
    if not isinstance(finalizers, list):
        raise bad_request("spec.finalizers must be a list")
    changed = registry.modify(
        "namespaces", "", name, lambda each: replaced(each, spec={"finalizers": finalizers} if finalizers else {})
    )
    if changed is None:
        raise bad_request(f'namespace "{name}" is gone')
    return changed


NAMESPACE: Final = Kind(
    Resource(
        "", "v1", "namespaces", "Namespace", namespaced=False, short_names=("ns",), subresources=("finalize", "status")
    ),
    set_defaults=_set_namespace_defaults,
    prepare=_prepare,
    name_errors=dns_label,
    check_deletion=_check_deletion,
    columns=columns("Name Status Age", _namespace_row),
    fields={"status.phase": field_reader("status", "phase")},
    returns_deleted=True,
    controllers=(NamespaceController,),
)
