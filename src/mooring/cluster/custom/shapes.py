"""A CustomResourceDefinition's schema as a shape, for pruning, patching and server-side apply."""

from typing import Any, Final

from mooring.apiserver.documents import copied
from mooring.cluster.schema.shape import ANY, BOOLEAN, INT_OR_STRING, INTEGER, LIST, MAP, NUMBER, OBJECT, STRING, Shape

_SCALARS: Final = {"string": STRING, "integer": INTEGER, "number": NUMBER, "boolean": BOOLEAN}


def shape_of_schema(schema: dict[str, Any]) -> Shape:
    """The shape that a structural schema describes."""
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        return Shape(INT_OR_STRING)
    if kind == "object":
        shape = _object(schema)
    elif kind == "array":
        shape = Shape(LIST)
        shape.item = shape_of_schema(schema.get("items") or {})
        shape.list_type = schema.get("x-kubernetes-list-type", "atomic")
        shape.list_keys = tuple(schema.get("x-kubernetes-list-map-keys", ()))
    else:
        shape = Shape(_SCALARS.get(kind or "", ANY))
    shape.nullable = bool(schema.get("nullable"))
    shape.default = schema.get("default")
    return shape


def _object(schema: dict[str, Any]) -> Shape:
    extra = schema.get("additionalProperties")
    properties = schema.get("properties") or {}
    shape = Shape(MAP if extra and not properties else OBJECT)
    shape.fields = {key: shape_of_schema(each) for key, each in properties.items()}
    shape.required = frozenset(schema.get("required", ()))
    shape.open = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or bool(extra)
    shape.embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    shape.atomic = schema.get("x-kubernetes-map-type") == "atomic"
    if isinstance(extra, dict):
        shape.item = shape_of_schema(extra)
    return shape


def with_defaults(value: Any, schema: dict[str, Any]) -> None:
    """Fill in the defaults of a schema in place. Null counts as absent where null is not allowed."""
    if isinstance(value, dict):
        for key, each in (schema.get("properties") or {}).items():
            if value.get(key) is None and not each.get("nullable") and ("default" in each or key in value):
                value.pop(key, None)
                if "default" in each:
                    value[key] = copied(each["default"])
            if key in value:
                with_defaults(value[key], each)
        extra = schema.get("additionalProperties")
        if isinstance(extra, dict):
            for each in value.values():
                with_defaults(each, extra)
    elif isinstance(value, list) and isinstance(schema.get("items"), dict):
        for each in value:
            with_defaults(each, schema["items"])
