"""ConfigMaps and Secrets."""

from typing import Any, Final

from mooring.apiserver.documents import Document
from mooring.apiserver.field_errors import FieldError, forbidden_field
from mooring.apiserver.field_rules import immutable
from mooring.cluster.api_resource import Resource
from mooring.cluster.kind import Kind
from mooring.cluster.selectors import field_reader
from mooring.cluster.table_printer import age, columns


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


CONFIG_MAP: Final = Kind(
    Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",)),
    set_defaults=_set_config_map_defaults,
    validate_update=_update_errors,
    columns=columns("Name Data Age", _config_map_row),
)
SECRET: Final = Kind(
    Resource("", "v1", "secrets", "Secret"),
    set_defaults=_set_secret_defaults,
    validate_update=_update_errors,
    columns=columns("Name Type Data Age", _secret_row),
    fields={"type": field_reader("type")},
)
