"""Roles, role bindings and service accounts, and the controller that creates the default service accounts."""

from collections.abc import Iterable
from typing import Any, Final

from mooring.apiserver.documents import Document
from mooring.apiserver.field_errors import FieldError, invalid, required
from mooring.apiserver.field_rules import choice
from mooring.apiserver.object_names import path_segment
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.kind import Kind
from mooring.cluster.store import Change
from mooring.cluster.table_printer import PLAIN, age, columns


def _set_role_binding_defaults(document: Document) -> None:
    if document["roleRef"]:
        document["roleRef"].setdefault("apiGroup", "rbac.authorization.k8s.io")
    for subject in document.get("subjects", ()):
        if subject.get("kind") in {"User", "Group"}:
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _binding_errors(document: Document) -> list[FieldError]:
    role = document.get("roleRef") or {}
    kinds = ("ClusterRole",) if document.get("kind") == "ClusterRoleBinding" else ("Role", "ClusterRole")
    errors = choice(role.get("kind"), "roleRef.kind", kinds, needed=True)
    return errors if role.get("name") else [*errors, required("roleRef.name")]


def _binding_update_errors(new: Document, old: Document) -> list[FieldError]:
    if new.get("roleRef") == old.get("roleRef"):
        return []
    role = new.get("roleRef") or {}
    shown = {"APIGroup": role.get("apiGroup", ""), "Kind": role.get("kind", ""), "Name": role.get("name", "")}
    return [invalid("roleRef", shown, "cannot change roleRef")]


def _role_binding_row(document: Document, now: float) -> list[Any]:
    subjects = document.get("subjects", ())

    def named(kind: str) -> str:
        return ", ".join(each["name"] for each in subjects if each.get("kind") == kind)

    accounts = ", ".join(
        f"{each.get('namespace', '')}/{each['name']}" for each in subjects if each.get("kind") == "ServiceAccount"
    )
    role = f"{document['roleRef'].get('kind')}/{document['roleRef'].get('name')}"
    return [document["metadata"]["name"], role, age(document, now), named("User"), named("Group"), accounts]


class ServiceAccountController(Controller):
    """A controller that creates the default service account of every namespace."""

    name = "serviceaccount-controller"
    watched = frozenset({"namespaces", "serviceaccounts"})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return the namespace, or the namespace of a default service account."""
        metadata = change.stored.document["metadata"]
        if storage == "namespaces":
            return [("", metadata["name"])]
        return [("", metadata["namespace"])] if metadata["name"] == _DEFAULT else []

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Create the service account if it does not exist."""
        space = self.tools.find("namespaces", "", name)
        if space is None or space["metadata"].get("deletionTimestamp"):
            return None
        if self.tools.find("serviceaccounts", name, _DEFAULT) is None:
            self.tools.create("serviceaccounts", name, {"metadata": {"name": _DEFAULT}})
        return None


_DEFAULT: Final = "default"
_GROUP: Final = "rbac.authorization.k8s.io"
_BINDING_COLUMNS: Final = columns("Name Role Age +Users +Groups +ServiceAccounts", _role_binding_row)

SERVICE_ACCOUNT: Final = Kind(
    Resource("", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",), subresources=("token",)),
    returns_deleted=True,
    controllers=(ServiceAccountController,),
)
ROLE: Final = Kind(Resource(_GROUP, "v1", "roles", "Role"), name_errors=path_segment, columns=PLAIN)
CLUSTER_ROLE: Final = Kind(
    Resource(_GROUP, "v1", "clusterroles", "ClusterRole", namespaced=False), name_errors=path_segment, columns=PLAIN
)
ROLE_BINDING: Final = Kind(
    Resource(_GROUP, "v1", "rolebindings", "RoleBinding"),
    set_defaults=_set_role_binding_defaults,
    validate=_binding_errors,
    validate_update=_binding_update_errors,
    name_errors=path_segment,
    columns=_BINDING_COLUMNS,
)
CLUSTER_ROLE_BINDING: Final = ROLE_BINDING._replace(
    resource=Resource(_GROUP, "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False)
)
