"""Pruning of custom resources, and checks of their metadata."""

from typing import Any

from mooring.apiserver.documents import Document
from mooring.cluster.schema.check import DecodeError, check
from mooring.cluster.schema.kubernetes import metadata_shape
from mooring.cluster.schema.shape import LIST, MAP, OBJECT, Shape


def prune_custom(document: Document, shape: Shape) -> list[str]:
    """Clean a document in place, and return the paths of fields that the schema does not have."""
    unknown: list[str] = []
    metadata = document.get("metadata")
    if metadata is not None:
        if not isinstance(metadata, dict):
            raise DecodeError("json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta")
        unknown += [f"metadata.{each}" for each in check(metadata, metadata_shape())]
    for key in list(document):
        if key in {"apiVersion", "kind", "metadata"}:
            continue
        if key in shape.fields:
            _prune(document[key], shape.fields[key], key, unknown)
        elif not shape.open:
            unknown.append(key)
            del document[key]
    return unknown


def _prune(value: Any, shape: Shape, path: str, unknown: list[str]) -> None:
    if shape.kind == OBJECT and isinstance(value, dict):
        for key in list(value):
            child = shape.fields.get(key)
            if child is not None:
                _prune(value[key], child, f"{path}.{key}", unknown)
            elif shape.embedded and key in {"apiVersion", "kind", "metadata"}:
                continue
            elif not shape.open:
                unknown.append(f"{path}.{key}")
                del value[key]
    elif shape.kind == MAP and isinstance(value, dict) and shape.item is not None:
        for key, each in value.items():
            _prune(each, shape.item, f"{path}.{key}", unknown)
    elif shape.kind == LIST and isinstance(value, list) and shape.item is not None:
        for index, each in enumerate(value):
            _prune(each, shape.item, f"{path}[{index}]", unknown)
