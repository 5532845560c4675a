"""ConfigMaps and Secrets, and the controller that publishes the CA certificate of the API server."""

from collections.abc import Iterable
from typing import Any, Final

from mooring.apiserver.documents import Document
from mooring.apiserver.field_errors import FieldError, forbidden_field
from mooring.apiserver.field_rules import immutable
from mooring.cluster.api_resource import Resource
from mooring.cluster.controllers.controller import Controller, Key
from mooring.cluster.kind import Kind
from mooring.cluster.selectors import field_reader
from mooring.cluster.store import Change
from mooring.cluster.table_printer import age, columns

ROOT_CERTIFICATE: Final = "kube-root-ca.crt"
_DESCRIPTION: Final = "kubernetes.io/description"
_USE: Final = "The CA certificate with which clients verify the API server of this cluster."


def _set_config_map_defaults(document: Document) -> None:
    if not document.get("data", True):
        del document["data"]


def _set_secret_defaults(document: Document) -> None:
    document.setdefault("type", "Opaque")
    plain = document.pop("stringData", None)
    if plain:
        import base64

        coded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        document["data"] = {**document.get("data", {}), **coded}


def _update_errors(new: Document, old: Document) -> list[FieldError]:
    errors: list[FieldError] = []
    if old.get("immutable"):
        if not new.get("immutable"):
            errors.append(forbidden_field("immutable", "field is immutable when `immutable` is set"))
        errors.extend(
            forbidden_field(key, "field is immutable when `immutable` is set")
            for key in ("data", "binaryData")
            if new.get(key) != old.get(key)
        )
    if new.get("kind") == "Secret":
        errors += immutable(new.get("type"), old.get("type"), "type")
    return errors


def _config_map_row(document: Document, now: float) -> list[Any]:
    size = len(document.get("data", {})) + len(document.get("binaryData", {}))
    return [document["metadata"]["name"], size, age(document, now)]


def _secret_row(document: Document, now: float) -> list[Any]:
    size = len(document.get("data", {}))
    return [document["metadata"]["name"], document.get("type", ""), size, age(document, now)]


class RootCertificateController(Controller):
    """A controller that publishes the CA certificate of the API server in every namespace."""

    name = "root-ca-certificate-publisher-controller"
    watched = frozenset({"namespaces", "configmaps"})

    def keys_for(self, storage: str, change: Change) -> Iterable[Key]:
        """Return the namespace, or the namespace of a changed certificate."""
        metadata = change.stored.document["metadata"]
        if storage == "namespaces":
            return [("", metadata["name"])]
        return [("", metadata["namespace"])] if metadata["name"] == ROOT_CERTIFICATE else []

    def reconcile(self, namespace: str, name: str) -> float | None:
        """Create the ConfigMap, or restore its data."""
        space = self.tools.find("namespaces", "", name)
        if space is None or space["metadata"].get("deletionTimestamp"):
            return None
        data = {"ca.crt": self.tools.authority}
        changed = self.tools.registry.modify("configmaps", name, ROOT_CERTIFICATE, lambda each: {**each, "data": data})
        if changed is None:
            metadata = {"name": ROOT_CERTIFICATE, "annotations": {_DESCRIPTION: _USE}}
            self.tools.create("configmaps", name, {"metadata": metadata, "data": data})
        return None


CONFIG_MAP: Final = Kind(
    Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    set_defaults=_set_config_map_defaults,
    validate_update=_update_errors,
    columns=columns("Name Data Age", _config_map_row),
    controllers=(RootCertificateController,),
)
SECRET: Final = Kind(
    Resource("", "v1", "secrets", "Secret"),
    set_defaults=_set_secret_defaults,
    validate_update=_update_errors,
    columns=columns("Name Type Data Age", _secret_row),
    fields={"type": field_reader("type")},
)
